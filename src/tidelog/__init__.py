"""tidelog keeps the consequences of rules right while facts and rules change."""

__version__ = "0.1.0"

"""Measurements of tidelog beside its peers: `python -m benchmarks --help`."""

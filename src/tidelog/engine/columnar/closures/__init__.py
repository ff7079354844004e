"""Closures: structures that derive and maintain transitive relations instead of rules."""

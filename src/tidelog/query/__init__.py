"""Answering queries: strategies, and queries that are kept."""

"""Tests of the Spark engine, and of what runs on it."""

"""Tests that what the documentation says is so."""

"""Maintenance: the algorithms that keep consequences right while facts and rules change, one per file."""

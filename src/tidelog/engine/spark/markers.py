"""What executors say in error messages so that the driver understands it."""

from __future__ import annotations

OVERFLOW = "tidelog: overflow in rule"
TOO_MANY = "tidelog: too many facts"
OUT_OF_RANGE = "tidelog: a time left the range"

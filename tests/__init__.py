"""Tests of tidelog. `strategies` draws random programs."""

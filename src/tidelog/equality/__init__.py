"""Equality: constants that stand for one thing, by axioms or by representatives."""

"""Engines: the contract, the fixpoint loop, events, and the slow oracle."""

"""Transactions: the journal, sets of facts, counters, ranks and marks."""

"""Rules over time: DatalogMTL over columns of intervals."""

"""Storage: relations as tables of ids, their indexes, and what is old and new in each round."""

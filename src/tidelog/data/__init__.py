"""Data: rows, columns, the dictionary of values, and relations as users see them. Knows no engine."""

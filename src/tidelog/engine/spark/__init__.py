"""The Spark engine: facts in data frames, plans as joins of them, fixpoints inside executors."""

"""The command line. Only here is rich imported; nothing is imported before it is needed."""

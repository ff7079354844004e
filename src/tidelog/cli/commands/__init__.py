"""The commands, one module each; each is imported only when it is given."""

"""The commands, imported only when they are given; `tidelog.__main__` says which module has which.

Each has a function from the parsed options to the exit code.

Imports what `cli` imports. Begin with `run`.
"""

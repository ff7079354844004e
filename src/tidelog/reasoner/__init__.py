"""The reasoner: a program, its facts, and everything that follows. Re-exports `Reasoner`."""

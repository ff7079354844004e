"""Stores: a program, its facts and all that follows from them in a folder that outlives the process."""

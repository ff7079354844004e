"""Stores: a program, its facts and everything derived from them, durable in a folder."""

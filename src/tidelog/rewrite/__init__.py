"""Rewriting: passes from programs to programs that mean the same."""

"""`make torture`: random programs and long histories of changes, run in every way, until something breaks.

A seed makes a *scenario*: a program, and transactions that toggle some of its facts and rules. What holds
after each of them is derived from scratch by the reference engine. *Hands* carry the same scenario out: every
maintainer and marking, transactions and streams, live and prepared queries, stores that crash or are killed.
"""

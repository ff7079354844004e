"""Ontologies: the axioms of an OWL ontology as rules.

Begin with `load_ontology` in `ontology.py`, which puts the steps together: `schema_closure.py` reads the
triples and derives what the OWL 2 RL tables (`owl2rl.rls`) say about the ontology itself; `owl2rl.py`
specialises the tables to it; `rl_coverage.py` lists the axioms that rules do not cover.

It may import the engine, which derives the closure, io and what lies below these.
"""

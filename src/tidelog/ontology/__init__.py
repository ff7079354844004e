"""Ontologies: OWL axioms as rules."""

"""Rewriting: functions from programs to programs that derive the same, for another purpose or place.

Begin with `magic_sets.py`, which derives only what queries request, with `factoring.py` for linear recursion.
`representatives.py` makes rules over one representative of each class of equal constants.
`delete_rederive.py` turns maintenance itself into rules. `auxiliary_relations.py` splits rules for
maintenance, finds closures and orders bodies. `localise.py` divides a program among tasks:
`localise_rules.py` prepares its rules, `localise_plans.py` plans each of them, `localise_homes.py` places the
relations. `renaming.py` is used by all.

It may import logic and what lies below; neither plans nor engines.
"""

"""A rewritten program as people read it: its relations have names that a program could have.

Invariant: read back and run, the program gives the answers to the queries.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from tidelog.logic.program import Atom, Fact, Predicate, Program, Rule
from tidelog.logic.values import ColumnType
from tidelog.rewrite.adornment import Adorned, Kind
from tidelog.rewrite.magic_sets import Rewritten
from tidelog.rewrite.renaming import with_predicates

MARKS = {Kind.MAGIC: "magic_", Kind.CONTEXT: "context_", Kind.SUPPLEMENTARY: "join_"}


def readable(program: Program, rewritten: Rewritten) -> Program:
    """The program with the rules of the rewritten one, and the bindings that these begin with as facts."""
    names = _names(rewritten.relations, program.predicates)
    for head in dict.fromkeys(rule.head.predicate for rule in rewritten.rules):
        if " " in head and head not in names:
            names[head] = _free("answer", {*program.predicates, *names.values()})
    rules = tuple(with_predicates(rule, names) for rule in rewritten.rules)
    seeds = tuple(Fact(names[seed.predicate], seed.values) for seed in rewritten.seeds)
    arities = {atom.predicate: len(atom.terms) for rule in rules for atom in _atoms(rule)}
    arities.update({seed.predicate: len(seed.values) for seed in seeds})
    added = {
        names[name]: _predicate(names[name], arities[names[name]], relation, program.predicates)
        for name, relation in rewritten.relations.items()
        if names[name] in arities
    }
    kept = {name: each for name, each in program.predicates.items() if name in arities}
    facts = tuple(fact for fact in program.facts if fact.predicate in kept)
    imports = tuple(each for each in program.imports if each.predicate in kept)
    return replace(
        program,
        predicates={**kept, **added},
        rules=rules,
        facts=(*facts, *seeds),
        imports=imports,
        exports=(),
        outputs=(),
        queries=(),
    )


def _atoms(rule: Rule) -> Sequence[Atom]:
    return (rule.head, *rule.positive, *rule.negated)


def _names(relations: Mapping[str, Adorned], predicates: Mapping[str, Predicate]) -> dict[str, str]:
    """For each relation a name that a program could have and that nothing else in it has."""
    taken = set(predicates)
    names: dict[str, str] = {}
    for name, relation in relations.items():
        names[name] = _free(_described(relation.predicate, relation), taken)
        taken.add(names[name])
    return names


def _described(name: str, relation: Adorned) -> str:
    """The name with what the relation is before and after its local part."""
    cut = max(name.rfind(mark) for mark in ":/#") + 1
    local = name[cut:].replace(" ", "_").strip("?-_") or "answer"
    suffix = f"_{relation.adornment}" if relation.adornment else ""
    return f"{name[:cut]}{MARKS.get(relation.kind, '')}{local}{suffix}"


def _free(name: str, taken: Collection[str]) -> str:
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name}_{number}"
    return free


def _predicate(name: str, arity: int, relation: Adorned, known: Mapping[str, Predicate]) -> Predicate:
    original = known.get(relation.predicate)
    written = name
    if original is not None and original.written != original.name and not original.written.startswith("<"):
        written = _described(original.written, relation)  # `ex:path` becomes `ex:path_bf`
    elif ":" in name:
        written = f"<{name}>"
    return Predicate(name, arity, (None,) * arity, (ColumnType.ANY,) * arity, written)

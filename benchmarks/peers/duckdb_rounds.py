"""Semi-naive evaluation with temporary tables, written from the rules.

Balbin, Ramamohanarao: A Generalization of the Differential Approach to Recursive Query Evaluation,
Journal of Logic Programming 1987. Each rule instance is considered in one round only: the atoms before
the one that reads the last round's facts read older facts, the atoms after it read all.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from benchmarks.program import Program, Rule, Variable

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

COLUMNS = "xyz"
READERS = {
    ("int", "int"): "edges",
    ("string",): "names",
    ("string",) * 2: "pairs",
    ("string",) * 3: "triples",
}
PERFECT_HASH_BITS = 22
"""Up to this width DuckDB groups small integers by a plain array, as it does by default up to 12."""


def evaluate_in_rounds(program: Program, connection: DuckDBPyConnection) -> int:
    """The number of facts in the output predicates at the fixpoint."""
    connection.execute(f"SET perfect_ht_threshold = {PERFECT_HASH_BITS}")
    for component in components(program):
        rules = [rule for rule in program.rules if rule.head.predicate in component]
        for predicate in component:
            connection.execute(first_facts(predicate, component, rules, program))
        if any(recursive_atoms(rule, component) for rule in rules):
            close(component, rules, connection)
    counts = ", ".join(f'(SELECT count(*) FROM "{predicate}")' for predicate in program.outputs)
    row = connection.execute(f"SELECT {counts}").fetchone()
    return sum(row) if row else 0


def close(component: tuple[str, ...], rules: list[Rule], connection: DuckDBPyConnection) -> None:
    """The tables of the component hold all that its rules derive."""
    for predicate in component:
        connection.execute(f'CREATE TEMP TABLE "{predicate}_delta" AS FROM "{predicate}"')
        connection.execute(f'CREATE TEMP TABLE "{predicate}_old" AS FROM "{predicate}" LIMIT 0')
    changed = set(component)
    while changed:
        for predicate in component:
            connection.execute(next_facts(predicate, component, rules, changed))
        for predicate in changed:
            connection.execute(f'INSERT INTO "{predicate}_old" FROM "{predicate}_delta"')
        changed = {predicate for predicate in component if advance(predicate, connection)}


def advance(predicate: str, connection: DuckDBPyConnection) -> bool:
    """The new facts have become the last round's facts; the answer says whether there are any."""
    connection.execute(f'DROP TABLE "{predicate}_delta"')
    connection.execute(f'ALTER TABLE "{predicate}_new" RENAME TO "{predicate}_delta"')
    row = connection.execute(f'INSERT INTO "{predicate}" FROM "{predicate}_delta"').fetchone()
    return bool(row and row[0])


def first_facts(predicate: str, component: tuple[str, ...], rules: list[Rule], program: Program) -> str:
    """Makes the table of a predicate, with its imports and what rules from outside the component give."""
    imports = [
        f"FROM {READERS[each.types]}('{each.resource}')"
        for each in program.imports
        if each.predicate == predicate
    ]
    parts = imports + [
        select(rule, dict.fromkeys(range(len(rule.body)), ""))
        for rule in rules
        if rule.head.predicate == predicate and not recursive_atoms(rule, component)
    ]
    if parts == imports and parts:
        return f'CREATE TEMP TABLE "{predicate}" AS {parts[0]}'
    width = len(program.columns[predicate])
    empty = f"SELECT {', '.join(f'NULL::VARCHAR AS {column}' for column in COLUMNS[:width])} LIMIT 0"
    return f'CREATE TEMP TABLE "{predicate}" AS {distinct(parts or [empty], width)}'


def next_facts(predicate: str, component: tuple[str, ...], rules: list[Rule], changed: set[str]) -> str:
    """Makes the table of a predicate's facts that only this round derives."""
    parts = [
        select(rule, parts_read(rule, atom, component))
        for rule in rules
        if rule.head.predicate == predicate
        for atom in recursive_atoms(rule, component)
        if rule.body[atom].predicate in changed
    ]
    if not parts:
        return f'CREATE TEMP TABLE "{predicate}_new" AS FROM "{predicate}" LIMIT 0'
    width = next(len(rule.head.terms) for rule in rules if rule.head.predicate == predicate)
    columns = ", ".join(COLUMNS[:width])
    found = distinct(parts, width)
    return f'CREATE TEMP TABLE "{predicate}_new" AS FROM ({found}) ANTI JOIN "{predicate}" USING ({columns})'


def parts_read(rule: Rule, delta: int, component: tuple[str, ...]) -> dict[int, str]:
    """For each atom of the body the ending of the table that it reads."""
    endings = dict.fromkeys(range(len(rule.body)), "")
    endings |= {atom: "_old" for atom in recursive_atoms(rule, component) if atom < delta}
    return endings | {delta: "_delta"}


def recursive_atoms(rule: Rule, component: tuple[str, ...]) -> list[int]:
    return [position for position, atom in enumerate(rule.body) if atom.predicate in component]


def distinct(parts: list[str], width: int) -> str:
    columns = ", ".join(COLUMNS[:width])
    return f"SELECT {columns} FROM ({' UNION ALL '.join(parts)}) GROUP BY {columns}"


def select(rule: Rule, endings: dict[int, str]) -> str:
    """The rule as a query: joins of what its atoms read, duplicates kept."""
    tables = ", ".join(f'"{atom.predicate}{endings[at]}" AS a{at}' for at, atom in enumerate(rule.body))
    places: dict[str, str] = {}
    conditions = []
    for at, atom in enumerate(rule.body):
        for column, term in zip(COLUMNS, atom.terms, strict=False):
            place = f"a{at}.{column}"
            if isinstance(term, str):
                conditions.append(f"{place} = '{term}'")
            elif places.setdefault(term.name, place) != place:
                conditions.append(f"{place} = {places[term.name]}")
    heads = (places[term.name] if isinstance(term, Variable) else f"'{term}'" for term in rule.head.terms)
    columns = ", ".join(f"{head} AS {column}" for head, column in zip(heads, COLUMNS, strict=False))
    return f"SELECT {columns} FROM {tables}" + (f" WHERE {' AND '.join(conditions)}" if conditions else "")


def components(program: Program) -> Iterator[tuple[str, ...]]:
    """The strongly connected components of the predicates, those that are read first."""
    reads = reachable(program)
    remaining = list(program.columns)
    while remaining:
        ready = next(
            predicate
            for predicate in remaining
            if all(predicate in reads[other] or other not in remaining for other in reads[predicate])
        )
        component = tuple(
            other
            for other in remaining
            if other == ready or (other in reads[ready] and ready in reads[other])
        )
        yield component
        remaining = [predicate for predicate in remaining if predicate not in component]


def reachable(program: Program) -> dict[str, set[str]]:
    """For each predicate all that its facts depend on."""
    reads: dict[str, set[str]] = {predicate: set() for predicate in program.columns}
    for rule in program.rules:
        reads[rule.head.predicate] |= {atom.predicate for atom in rule.body}
    for middle in reads:
        for first in reads:
            if middle in reads[first]:
                reads[first] |= reads[middle]
    return reads

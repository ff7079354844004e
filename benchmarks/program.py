"""The programs of the workloads, read so that they can be said in the peers' languages.

Only what benchmarks/programs needs is understood: one statement per line, no functions, no negation.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent / "programs"

IMPORT = re.compile(r'@import (\w+) :- tsv\{resource = "([^"]+)", format = \(([^)]*)\)\} \.')
ATOM = re.compile(r"(\w+)\(([^)]*)\)")


@dataclass(frozen=True)
class Variable:
    """A variable, without its question mark."""

    name: str


Term = Variable | str
"""A variable or a string; the workloads have no other constants in their rules."""


@dataclass(frozen=True)
class Atom:
    predicate: str
    terms: tuple[Term, ...]


@dataclass(frozen=True)
class Rule:
    head: Atom
    body: tuple[Atom, ...]


@dataclass(frozen=True)
class Import:
    """A file of facts and the types of its columns, `int` or `string`."""

    predicate: str
    resource: str
    types: tuple[str, ...]


@dataclass(frozen=True)
class Program:
    """Imports, rules, and the predicates whose facts are counted."""

    imports: tuple[Import, ...]
    rules: tuple[Rule, ...]
    outputs: tuple[str, ...]

    @property
    def columns(self) -> dict[str, tuple[str, ...]]:
        """The types of every predicate's columns; a program has one type for all constants."""
        kind = self.imports[0].types[0]
        heads = {rule.head.predicate: (kind,) * len(rule.head.terms) for rule in self.rules}
        return heads | {each.predicate: each.types for each in self.imports}


def read_program(name: str) -> Program:
    """The program of a workload.

    >>> program = read_program("W1")
    >>> program.outputs, len(program.rules), program.columns
    (('path',), 2, {'path': ('int', 'int'), 'edge': ('int', 'int')})
    """
    imports: list[Import] = []
    rules: list[Rule] = []
    outputs: list[str] = []
    for line in program_path(name).read_text(encoding="utf-8").splitlines():
        if line.startswith("@import"):
            imports.append(read_import(line))
        elif line.startswith("@output"):
            outputs += re.findall(r"\w+", line.removeprefix("@output"))
        elif line and not line.startswith("%"):
            rules.append(read_rule(line))
    return Program(tuple(imports), tuple(rules), tuple(outputs))


def read_imports(text: str) -> tuple[Import, ...]:
    """The imports of a program's text."""
    return tuple(read_import(line) for line in text.splitlines() if line.startswith("@import"))


def rule_lines(text: str) -> list[str]:
    """The rules of a program's text, one each."""
    return [line for line in text.splitlines() if ":-" in line and line[0] not in "@%"]


def program_path(name: str) -> Path:
    return FOLDER / f"{name}.rls"


def read_import(line: str) -> Import:
    found = IMPORT.fullmatch(line)
    if found is None:
        raise ValueError(f"not an import that the benchmarks can read: {line}")
    predicate, resource, types = found.groups()
    return Import(predicate, resource, tuple(re.findall(r"\w+", types)))


def read_rule(line: str) -> Rule:
    head, *body = [
        Atom(predicate, tuple(read_term(term.strip()) for term in terms.split(",")))
        for predicate, terms in ATOM.findall(line)
    ]
    return Rule(head, tuple(body))


def read_term(term: str) -> Term:
    return Variable(term[1:]) if term.startswith("?") else term.strip('"')

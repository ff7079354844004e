"""The corpus: small programs that each ask one thing, with what must follow.

`cases/<area>/<name>.rls` is the program. Beside it may lie

- `<name>/`: a CSV file for each output predicate, as `tidelog run --output` writes it;
- `<name>.answers/`: the answers to its queries, `1.csv`, `2.csv`…;
- `<name>.error`: the code of the error that it must end with;
- `<name>.params`: a line `name=value` for each parameter;
- `<name>.data/`: what it imports and includes;
- `<name>.changes`: a change script, and `<name>.deltas/`: what each of its transactions changes, as `tidelog
  stream --deltas` writes it.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import tidelog as tl
from tidelog.data.relation import Relation
from tidelog.engine import reference
from tidelog.engine.columnar.engine import EngineSettings
from tidelog.io.data_file import file_name
from tidelog.io.write import write
from tidelog.logic.conversions import exact, plain, read_exact
from tidelog.logic.program import BOTTOM, Predicate, Program, Query
from tidelog.logic.values import Value, order_key

FOLDER = Path(__file__).parent / "cases"

Texts = dict[str, str]  # the content of each file


@dataclass(frozen=True)
class Case:
    """One program of the corpus."""

    path: Path

    @property
    def name(self) -> str:
        """`area/name`, as tests show it."""
        return str(self.path.relative_to(FOLDER).with_suffix(""))

    def program(self) -> Program:
        """The program, resolved."""
        return tl.load(self.path, parameters=self.parameters)

    @property
    def parameters(self) -> dict[str, str]:
        """The parameters that are given to the program."""
        path = self.path.with_suffix(".params")
        lines = path.read_text().splitlines() if path.exists() else []
        return dict(line.split("=", 1) for line in lines)

    @property
    def error(self) -> str | None:
        """The code of the error that the program must end with, if any."""
        path = self.path.with_suffix(".error")
        return path.read_text().strip() if path.exists() else None

    @property
    def expected(self) -> Texts:
        """What the program must put out, file by file."""
        return _texts(self.path.with_suffix(""))

    @property
    def answers(self) -> Texts:
        """The answers to the program's queries."""
        return _texts(self.path.with_suffix(".answers"))

    @property
    def changes(self) -> Path:
        """The change script, if there is one."""
        return self.path.with_suffix(".changes")

    @property
    def deltas(self) -> Texts:
        """What the transactions of the change script change."""
        return delta_texts(self.path.with_suffix(".deltas"))


def delta_texts(folder: Path) -> Texts:
    """The content of each file of each transaction in a folder of deltas."""
    files = sorted(folder.glob("*/*.csv"))
    return {str(path.relative_to(folder)): path.read_text(encoding="utf-8") for path in files}


def _texts(folder: Path) -> Texts:
    return {path.name: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.csv"))}


def cases() -> list[Case]:
    """All cases; what lies in a case's data is none."""
    found = sorted(FOLDER.rglob("*.rls"))
    return [Case(path) for path in found if path.parent.suffix != ".data"]


# ---- engines


@dataclass(frozen=True)
class Outcome:
    """What an engine makes of a program: its output, its answers, and all its facts as exact terms."""

    output: Texts
    answers: Texts
    facts: dict[str, frozenset[tuple[str, ...]]]


def run_reference(program: Program) -> Outcome:
    """The program evaluated naively."""
    facts = reference.evaluate(program, imported(program))
    output = {
        file_name(predicate.written, "csv"): _rows_as_csv(_header(predicate), facts[predicate.name])
        for predicate in _outputs(program)
    }
    answers = {
        f"{number}.csv": _rows_as_csv(query.variables or ("holds",), reference.answer(query, facts))
        for number, query in enumerate(program.queries, 1)
    }
    exactly = {name: frozenset(tuple(map(exact, row)) for row in rows) for name, rows in facts.items()}
    return Outcome(output, answers, exactly)


def run_columnar(program: Program, threads: int, modules: bool = True) -> Outcome:
    """The program on the embedded engine."""
    return run_engine(program, "columnar", threads, modules)


def run_engine(
    program: Program, engine: str | EngineSettings, threads: int = 1, modules: bool = True
) -> Outcome:
    """The program on an engine."""
    equality = "rewrite" if engine == "columnar" else "axiomatise"
    reasoner = tl.Reasoner(program, threads=threads, modules=modules, engine=engine, equality=equality)
    output = {
        file_name(predicate.written, "csv"): _relation_as_csv(reasoner[predicate.name])
        for predicate in _outputs(program)
    }
    answers = {
        f"{number}.csv": _relation_as_csv(reasoner.query(_body(query)))
        for number, query in enumerate(program.queries, 1)
    }
    facts = {
        predicate.name: frozenset(reasoner[predicate.name].to_texts("exact").rows())
        if predicate.arity
        else frozenset([()] * len(reasoner[predicate.name]))
        for predicate in program.predicates.values()
    }
    return Outcome(output, answers, facts)


def _outputs(program: Program) -> Iterable[Predicate]:
    return (program.predicates[name] for name in program.output_predicates if name != BOTTOM)


def imported(program: Program) -> dict[str, list[tuple[Value, ...]]]:
    """The facts that the program imports, read by the embedded engine but without its rules."""
    reasoner = tl.Reasoner(replace(program, rules=(), facts=()))
    return {
        name: [tuple(map(read_exact, row)) for row in reasoner[name].to_texts("exact").rows()]
        if program.predicates[name].arity
        else [()] * len(reasoner[name])
        for name in {transfer.predicate for transfer in program.imports}
    }


def _body(query: Query) -> str:
    return query.text.strip().removeprefix("?-").removesuffix(".")


# ---- CSV


def _header(predicate: Predicate) -> Sequence[str]:
    if not predicate.arity:
        return ("holds",)
    return [name or f"c{place}" for place, name in enumerate(predicate.columns, 1)]


def _rows_as_csv(header: Sequence[str], rows: Iterable[tuple[Value, ...]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    for row in sorted(rows, key=lambda row: tuple(map(order_key, row))):
        writer.writerow(list(map(plain, row)) or ["true"])
    return text.getvalue()


def _relation_as_csv(relation: Relation) -> str:
    stream = io.BytesIO()
    write(stream, "csv", relation.columns or ("holds",), [relation.sorted().to_texts().table])
    return stream.getvalue().decode()

"""What is asked of which workload: a query for each number of free arguments, about one thing or another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.facts import FACEBOOK, TYPE, UNIVERSITY
from benchmarks.workloads import ASKED

DEPARTMENT = "http://www.Department0.University0.edu"
OTHERS = 20  # things that are asked about after the first


@dataclass(frozen=True)
class Question:
    """A query about a thing, which is written as `{}`; without one, all that there is."""

    text: str

    def about(self, number: int) -> str:
        """The query about one of the things."""
        return self.text.format(number)

    @property
    def is_bound(self) -> bool:
        return "{}" in self.text


PATHS = {0: Question("path({}, 100)"), 1: Question("path({}, ?y)"), 2: Question("path(?x, ?y)")}
REACHED = {1: PATHS[1]}
STUDENT = f"{DEPARTMENT}/GraduateStudent{{}}"
QUESTIONS: Mapping[str, Mapping[int, Question]] = {
    **{name: PATHS for name in ASKED if not name.startswith("lubm")},
    **dict.fromkeys(("W7L", "W7R", "friends", "friends-left"), REACHED),
    "lubm-rdfs": {
        0: Question(f'triple("{STUDENT}", "rdf:type", "ub:Person")'),
        2: Question(f'triple("{STUDENT}", ?p, ?o)'),
        3: Question("triple(?s, ?p, ?o)"),
    },
    "lubm-owl": {
        0: Question(f"triple(<{STUDENT}>, <{TYPE}>, <{UNIVERSITY}Person>)"),
        2: Question(f"triple(<{STUDENT}>, ?p, ?o)"),
        3: Question("triple(?s, ?p, ?o)"),
    },
}
NEEDED: Mapping[str, Path] = dict.fromkeys(("facebook", "facebook-left", "friends", "friends-left"), FACEBOOK)


def is_there(workload: str) -> bool:
    """Whether the data of a workload can be made."""
    return workload not in NEEDED or NEEDED[workload].exists()


def bound(query: str) -> str:
    """The pattern of bindings, `bf` for a first argument that is bound."""
    inner = query[query.index("(") + 1 : query.rindex(")")]
    return "".join("f" if term.strip().startswith("?") else "b" for term in inner.split(","))

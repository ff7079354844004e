"""Universities, departments and their people, in the manner of the Lehigh University Benchmark.

Guo, Pan, Heflin: LUBM, A Benchmark for OWL Knowledge Base Systems, Journal of Web Semantics 2005.

Every fact belongs to one department; departments are drawn until there are as many facts as asked for,
and the last one is cut short, so that the number of facts is exact.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Numbers = NDArray[np.int64]
Facts = dict[str, pa.Table]

DEPARTMENTS_PER_UNIVERSITY = 20
UNIVERSITIES_PER_CONSORTIUM = 10
UNIVERSITIES_WITH_ALUMNI = 1000
FEWEST_FACTS_PER_DEPARTMENT = 4000
ONTOLOGY = Path(__file__).parent / "programs" / "ontology.tsv"


@dataclass(frozen=True)
class Group:
    """The individuals of one kind, in the order of their departments."""

    departments: Numbers
    numbers: Numbers
    names: pa.Array

    @cached_property
    def counts(self) -> Numbers:
        return np.bincount(self.departments, minlength=int(self.departments[-1]) + 1)

    @cached_property
    def starts(self) -> Numbers:
        return np.concatenate([[0], np.cumsum(self.counts)[:-1]])


@dataclass(frozen=True)
class Statements:
    """Some facts of one predicate: a subject, an object unless the predicate is a class, a department."""

    predicate: str
    departments: Numbers
    subjects: pa.Array
    objects: pa.Array | None = None


def university_facts(size: int, seed: int = 5) -> Facts:
    """Exactly `size` facts, as one table per predicate in the order of the departments.

    The first column, `department`, says where a fact belongs and is no part of it.

    >>> sum(table.num_rows for table in university_facts(10_000).values())
    10000
    """
    departments = size // FEWEST_FACTS_PER_DEPARTMENT + 1
    drawn = list(draw_statements(departments, np.random.default_rng(seed)))
    predicates = dict.fromkeys(statements.predicate for statements in drawn)
    facts = {
        predicate: table_of([statements for statements in drawn if statements.predicate == predicate])
        for predicate in predicates
    }
    return cut(facts, size)


def university_triples(size: int) -> pa.Table:
    """The same facts as triples, department by department, after the triples of the ontology."""
    parts = [triples_of(predicate, table) for predicate, table in university_facts(size).items()]
    facts = pa.concat_tables(parts)
    order = np.argsort(facts.column("department").to_numpy(), kind="stable")
    return pa.concat_tables([ontology_triples(), facts.take(order).drop_columns(["department"])])


def ontology_triples() -> pa.Table:
    """The hierarchies, domains and ranges that the rules of W5 state, as triples."""
    lines = ONTOLOGY.read_text(encoding="utf-8").splitlines()
    columns = zip(*(line.split("\t") for line in lines), strict=True)
    return pa.table([pa.array(column) for column in columns], names=["subject", "property", "object"])


def triples_of(predicate: str, table: pa.Table) -> pa.Table:
    """A class as `rdf:type` triples, a property as its own triples."""
    name = pa.scalar(f"ub:{predicate}")
    if "object" in table.column_names:
        verbs, objects = pa.repeat(name, table.num_rows), table.column("object")
    else:
        verbs, objects = pa.repeat("rdf:type", table.num_rows), pa.repeat(name, table.num_rows)
    columns = [table.column("department"), table.column("subject"), verbs, objects]
    return pa.table(columns, names=["department", "subject", "property", "object"])


def table_of(parts: list[Statements]) -> pa.Table:
    """The facts of one predicate, sorted by department."""
    departments = np.concatenate([part.departments for part in parts])
    columns = {"department": pa.array(departments), "subject": pa.concat_arrays([p.subjects for p in parts])}
    if parts[0].objects is not None:
        columns["object"] = pa.concat_arrays([part.objects for part in parts])
    return pa.table(columns).take(np.argsort(departments, kind="stable"))


def cut(facts: Facts, size: int) -> Facts:
    """The first `size` facts: whole departments, and what fits of the last one."""
    departments = {predicate: table.column("department").to_numpy() for predicate, table in facts.items()}
    ends = np.cumsum(np.bincount(np.concatenate(list(departments.values()))))
    last = int(np.searchsorted(ends, size))
    surplus = int(ends[last]) - size
    kept = {}
    for predicate, table in facts.items():
        begin, end = np.searchsorted(departments[predicate], [last, last + 1])
        dropped = min(surplus, int(end - begin))
        surplus -= dropped
        kept[predicate] = table.slice(0, int(end) - dropped)
    return kept


def draw_statements(departments: int, random: np.random.Generator) -> Iterator[Statements]:
    """All facts of `departments` departments, the ones that matter least when cut first."""
    everywhere = np.arange(departments)
    faculty = {
        "FullProfessor": draw_group("FullProfessor", random.integers(7, 11, departments)),
        "AssociateProfessor": draw_group("AssociateProfessor", random.integers(10, 15, departments)),
        "AssistantProfessor": draw_group("AssistantProfessor", random.integers(8, 12, departments)),
        "Lecturer": draw_group("Lecturer", random.integers(5, 8, departments)),
    }
    professors = joined([faculty[rank] for rank in faculty if rank != "Lecturer"])
    teachers = joined(list(faculty.values()))
    students = {
        "UndergraduateStudent": draw_group(
            "UndergraduateStudent", teachers.counts * random.integers(8, 15, departments)
        ),
        "GraduateStudent": draw_group(
            "GraduateStudent", teachers.counts * random.integers(3, 5, departments)
        ),
    }
    yield from draw_contacts(faculty | students, random)
    yield from draw_publications(faculty, professors, students["GraduateStudent"], random)
    yield from draw_studies(students, teachers, professors, random)
    yield from draw_degrees(teachers, students["GraduateStudent"], random)
    yield from draw_organisation(everywhere, faculty, students, random)


def draw_contacts(people: dict[str, Group], random: np.random.Generator) -> Iterator[Statements]:
    """A class, a name, an address and a telephone number for everyone."""
    for kind, group in people.items():
        size = len(group.numbers)
        calls = random.integers(100, 1000, (2, size)).astype(np.int64)
        address = text(kind, group.numbers, "@", *host_of(group.departments))
        telephone = text(calls[0], "-", calls[1], "-", random.integers(1000, 10000, size))
        yield Statements("telephone", group.departments, group.names, telephone)
        yield Statements("emailAddress", group.departments, group.names, address)
        yield Statements("name", group.departments, group.names, text(kind, group.numbers))
        yield Statements(kind, group.departments, group.names)


def draw_publications(
    faculty: dict[str, Group], professors: Group, graduates: Group, random: np.random.Generator
) -> Iterator[Statements]:
    """Publications of every faculty member, some written together with the students they advise."""
    bounds = {"FullProfessor": (15, 21), "AssociateProfessor": (10, 19), "AssistantProfessor": (5, 11)}
    written = [random.integers(*bounds.get(rank, (1, 6)), len(faculty[rank].numbers)) for rank in faculty]
    authors = pa.concat_arrays([group.names for group in faculty.values()])
    departments = np.concatenate([group.departments for group in faculty.values()])
    counts = np.concatenate(written)
    by, numbers = spread(counts)
    names = text(authors.take(by), "/Publication", numbers)
    yield Statements("name", departments[by], names, text("Publication", numbers))
    yield Statements("Publication", departments[by], names)
    yield Statements("publicationAuthor", departments[by], names, authors.take(by))

    advisors = someone(professors, graduates.departments, random)
    yield Statements("advisor", graduates.departments, graduates.names, professors.names.take(advisors))
    position = pc.index_in(professors.names, authors).to_numpy()[advisors]
    first = np.concatenate([[0], np.cumsum(counts)[:-1]])[position]
    student, nth = spread(random.integers(0, 6, len(graduates.numbers)))
    chosen = first[student] + (student + nth) % counts[position[student]]
    yield Statements(
        "publicationAuthor", graduates.departments[student], names.take(chosen), graduates.names.take(student)
    )


def draw_studies(
    students: dict[str, Group], teachers: Group, professors: Group, random: np.random.Generator
) -> Iterator[Statements]:
    """Courses with the people who teach, attend and assist in them, and advisors for some."""
    attended = {}
    kinds = (("Course", "UndergraduateStudent", (2, 5)), ("GraduateCourse", "GraduateStudent", (1, 4)))
    for kind, audience, bounds in kinds:
        teacher, _ = spread(random.integers(1, 3, len(teachers.numbers)))
        courses = draw_group(kind, np.bincount(teachers.departments[teacher]))
        attended[kind] = courses
        group = students[audience]
        student, nth = spread(random.integers(*bounds, len(group.numbers)))
        at = group.departments[student]
        first = someone(courses, group.departments, random)[student] - courses.starts[at]
        course = courses.starts[at] + (first + nth) % courses.counts[at]
        yield Statements("name", courses.departments, courses.names, text(kind, courses.numbers))
        yield Statements("takesCourse", at, group.names.take(student), courses.names.take(course))
        yield Statements("teacherOf", courses.departments, teachers.names.take(teacher), courses.names)
        yield Statements(kind, courses.departments, courses.names)

    graduates, undergraduates = students["GraduateStudent"], students["UndergraduateStudent"]
    assistants = np.flatnonzero(random.random(len(graduates.numbers)) < 0.22)
    at = graduates.departments[assistants]
    course = someone(attended["Course"], at, random)
    names = graduates.names.take(assistants)
    yield Statements("teachingAssistantOf", at, names, attended["Course"].names.take(course))
    yield Statements("TeachingAssistant", at, names)
    researchers = np.flatnonzero(random.random(len(graduates.numbers)) < 0.29)
    yield Statements(
        "ResearchAssistant", graduates.departments[researchers], graduates.names.take(researchers)
    )
    advised = np.flatnonzero(random.random(len(undergraduates.numbers)) < 0.2)
    at = undergraduates.departments[advised]
    advisors = professors.names.take(someone(professors, at, random))
    yield Statements("advisor", at, undergraduates.names.take(advised), advisors)


def draw_degrees(teachers: Group, graduates: Group, random: np.random.Generator) -> Iterator[Statements]:
    """Three degrees for every teacher, one for every graduate student."""
    held = (
        ("undergraduateDegreeFrom", teachers),
        ("mastersDegreeFrom", teachers),
        ("doctoralDegreeFrom", teachers),
        ("undergraduateDegreeFrom", graduates),
    )
    for predicate, group in held:
        universities = random.integers(0, UNIVERSITIES_WITH_ALUMNI, len(group.numbers))
        yield Statements(predicate, group.departments, group.names, university_name(universities))


def draw_organisation(
    departments: Numbers, faculty: dict[str, Group], students: dict[str, Group], random: np.random.Generator
) -> Iterator[Statements]:
    """Who belongs where: research groups, departments, universities, consortia, and people in them."""
    names = text("http://www.", *host_of(departments))
    for kind, group in faculty.items():
        if kind != "Lecturer":
            interests = text("Research", random.integers(0, 30, len(group.numbers)))
            yield Statements("researchInterest", group.departments, group.names, interests)
        yield Statements("worksFor", group.departments, group.names, names.take(group.departments))
    for group in students.values():
        yield Statements("memberOf", group.departments, group.names, names.take(group.departments))

    research = draw_group("ResearchGroup", random.integers(10, 21, len(departments)))
    yield Statements("ResearchGroup", research.departments, research.names)
    yield Statements(
        "subOrganizationOf", research.departments, research.names, names.take(research.departments)
    )
    yield Statements("name", departments, names, text("Department", departments % DEPARTMENTS_PER_UNIVERSITY))
    yield Statements("Department", departments, names)
    universities = departments // DEPARTMENTS_PER_UNIVERSITY
    yield Statements("subOrganizationOf", departments, names, university_name(universities))
    heads = faculty["FullProfessor"]
    yield Statements("headOf", departments, heads.names.take(heads.starts), names)

    first = np.flatnonzero(departments % DEPARTMENTS_PER_UNIVERSITY == 0)
    university = university_name(universities[first])
    consortium = text("http://www.Consortium", universities[first] // UNIVERSITIES_PER_CONSORTIUM, ".org")
    yield Statements("subOrganizationOf", first, university, consortium)
    yield Statements("name", first, university, text("University", universities[first]))
    yield Statements("University", first, university)


def draw_group(kind: str, counts: Numbers) -> Group:
    """As many individuals of a kind in each department as `counts` says."""
    departments, numbers = spread(counts)
    return Group(departments, numbers, text("http://www.", *host_of(departments), "/", kind, numbers))


def joined(groups: list[Group]) -> Group:
    """One group of all individuals, in the order of their departments."""
    departments = np.concatenate([group.departments for group in groups])
    order = np.argsort(departments, kind="stable")
    numbers = np.concatenate([group.numbers for group in groups])[order]
    return Group(departments[order], numbers, pa.concat_arrays([group.names for group in groups]).take(order))


def someone(group: Group, departments: Numbers, random: np.random.Generator) -> Numbers:
    """For each department named, the position in the group of one of its individuals."""
    chosen = random.random(len(departments)) * group.counts[departments]
    return group.starts[departments] + chosen.astype(np.int64)


def spread(counts: Numbers) -> tuple[Numbers, Numbers]:
    """Each position as often as its count says, and a number from 0 within each position.

    >>> spread(np.array([2, 0, 1]))
    (array([0, 0, 2]), array([0, 1, 0]))
    """
    owners = np.repeat(np.arange(len(counts)), counts)
    return owners, np.arange(len(owners)) - np.repeat(np.cumsum(counts) - counts, counts)


def host_of(departments: Numbers) -> tuple[str | Numbers, ...]:
    """The pieces of a department's host name."""
    number = departments % DEPARTMENTS_PER_UNIVERSITY
    return "Department", number, ".University", departments // DEPARTMENTS_PER_UNIVERSITY, ".edu"


def university_name(universities: Numbers) -> pa.Array:
    return text("http://www.University", universities, ".edu")


def text(*pieces: str | Numbers | pa.Array) -> pa.Array:
    """The pieces written one after the other, row by row."""
    columns = [
        pa.array(piece).cast(pa.string()) if isinstance(piece, np.ndarray) else piece for piece in pieces
    ]
    return pc.binary_join_element_wise(*columns, "")

"""Write the facts of a made-up company, the same in every run: people, teams, folders and access.

Eight divisions in eight cities each; a department has five teams, a team thirty people. Everyone but the
director has a superior: team leads, heads of departments, heads of divisions.
"""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path

DIVISIONS = ("Sales", "Engineering", "Operations", "Finance", "Legal", "Research", "Support", "People")
CITIES = ("Oslo", "Lisbon", "Vienna", "Dublin", "Athens", "Krakow", "Geneva", "Tallinn")
TEAMS = 5
MEMBERS = 30
PROJECTS = ("Plans", "Contracts", "Reports", "Budgets", "Minutes", "Archive")
YEARS = (2023, 2024, 2025, 2026)
CONTRACTORS = 23  # one person in so many is no employee

FIRST_NAMES = """
Ada Bruno Clara Dora Emil Fritz Greta Hugo Ida Jonas Karl Lena Marta Nils Olga Pavel Rosa Sven Tilda
Udo Vera Willem Xenia Yann Zoe Anouk Boris Carmen Diego Elif Farid Giulia Hannah Igor Jana Kofi
Leila Mateo Nadia Oscar Petra Quentin Rita Samir Teresa Umar Viola Wanda Xaver Yara Agnes Bela Cora
Dario Elsa Finn Gerda Henk Ines Jakob Klara Luca Mira Noah Oda Paul
"""
LAST_NAMES = """
Abel Berg Costa Dahl Ekman Fischer Gruber Hansen Ivanov Jansen Keller Lund Meyer Novak Olsen Peeters
Quist Rossi Silva Tamm Ulrich Varga Weber Xanthos Young Zeman Alves Bauer Cerny Duarte Eriksen
Ferrari Garcia Horvat Ito Jung Kowalski Leroy Moreau Nagy Ortega Pinto Quinn Rojas Sato Toth Usman
Vidal Winter Xu Yilmaz Zimmer Ahmed Bianchi Cohen Dubois Egger Frank Greco Huber Islam Jensen Koch
Lopez Marin Nowak Okafor Perez Qureshi Ricci Schmid Torres Ueda Vogel Wagner Ximenez York Zhang
Arnold Becker Conti Diaz Esposito Fuchs Graf Haas Ivers Jaeger Kim Lang Mora Neri Otto Popov Quiroga
Ramos Steiner Thomas Urban Vega Wolf Xavier Yang Ziegler Aydin Bosch Castro Dietrich Ellis Fabre
Gomes Hoffman Ibsen Janssen Kaya Lehmann Molina Nilsen Oliveira Pereira Quayle Ruiz Santos Tanaka
Uribe Valente Walsh Xiong Yamada Zanetti Arslan Bakker Carlsen Demir Engel Ferreira Gatti Hermans
Ilic Johansen Kuhn Larsen Mendes Nunez Oberg Pokorny Quaglia Rivera Sousa Tran Ursu Vargas Wells
Xiao Yildiz Zografos
"""
FIRST = FIRST_NAMES.split()
LAST = LAST_NAMES.split()

Facts = dict[str, list[tuple[str, ...]]]
COLUMNS = {
    "reports_to": ("person", "superior"),
    "member": ("person", "team"),
    "part_of": ("unit", "whole"),
    "inside": ("folder", "outer"),
    "granted": ("unit", "folder"),
    "contractor": ("person",),
    "confidential": ("folder",),
}


def names() -> Iterator[str]:
    """Return distinct names of people."""
    size = len(FIRST) * len(LAST)
    for number in count():
        place = number * 7919 % size
        yield f"{FIRST[place % len(FIRST)]} {LAST[place // len(FIRST)]}"


def company() -> Facts:
    """Return all facts, by predicate."""
    facts: Facts = {name: [] for name in COLUMNS}
    people = names()
    director = next(people)
    facts["member"].append((director, "Company"))
    for place in ("Handbook", *(f"Handbook/{year}" for year in YEARS)):
        facts["inside"].append((place, "Handbook" if "/" in place else "Company"))
    facts["granted"].append(("Company", "Handbook"))
    for division in DIVISIONS:
        facts["part_of"].append((division, "Company"))
        facts["inside"].append((division, "Company"))
        head = _joins(facts, next(people), division, director)
        for city in CITIES:
            _department(facts, f"{division} {city}", division, people, head)
    facts["confidential"] += [("Legal",), ("Finance/Vienna/Budgets",)]
    employed = [person for person, team in facts["member"] if not team.startswith("Legal")]
    facts["contractor"] += [(person,) for person in employed[::-CONTRACTORS]]
    return facts


def _department(facts: Facts, name: str, division: str, people: Iterator[str], superior: str) -> None:
    folder = name.replace(" ", "/")
    facts["part_of"].append((name, division))
    facts["inside"].append((folder, division))
    for project in PROJECTS:
        facts["inside"].append((f"{folder}/{project}", folder))
        facts["inside"] += [(f"{folder}/{project}/{year}", f"{folder}/{project}") for year in YEARS]
    facts["granted"].append((name, f"{folder}/Minutes"))
    head = _joins(facts, next(people), name, superior)
    for number in range(1, TEAMS + 1):
        team = f"{name} {number}"
        facts["part_of"].append((team, name))
        facts["granted"] += [(team, f"{folder}/{PROJECTS[place % 4]}") for place in (number, number + 1)]
        lead = _joins(facts, next(people), team, head)
        for _ in range(MEMBERS - 1):
            _joins(facts, next(people), team, lead)


def _joins(facts: Facts, person: str, team: str, superior: str) -> str:
    facts["member"].append((person, team))
    facts["reports_to"].append((person, superior))
    return person


def text(columns: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """Return the rows as CSV, with a header."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    return stream.getvalue()


def main() -> None:
    """Write one compressed file for each predicate to the folder of this script."""
    for name, rows in company().items():
        path = Path(__file__).with_name(f"{name}.csv.gz")
        path.write_bytes(gzip.compress(text(COLUMNS[name], rows).encode(), mtime=0))


if __name__ == "__main__":
    main()

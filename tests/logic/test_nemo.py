"""Nemo as an oracle: where Nemo's functions have a value, ours have the same."""

from __future__ import annotations

import csv
import os
from pathlib import Path
from typing import Any

import pytest

from tidelog.logic import values
from tidelog.logic.conversions import read_any, read_exact
from tidelog.logic.functions.builtins import AGGREGATES, lookup
from tidelog.logic.values import Value

nemo = pytest.importorskip("nmo_python")

CALLS = """
1 + 1 | 1 + 1E0 | 3 - 5 | 2 * 3 | 7 / 2 | -7 / 2 | 7E0 / 2 | 1 / 0 | 1E0 / 0E0 | 1E308 * 1E1 | 1 = 1E0
1 != 1E0 | 1 <= 1E0 | 2 < 1 | 3 >= 2E0 | 3 > 3 | ABS(-5) | ABS(-1.5E0) | SQRT(15) | SQRT(2E0) | SQRT(-1)
ROUND(2.5E0) | ROUND(-2.5E0) | ROUND(3) | CEIL(1.2E0) | FLOOR(-1.2E0) | POW(2, 10) | POW(2, -1)
POW(2E0, 5E-1) | POW(0, 0) | LOG(9, 2) | LOG(8E0, 2E0) | LOG(0, 2) | LOG(8, 1) | REM(7, 3) | REM(-7, 3)
REM(7, -3) | REM(75E-1, 2) | REM(7, 0) | TAN(0E0) | SIN(1E0) | COS(1E0) | MIN(1, 2, 3) | MAX(1, 25E-1)
SUM(1, 2, 3) | SUM(1, 15E-1) | SUM() | PRODUCT(2, 3, 4) | LUKA(9E-1, 9E-1) | BITAND(7, 6, 5)
BITOR(6, 1) | BITXOR(-1, 1) | BITSHL(1, 63) | BITSHR(-8, 1) | BITSHRU(-8, 1) | BITAND(1E0, 1) | NOT(true)
NOT("a") | AND(true, false) | AND() | AND(true, 1) | OR(true, false) | OR() | STRLEN("é😀")
STRLEN("ab"@en) | STRLEN(alice) | STRLEN(12) | UCASE("straße é") | LCASE("ÀÉ"@fr) | STRREV("abc")
CONCAT("a", "b") | CONCAT("a"@en, "b"@en) | CONCAT("a"@en, "b") | CONCAT("a", b) | CONCAT("a", 1)
CONCAT() | SUBSTR("hello", 2) | SUBSTR("hello", 0) | SUBSTR("hello", 2, 2) | SUBSTR("hello", 2, 20)
SUBSTR("hello", 7) | SUBSTR("hello", -1, 3) | SUBSTR("hello"@en, 2) | STRBEFORE("abc", "b")
STRBEFORE("abc", "x") | STRBEFORE("abc", "") | STRBEFORE("abc"@en, "b") | STRBEFORE("abc"@en, "x")
STRAFTER("abc", "b") | STRAFTER("abc", "") | STRAFTER("abc", "x") | STRSTARTS("abc", "a")
STRSTARTS("abc"@en, "a"@fr) | STRSTARTS("abc", "a"@en) | STRSTARTS(abc, "a") | STRENDS("abc", "c")
CONTAINS("abc", "") | CONTAINS(abc, "b") | REGEX("abc", "^b") | REGEX("aBc", "(?i)b")
REGEX("abc"@en, "b") | URIENCODE("a b/é") | URIDECODE("a%20b") | URIDECODE("a%2") | URIDECODE("a+b")
URIDECODE("%FF") | COMPARE("a", "b") | COMPARE("a"@en, "b") | COMPARE("Z", "a") | COMPARE(1, 2)
LEVENSHTEIN("kitten", "sitting") | STR(alice) | STR(1) | STR(15E-1) | STR(1E3) | STR(1E-7) | STR(true)
STR("a"@en) | fullStr(alice) | fullStr("a"@en) | LANG("a"@en) | LANG("a") | LANG(a) | DATATYPE(1E1)
DATATYPE("a") | DATATYPE("a"@en) | DATATYPE(a) | DATATYPE(true) | IRI("a") | IRI(a) | IRI(1)
STRLANG("a", "en") | STRLANG("a"@en, "fr") | INT("12") | INT("1.7") | INT(2E0) | INT(17E-1) | INT(true)
INT("abc") | INT(abc) | INT("+2") | DOUBLE("15E-1") | DOUBLE(1) | DOUBLE("abc") | FLOAT(1) | isInteger(1)
isDouble(1E0) | isFloat(1E0) | isIri(a) | isNumeric(1) | isNumeric(true) | isString("a") | isString("a"@en)
isString(a)
"""

FIELDS = [
    *(
        "1",
        "01",
        "+1",
        " 1 ",
        "1.50",
        "+.5",
        ".5",
        "99999999999999999999",
        "1e3",
        "0x10",
        "1,5",
    ),
    *(
        "NaN",
        "alice",
        " alice ",
        "a-b",
        "a.b",
        "a/b",
        "é",
        "true",
        "2020-01-01",
        "Alice Smith",
        "  ",
        "http://x/y",
    ),
    *(
        "<http://x>",
        "<>",
        "_:b",
        "_",
        "?x",
        "it's",
        '"quoted"',
        '"a"b"',
        '"a"@en-GB',
        '""',
        '"x"^^<http://dt>',
    ),
    *(
        '"1"^^<http://www.w3.org/2001/XMLSchema#integer>',
        '"1.50"^^<http://www.w3.org/2001/XMLSchema#decimal>',
    ),
]

WHOLE_DECIMALS = ["1.0", "5.", "-0.0", '"2.0"^^<http://www.w3.org/2001/XMLSchema#decimal>']

GROUPS = ["1 2 3", "1 25E-1", '1 2 "a"', "1 1E0", '"a" "b"', "a b", "true 1", "9223372036854775807 1 -5"]


def calls() -> list[str]:
    """The calls of the table above, one by one."""
    return [call.strip() for call in CALLS.replace("\n", "|").split("|") if call.strip()]


def ours(call: str) -> Value | None:
    """The value of a call or an operation, without nesting."""
    if call.endswith(")"):
        name, _, rest = call[:-1].partition("(")
        arguments = rest.split(", ") if rest else []
    else:
        left, name, right = call.split(" ")
        arguments = [left, right]
    function = lookup(name)
    assert function is not None, call
    return function.call([read_exact(argument) for argument in arguments])


def theirs(item: Any) -> Value | None:
    """One of Nemo's values as one of ours."""
    if isinstance(item, bool):
        return values.boolean(item)
    if isinstance(item, int):
        return values.integer(item)
    if isinstance(item, float):
        return values.double(item)
    if isinstance(item, str):
        return read_exact(item)
    if item.language():
        return values.language_string(item.value(), item.language())
    return values.literal(item.value(), item.datatype())


def results(program: str) -> list[tuple[Any, ...]]:
    """The rows of `result` that Nemo derives."""
    engine = nemo.NemoEngine(nemo.load_string(program))
    engine.reason()
    return list(engine.result("result"))


def test_functions_have_nemos_values() -> None:
    rules = []
    for number, call in enumerate(calls()):
        is_comparison = any(f" {sign} " in call for sign in ("=", "!=", "<", "<=", ">", ">="))
        head, body = ("true", f", {call}") if is_comparison else (call, "")
        rules.append(f"result({number}, {head}) :- start(_){body} .")
    found = {row[0]: theirs(row[1]) for row in results("start(1) .\n" + "\n".join(rules))}
    assert len(found) > 100
    for number, call in enumerate(calls()):
        value = ours(call)
        assert (None if value == values.FALSE and number not in found else value) == found.get(number), call


def read_by_nemo(fields: list[str], data: Path) -> list[Value | None]:
    """What Nemo makes of the fields of a CSV file."""
    with data.open("w", newline="") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL).writerows(enumerate(fields))
    found = results(
        f'@import field :- csv{{resource="{os.fspath(data)}", format=(int, any)}} .\n'
        "result(?n, ?x) :- field(?n, ?x) ."
    )
    by_number = {number: theirs(item) for number, item in found}
    return [by_number[number] for number in range(len(fields))]


def test_fields_are_read_as_nemo_reads_them(tmp_path: Path) -> None:
    assert read_by_nemo(FIELDS, tmp_path / "fields.csv") == [read_any(field) for field in FIELDS]


def test_only_here_whole_decimals_of_data_stay_decimals(tmp_path: Path) -> None:
    found = read_by_nemo(WHOLE_DECIMALS, tmp_path / "fields.csv")
    for field, value in zip(WHOLE_DECIMALS, found, strict=True):
        assert value is not None and values.is_integer(value), field
        assert values.conform(value, values.ColumnType.DECIMAL) == read_any(field)


def test_whole_decimals_of_programs_are_no_integers_in_nemo_either() -> None:
    assert results("p(2.0) . q(2) . result(?x) :- p(?x), q(?x) .") == []
    ((quotient,),) = results("p(7) . result(?x / 2.0) :- p(?x) .")
    assert quotient == 3.5


@pytest.mark.parametrize("name", ["count", "sum"])
def test_aggregates_have_nemos_values(name: str) -> None:
    for group in GROUPS:
        terms = group.split(" ")
        expected = AGGREGATES[name]([(read_exact(term),) for term in terms])
        if expected is not None:  # Nemo stops if there is nothing to add
            facts = " ".join(f"p({term}) ." for term in terms)
            ((item,),) = results(f"{facts} result(#{name}(?x)) :- p(?x) .")
            assert theirs(item) == expected, group

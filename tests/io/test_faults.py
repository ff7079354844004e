"""What is wrong with data: exact messages, places and codes; what becomes of bad rows."""

from __future__ import annotations

import gzip
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tidelog.errors import DataError, codes, counted
from tidelog.io import delimited
from tidelog.io import rejects as faults_module
from tidelog.io.data_file import Header, data_file
from tidelog.io.python_data import from_python
from tidelog.io.reader import read
from tidelog.io.rejects import OnError, ReadReport, RejectedRows
from tidelog.logic.values import ColumnType as T

ReadRows = Callable[..., list[tuple[str, ...]]]
NUMBERS = (T.INTEGER, T.INTEGER)


def faults_of(read_rows: ReadRows, *arguments: object, **options: object) -> list[str]:
    """The faults of a reading that fails, as `code place: message`."""
    with pytest.raises(DataError) as caught:
        read_rows(*arguments, **options)
    return [f"{fault.code} {fault.place}: {fault.message}" for fault in caught.value.diagnostics]


def test_file_not_found(folder: Path) -> None:
    Path("edges.csv").write_text("")
    with pytest.raises(DataError) as caught:
        list(read(data_file(Path("edgse.csv"), None)))
    assert str(caught.value) == (
        "error[E501]: no such file: `edgse.csv`\n  --> edgse.csv\n  help: did you mean `edges.csv`?"
    )


def test_folder_is_not_a_file(folder: Path) -> None:
    Path("x.csv").mkdir()
    with pytest.raises(DataError, match=r"`x.csv` cannot be read: Is a directory"):
        list(read(data_file(Path("x.csv"), None)))


def test_unknown_format(folder: Path) -> None:
    with pytest.raises(DataError, match=r"E502.*the format of `x.doc` is not known by its extension"):
        data_file(Path("x.doc"), None)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.parquet", b"no"),
        ("x.arrow", b"no"),
        ("x.csv.gz", b"no"),
        ("x.csv.gz", gzip.compress(b"a,b\n" * 99, mtime=0)[:-9]),
    ],
)
def test_not_of_the_format(folder: Path, name: str, content: bytes) -> None:
    Path(name).write_bytes(content)
    with pytest.raises(DataError, match=rf"E502.*`{name}` (cannot be read as|is not) "):
        list(read(data_file(Path(name), None)))


def test_wrong_number_of_columns(read_rows: ReadRows) -> None:
    assert faults_of(read_rows, "a,b\nc\nd,e,f\n", (T.ANY, T.ANY)) == [
        "E503 edge.csv:2: the row has 1 column instead of 2",
        "E503 edge.csv:3: the row has 3 columns instead of 2",
    ]


def test_value_is_not_of_the_type(read_rows: ReadRows) -> None:
    assert faults_of(read_rows, "1,2\n3,x\n,4\n", NUMBERS) == [
        "E504 edge.csv:2:2: 'x' is not an integer",
        "E504 edge.csv:3:1: an empty field is not an integer",
    ]


def test_columns_are_named_where_names_are_known(read_rows: ReadRows) -> None:
    text = "to,from\n1,x\n"
    assert faults_of(read_rows, text, NUMBERS, header=Header.NAMES, names=("from", "to")) == [
        "E504 edge.csv:2:2: 'x' is not an integer (column `from`)"
    ]


@pytest.mark.parametrize(
    ("column_type", "text", "message"),
    [
        (T.DOUBLE, "NaN", "'NaN' is not a double"),
        (T.DOUBLE, "1e999", "'1e999' is not a double"),
        (T.DECIMAL, "1e3", "'1e3' is not a decimal number"),
        (T.BOOLEAN, "yes", "'yes' is not `true` or `false`"),
        (T.DATE, "2021-02-29", "'2021-02-29' is not a date such as 2020-12-31"),
        (T.DATETIME, "2021-01-01", "'2021-01-01' is not a dateTime such as 2020-12-31T23:59:59Z"),
        (T.IRI, "a b", "an IRI cannot hold the character ' ': 'a b'"),
        (T.TERM, "a b", "'a b' is not a term"),
    ],
)
def test_reasons_by_type(read_rows: ReadRows, column_type: T, text: str, message: str) -> None:
    assert faults_of(read_rows, f"{text}\n", (column_type,)) == [f"E504 edge.csv:1:1: {message}"]


def test_lines_are_right_after_quoted_lines_and_empty_ones(
    read_rows: ReadRows, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = '"a\n\nb",1\n\nc,2\nd,x\n"e\r\nf",y\n'
    expected = [
        "E504 edge.csv:6:2: 'x' is not an integer",
        "E504 edge.csv:7:2: 'y' is not an integer",
    ]
    assert faults_of(read_rows, text, (T.STRING, T.INTEGER)) == expected
    monkeypatch.setattr(delimited, "BLOCK", 4)
    assert faults_of(read_rows, text, (T.STRING, T.INTEGER)) == expected


def test_not_utf_8(read_rows: ReadRows) -> None:
    assert faults_of(read_rows, b"a,b\nc,\xff\n", (T.ANY, T.ANY)) == [
        "E505 edge.csv:2:2: the text is not UTF-8"
    ]


def test_unclosed_quote(read_rows: ReadRows) -> None:
    with pytest.raises(DataError) as caught:
        read_rows('a,b\nc,"d\ne,f\n', (T.ANY, T.ANY))
    assert str(caught.value) == (
        "error[E511]: the quoted text is not closed before the file ends\n  --> edge.csv:2:2\n"
        "  help: write the quote that closes it, or read the file with quoting = false"
    )


def test_header_lacks_a_column(read_rows: ReadRows) -> None:
    with pytest.raises(DataError) as caught:
        read_rows("form,to\n1,2\n", NUMBERS, header=Header.NAMES, names=("from", "to"))
    assert str(caught.value) == (
        "error[E512]: the header has no column `from`\n  --> edge.csv:1\n  help: did you mean `form`?"
    )


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("[[1, 2], [3,]]", ["E506 x.json:1:13: not JSON: expecting value"]),
        ("[[1, 2]\n [3, 4]]", ["E506 x.json:2:2: expecting `,` or `]` after a row"]),
        ('{"from": 1}', ["E506 x.json:1:1: the file does not hold an array of rows"]),
        ("[[1, 2],\n [3]]", ["E503 x.json:2: the row has 1 column instead of 2"]),
        ('[{"a": 1, "b": 2},\n {"a": 1}]', ["E503 x.json:2: the object has no `b`"]),
        ("[[1, null]]", ["E504 x.json:1:2: the value is missing"]),
        (
            '[{"a": 1, "b": "x"}]',
            ["E504 x.json:1:2: 'x' is not a value of type int: 'x' is not an integer (column `b`)"],
        ),
        (b'["\xff"]', ["E505 x.json:1: the text is not UTF-8"]),
    ],
)
def test_json(read_rows: ReadRows, text: str | bytes, faults: list[str]) -> None:
    assert faults_of(read_rows, text, NUMBERS, name="x.json") == faults


def test_json_lines(read_rows: ReadRows) -> None:
    assert faults_of(read_rows, b'[1, 2]\n{"a": \n\xff\n[1]\n', NUMBERS, name="x.jsonl") == [
        "E506 x.jsonl:2:6: not JSON: expecting value",
        "E505 x.jsonl:3: the text is not UTF-8",
        "E503 x.jsonl:4: the row has 1 column instead of 2",
    ]


def test_rdf_needs_its_package(read_rows: ReadRows, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyoxigraph", None)
    with pytest.raises(DataError) as caught:
        read_rows("<a> <b> <c> .", name="x.ttl", file_format="turtle")
    assert str(caught.value) == (
        "error[E508]: reading turtle needs the package pyoxigraph\n  --> x.ttl\n"
        "  help: pip install tidelog[rdf]"
    )


# ---- what becomes of bad rows

DIRTY = b'1,2\n3,x\n"4\n",5\n6\n7,\xff\n8,9\n'


SHAPES: dict[str, tuple[Callable[[list[str]], str], str, str]] = {  # good and bad rows of a format, in a file
    "x.csv": (lambda rows: "".join(f"{row},1\n" for row in rows), "1", "x"),
    "x.json": (lambda rows: f"[{', '.join(f'[{row}, 1]' for row in rows)}]", "1", "null"),
    "x.jsonl": (lambda rows: "".join(f"[{row}, 1]\n" for row in rows), "1", "null"),
}


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize(("good", "bad"), [(0, 19), (3, 20), (5, 21), (40, 456)])
def test_the_first_bad_rows_are_reported_and_the_others_counted(
    read_rows: ReadRows, name: str, good: int, bad: int
) -> None:
    write, right, wrong = SHAPES[name]
    rows = [wrong, *[right] * good, *[wrong] * (bad - 1), *[right] * good]
    with pytest.raises(DataError) as caught:
        read_rows(write(rows), NUMBERS, name=name)
    *found, last = caught.value.diagnostics
    if bad > 20:
        assert (last.code, last.message) == ("E528", f"{counted(bad - 20, 'more row')} cannot be read")
        assert len(found) == 20
    else:
        assert len(found) + 1 == bad
    assert "--on-error skip" in (last.help or "")


def test_reading_stops_when_nearly_all_is_bad(read_rows: ReadRows, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faults_module, "MOST_COUNTED", 50)
    found = faults_of(read_rows, "x,1\n" * 200, NUMBERS)
    assert found[-1] == "E528 None: 30 more rows cannot be read, and reading stopped there"


@pytest.mark.parametrize("data", [[("x", 1)] * 30, {"a": ["x"] * 30, "b": [1] * 30}])
def test_objects_are_counted_as_well(data: object) -> None:
    with pytest.raises(DataError, match="10 more rows cannot be read"):
        list(from_python(data, NUMBERS))


@pytest.mark.parametrize(
    ("text", "header", "names", "help"),
    [
        ("id,size\n1,2\n", Header.NONE, (), "`csv{ header = true, … }`"),
        ("id,size\n1,2\n", Header.NONE, ("size", "id"), "`csv{ header = true, … }`"),
        ("id,size (cm)\n1,2\n", Header.NONE, ("a", "b"), "`csv{ ignore_headers = true, … }`"),
        ("id,size\n1,2\n", Header.DETECTED, ("a", "b"), "`--input-header yes`"),
        ("\n\nid,size\n1,2\n", Header.NONE, (), "`csv{ header = true, … }`"),
        ("1,2\nid,size\n", Header.NONE, (), None),
        ("1,size\n", Header.NONE, (), None),
        ("id,id\n", Header.NONE, (), None),
        ("id,\n", Header.NONE, (), None),
    ],
)
def test_a_first_row_that_looks_like_a_header_is_told_of(
    read_rows: ReadRows, text: str, header: Header, names: tuple[str, ...], help: str | None
) -> None:
    with pytest.raises(DataError) as caught:
        read_rows(text, NUMBERS, header=header, names=names)
    found = caught.value.diagnostics[0].help or ""
    assert ("if this line is a header" in found) == (help is not None)
    assert (help or "") in found


def test_skip_counts(read_rows: ReadRows) -> None:
    faults = RejectedRows(OnError.SKIP)
    assert read_rows(DIRTY, NUMBERS, faults=faults) == [("1", "2"), ("4", "5"), ("8", "9")]
    assert faults.report == ReadReport(rows=3, skipped=3)


def test_collect_keeps_the_rows_as_they_stand(read_rows: ReadRows, folder: Path) -> None:
    with RejectedRows(OnError.COLLECT, folder / "kept" / "rejects.csv") as faults:
        assert read_rows(DIRTY, NUMBERS, faults=faults) == [("1", "2"), ("4", "5"), ("8", "9")]
    assert faults.report == ReadReport(rows=3, skipped=3, rejects=folder / "kept" / "rejects.csv")
    assert (folder / "kept" / "rejects.csv").read_bytes() == (
        b"place,code,reason,row\n"
        b"edge.csv:2:2,E504,'x' is not an integer,\"3,x\"\n"
        b"edge.csv:5,E503,the row has 1 column instead of 2,6\n"
        b'edge.csv:6:2,E505,the text is not UTF-8,"7,\xff"\n'
    )


def test_collect_makes_no_file_without_rejects(read_rows: ReadRows, folder: Path) -> None:
    with RejectedRows(OnError.COLLECT) as faults:
        read_rows("1,2\n", NUMBERS, faults=faults)
    assert faults.report == ReadReport(rows=1, skipped=0)
    assert not Path("rejects.csv").exists()


def test_one_bad_block_does_not_slow_or_spoil_the_others(
    read_rows: ReadRows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delimited, "BLOCK", 64)
    lines = [f"{number},{number}\n" for number in range(200)]
    lines[100] = "bad,1\n"
    faults = RejectedRows(OnError.SKIP)
    rows = read_rows("".join(lines), NUMBERS, faults=faults)
    assert len(rows) == 199
    assert faults.skipped == 1


@pytest.mark.parametrize("quote", ["", '"'])
def test_only_the_part_at_fault_is_read_with_care(
    read_rows: ReadRows, monkeypatch: pytest.MonkeyPatch, quote: str
) -> None:
    monkeypatch.setattr(delimited, "CAREFUL_BLOCK", 64)
    lines = [f"{number},{quote}{number}{quote}\n" for number in range(200)]
    lines[100], lines[150] = "bad,1\n", f"9,{quote}bad{quote}\n"
    assert faults_of(read_rows, "".join(lines), NUMBERS) == [
        "E504 edge.csv:101:1: 'bad' is not an integer",
        "E504 edge.csv:151:2: 'bad' is not an integer",
    ]


def test_an_open_quote_takes_in_all_that_follows(
    read_rows: ReadRows, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "1,2\n" * 99 + '3,"4\n' + "5,6\n" * 999
    expected = ["E511 edge.csv:100:2: the quoted text is not closed before the file ends"]
    assert faults_of(read_rows, text, NUMBERS) == expected
    monkeypatch.setattr(delimited, "BLOCK", 128)
    monkeypatch.setattr(delimited, "CAREFUL_BLOCK", 32)
    monkeypatch.setattr(delimited, "LARGEST_BLOCK", 512)
    assert faults_of(read_rows, text, NUMBERS) == expected
    assert len(read_rows(text, NUMBERS, faults=RejectedRows(OnError.SKIP))) == 99


def test_every_code_is_tested() -> None:
    tests = "".join(path.read_text() for path in Path(__file__).parents[1].rglob("test_*.py"))
    assert [code for code in codes.DATA_MEANINGS if code not in tests] == []

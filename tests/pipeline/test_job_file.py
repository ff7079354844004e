"""Job files: what they say, and what is said about those that are wrong."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.errors import DataError
from tidelog.io.toml_tables import find_positions
from tidelog.logic.values import ColumnType
from tidelog.pipeline.job_file import load_settings, parse_settings

WRONG = Path(__file__).parent / "jobs"


@pytest.mark.parametrize("path", sorted(WRONG.glob("*.toml")), ids=lambda path: path.stem)
def test_what_is_said_about_a_wrong_job(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(WRONG)
    with pytest.raises(DataError) as raised:
        load_settings(Path(path.name))
    expected = path.with_suffix(".txt")
    assert f"{raised.value}\n" == expected.read_text(encoding="utf-8")


def test_a_whole_job(tmp_path: Path) -> None:
    (tmp_path / "rules.rls").write_text("p(1) .")
    settings = parse_settings(
        """
        program = "rules.rls"
        publish = "out"
        max-rejects = 5
        parameters = { city = "Nuuk", least = 3 }

        [[source]]
        predicate = "flight"
        path = ["a.csv", "b/*.csv"]
        columns = { from = "origin" }
        types = ["string", "int"]
        filter = "?km > 3"
        delimiter = ";"

        [[source]]
        predicate = "person"
        format = "jdbc"
        url = "jdbc:sqlite:people.db"
        table = "people"
        options = { fetchsize = 10 }

        [[sink]]
        predicate = "reach"
        path = "reach.nt"

        [[sink]]
        predicate = "reach"
        what = "changes"
        format = "table"
        table = "reach_changes"

        [engine]
        name = "spark"
        timeout = 1.5
        conf = { "spark.sql.shuffle.partitions" = 4 }

        [stream]
        path = "incoming"
        predicate = "flight"
        order = "seq"
        """,
        tmp_path,
    )
    flights, people = settings.sources
    assert flights.paths == ("a.csv", "b/*.csv") and flights.format == "csv" and flights.kind == "file"
    assert flights.types == (ColumnType.STRING, ColumnType.INTEGER) and flights.delimiter == ";"
    assert people.kind == "jdbc" and people.options == {"fetchsize": "10"}
    assert [sink.format for sink in settings.sinks] == ["ntriples", "table"]
    assert settings.engine.conf == {"spark.sql.shuffle.partitions": "4"}
    assert [stream.order for stream in settings.streams] == ["seq"]
    assert settings.parameters == {"city": "Nuuk", "least": "3"}
    assert settings.published == tmp_path / "out" and settings.needs_spark and settings.max_rejects == 5


def test_a_file_that_is_not_there_has_a_neighbour(tmp_path: Path) -> None:
    (tmp_path / "flights.toml").write_text("")
    with pytest.raises(DataError, match=r"did you mean `flights\.toml`"):
        load_settings(tmp_path / "flight.toml")


KEYS = st.from_regex(r"[a-z][a-z0-9_-]{0,5}", fullmatch=True)
SCALARS = st.one_of(
    st.integers(-99, 99).map(str),
    st.sampled_from(["true", "false", "1.5", "'a # b'", '"x ] \\" }"', '"""a\n[b]"""', "2020-01-01"]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda items: f"[ {', '.join(items)} ]"),
        st.lists(inner, max_size=3).map(
            lambda items: "[\n  # a note ]\n" + "".join(f"{i},\n" for i in items) + "]"
        ),
        st.dictionaries(KEYS, inner, max_size=3).map(
            lambda items: "{ " + ", ".join(f"{key} = {value}" for key, value in items.items()) + " }"
        ),
    ),
    max_leaves=6,
)


@given(
    st.dictionaries(KEYS, VALUES, max_size=4),
    st.lists(st.dictionaries(KEYS, VALUES, max_size=3), max_size=3),
)
def test_every_key_and_value_has_its_place(first: dict[str, str], tables: list[dict[str, str]]) -> None:
    text = "# a job\n" + "".join(f"{key} = {value} # note\n" for key, value in first.items())
    for table in tables:
        text += "\n[[many]]\n" + "".join(f'"{key}"={value}\n' for key, value in table.items())
    if "many" in first:
        return
    tomllib.loads(text)
    places = find_positions(text)
    for key, value in first.items():
        start, end = places.values[key,]
        assert text[start:end] == value
        assert text[slice(*places.keys[key,])] == key
    for number, table in enumerate(tables):
        for key, value in table.items():
            start, end = places.values["many", number, key]
            assert text[start:end] == value

"""Delta and Iceberg tables as sources: the same facts as from scratch, by what changed."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyiceberg.catalog.sql import SqlCatalog

import tidelog as tl
from tests.pipeline.conftest import MAY_BE_EMPTY, Write
from tidelog.__main__ import main
from tidelog.errors import DataError
from tidelog.pipeline import Job, Source, read
from tidelog.pipeline.guards import Expectation, Guards, GuardSeverity

PROGRAM = """@declare e(x: int, y: string) .
q(?x) :- e(?x, _), ?x > 1 .
twice(?x) :- e(?x, ?y), e(?x, ?z), ?y != ?z .
"""
LEFT_OUT = Guards(expectations=(Expectation("twice", GuardSeverity.DROP, None, "e", ("x",)),))
ANY = "e(?x, ?y) :- f(?x, ?y) ."
FEED = {"delta.enableChangeDataFeed": "true"}
Row = tuple[int | None, str]


def table(*rows: Row) -> pa.Table:
    """Rows with a column more than the predicate has."""
    xs, ys = ([row[place] for row in rows] for place in (0, 1))
    more = pa.array([str(place) for place in range(len(rows))], pa.string())
    return pa.table({"x": pa.array(xs, pa.int64()), "y": pa.array(ys, pa.string()), "more": more})


class Delta:
    """A Delta table."""

    format = "delta"

    def __init__(self, partitioned: bool = False) -> None:
        partitions = ["y"] if partitioned else None
        shutil.rmtree("t", ignore_errors=True)
        deltalake.write_deltalake("t", table(), configuration=FEED, partition_by=partitions)

    def append(self, *rows: Row) -> None:
        deltalake.write_deltalake("t", table(*rows), mode="append")

    def overwrite(self, *rows: Row) -> None:
        deltalake.write_deltalake("t", table(*rows), mode="overwrite")

    def delete(self, condition: str) -> None:
        deltalake.DeltaTable("t").delete(condition)

    def rewrite(self) -> None:
        deltalake.DeltaTable("t").optimize.compact()


class Iceberg:
    """An Iceberg table."""

    format = "iceberg"

    def __init__(self, partitioned: bool = False) -> None:
        shutil.rmtree("t", ignore_errors=True)
        Path("c.sqlite").unlink(missing_ok=True)
        here = Path.cwd()
        catalog = SqlCatalog("c", uri=f"sqlite:///{here}/c.sqlite", warehouse=str(here))
        catalog.create_namespace("n")
        self.table = catalog.create_table("n.t", table().schema, location=str(here / "t"))
        if partitioned:
            with self.table.update_spec() as update:
                update.add_identity("y")

    def append(self, *rows: Row) -> None:
        self.table.append(table(*rows))

    def overwrite(self, *rows: Row) -> None:
        self.table.overwrite(table(*rows))

    def delete(self, condition: str) -> None:
        self.table.delete(condition)

    def rewrite(self) -> None:
        self.table.overwrite(self.table.scan().to_arrow())


MAKERS: list[Callable[..., Any]] = [Delta, Iceberg]


def make(form: str, publish: str = "out", **settings: Any) -> tuple[Job, list[str]]:
    """A job over the table, and what its listeners are told of reading."""
    told: list[str] = []
    source = Source("e", "t", form, ("x", "y"), filter=settings.pop("filter", None), limits=MAY_BE_EMPTY)
    engine, program = settings.pop("engine", "columnar"), settings.pop("program", PROGRAM)
    job = Job(
        tl.parse(program), publish=publish, sources=[source], engine=engine, format="parquet", **settings
    )

    def listen(step: Any) -> None:
        if step.name in ("read", "compared", "Spark"):
            told.append(f"{step.name} {step.detail}")

    job.listeners.append(listen)
    return job, told


def facts(folder: str) -> dict[str, set[tuple[Any, ...]]]:
    """What is published of predicates that have facts."""
    version = read(folder)
    return {name: set(version[name]) for name in version if len(version[name])}


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::ResourceWarning")
@pytest.mark.parametrize("maker", MAKERS)
def test_changes_are_applied_by_the_feed(maker: Any, folder: Path) -> None:
    source = maker()
    source.append((1, "a"), (2, "b"), (2, "b"), (3, "c"))
    job, told = make(maker.format)
    first = job.run().version.inputs["e < t"]
    assert (first.rows, first.filtered, first.rejected) == (4, 0, 0) and first.version is not None
    assert not job.run().is_new
    told.clear()
    source.delete("more = '1'")  # the other (2, "b") stays
    source.append((7, "k"))
    source.delete("x = 3")
    run = job.run()
    found = run.version.inputs["e < t"]
    assert [line.partition(":")[0] for line in told] == ["read t"] and "−2 to" in told[0]
    assert facts("out") == {"e": {(1, "a"), (2, "b"), (7, "k")}, "q": {(2,), (7,)}}
    assert (found.rows, found.version != first.version) == (3, True)
    feed = run.version.feed
    assert (feed["e"].added, feed["e"].removed) == (1, 1)
    # Rows that are only written anew change nothing, but the version that is known.
    told.clear()
    source.rewrite()
    run = job.run()
    assert run.version.added == run.version.removed == 0
    # What was changed otherwise gives way to what the table has, once that changes.
    job.apply('+ e(100, "z") .')
    assert not job.run().is_new
    told.clear()
    source.append((8, "h"))
    job.run()
    assert "by other means" in told[0] and facts("out")["q"] == {(2,), (7,), (8,)}
    # Another table at the same place, and rows that cannot be read.
    told.clear()
    source = maker()
    source.append((5, "e"), (None, "n"))
    run = job.run()
    assert "the table was replaced" in told[0] and facts("out")["q"] == {(5,)}
    assert run.version.inputs["e < t"].rejected == 1
    told.clear()
    source.append((6, "f"))
    run = job.run()
    assert told == [f"read t: +1 −0 to version {run.version.inputs['e < t'].version}"]
    assert run.version.inputs["e < t"].rejected == 1 and run.version.inputs["e < t"].rejects is not None
    told.clear()
    source.append((None, "g"))
    run = job.run()
    assert "cannot be read" in told[0] and run.version.inputs["e < t"].rejected == 2


STEPS = st.one_of(
    st.tuples(st.just("append"), st.lists(st.tuples(st.integers(0, 3), st.sampled_from("ab")), max_size=4)),
    st.tuples(
        st.just("overwrite"), st.lists(st.tuples(st.integers(0, 3), st.sampled_from("ab")), max_size=3)
    ),
    st.tuples(st.just("delete"), st.sampled_from(["x = 1", "y = 'a'", "more = '0'", "x > 1"])),
    st.just(("rewrite", None)),
)


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::ResourceWarning")
@pytest.mark.parametrize("maker", MAKERS)
@settings(
    max_examples=4,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
@given(
    batches=st.lists(st.lists(STEPS, max_size=3), min_size=1, max_size=3),
    partitioned=st.booleans(),
    guards=st.sampled_from([Guards(), LEFT_OUT]),
)
def test_the_same_as_from_scratch(
    maker: Any, folder: Path, batches: list[list[tuple[str, Any]]], partitioned: bool, guards: Guards
) -> None:
    shutil.rmtree("out", ignore_errors=True)
    source = maker(partitioned)
    parts: dict[str, Any] = {"filter": "?x != 2", "guards": guards}
    job, _ = make(maker.format, **parts)
    job.run()
    for batch in batches:
        for name, rows in batch:
            if name == "delete":
                source.delete(rows)
            elif rows is None:
                source.rewrite()
            elif rows:
                getattr(source, name)(*rows)
        version = job.run().version
        shutil.rmtree("anew", ignore_errors=True)
        anew = make(maker.format, "anew", **parts)[0].run().version
        assert facts("out") == facts("anew")
        one, other = version.inputs["e < t"], anew.inputs["e < t"]
        assert (one.rows, one.filtered, one.version) == (other.rows, other.filtered, other.version)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::ResourceWarning")
@pytest.mark.parametrize("maker", MAKERS)
def test_the_same_on_spark(maker: Any, folder: Path, spark: Any) -> None:
    source = maker(partitioned=True)
    source.append((1, "a"), (2, "k l"), (2, "k l"), (3, "é+%"), (None, "n"))
    job, told = make(maker.format, engine="spark", session=spark)
    other, _ = make(maker.format, "other")
    for step in range(3):
        version, known = job.run().version, other.run().version
        one, two = version.inputs["e < t"], known.inputs["e < t"]
        assert facts("out") == facts("other")
        assert (one.rows, one.rejected, one.version, one.identity, one.marks, one.columns) == (
            two.rows,
            two.rejected,
            two.version,
            two.identity,
            two.marks,
            two.columns,
        )
        told.clear()
        if step == 0:
            source.delete("more = '1' or x = 3")  # Spark looks for the rows that are still there
        elif step == 1:
            source.append((9, "plain"))
    assert facts("out")["q"] == {(2,), (9,)}
    told.clear()
    job, told = make(maker.format, engine="spark", session=spark)
    assert not job.run().is_new and told == []  # no Spark
    shutil.rmtree("out/_state")
    source.append((10, "w"))
    job.run()
    assert (10,) in facts("out")["q"]


def check_refresh(maker: Any, **settings: Any) -> None:
    """A refresh reads the whole table, also where the feed would tell what has changed since."""
    source = maker()
    source.append((1, "a"), (2, "b"))
    make(maker.format, **settings)[0].run()
    source.append((3, "c"))
    source.delete("x = 2")
    job, told = make(maker.format, **settings)
    run = job.run(refresh=["q"])
    assert run.version.reason == "refresh" and "read t: 2 rows" in told, told
    assert facts("out") == {"e": {(1, "a"), (3, "c")}, "q": {(3,)}}
    told.clear()
    source.append((4, "d"))
    assert job.run().version.inputs["e < t"].rows == 3 and "+1 −0 to" in told[0]


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::ResourceWarning")
@pytest.mark.parametrize("maker", MAKERS)
def test_a_refresh_reads_all_rows(maker: Any, folder: Path) -> None:
    check_refresh(maker)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::ResourceWarning")
@pytest.mark.parametrize("maker", MAKERS)
def test_a_refresh_on_spark_reads_all_rows(maker: Any, folder: Path, spark: Any) -> None:
    check_refresh(maker, engine="spark", session=spark)


def test_what_is_refused(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    Delta().append((1, "a"))
    write("rules.rls", PROGRAM)
    job = 'program = "rules.rls"\npublish = "out"\nengine.name = "columnar"\n'
    job += '[[source]]\npredicate = "e"\nformat = "delta"\npath = "t"\n'
    path = write("job.toml", job + 'columns = ["x", "y"]\nversion = 1\n')
    assert main(["pipeline", str(path)]) == 0
    capsys.readouterr()
    for text, told in (
        ('path = "t"\nversion = 7\n', "E916"),
        ('path = "u"\n', "E916"),
        ('path = "t"\nheader = true\n', "E803"),
        ('path = ["t", "u"]\n', "E803"),
        ('path = "t"\ncolumns = ["x", "nothing"]\n', "E"),
    ):
        path = write("job.toml", job.replace('path = "t"\n', text))
        assert main(["pipeline", str(path)]) == 1
        found = capsys.readouterr().err
        assert told in found and "job.toml:" in found, found
    log = Path("t/_delta_log", f"{2:020d}.json")
    log.write_text(
        '{"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, '
        '"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}}\n'
    )
    with pytest.raises(DataError, match=r"E912[\s\S]*deletionVectors"):
        make("delta", "other")[0].run()
    path = write("job.toml", job.replace('format = "delta"', 'format = "csv"\nversion = 1'))
    assert main(["pipeline", str(path)]) == 1 and "only for the formats delta" in capsys.readouterr().err


@pytest.mark.slow
def test_the_session_has_a_connector(folder: Path, spark: Any) -> None:
    """Spark asks the connector for the version that the run has found."""
    from pyspark.sql import datasource

    class Connector(datasource.DataSource):
        @classmethod
        def name(cls) -> str:
            return "delta"

        def schema(self) -> str:
            return "x bigint, y string, more string"

        def reader(self, schema: Any) -> Any:
            version = self.options["versionAsOf"]

            class Reader(datasource.DataSourceReader):
                def read(self, partition: Any) -> Any:
                    yield int(version), "by the connector", ""

            return Reader()

    source = Delta()
    source.append((1, "a"))
    source.append((2, "b"))
    session = spark.newSession()
    session.dataSource.register(Connector)
    job, _ = make("delta", engine="spark", session=session)
    assert job.run().version.inputs["e < t"].version == 2
    assert facts("out")["e"] == {(2, "by the connector")}

"""Jobs on Spark publish what jobs in this process do, whatever is read, changes or fails."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

import tidelog as tl
from tests.pipeline.conftest import Write
from tidelog.errors import DataError
from tidelog.pipeline import Engine, Job, Sink, Source, Step, read

ORDERS = """\
@declare order(id: int, customer: string, amount: decimal(12, 2), country: string) .
@declare vip(customer: string) .
@declare total(customer: string, amount: decimal(12, 2)) .
total(?c, #sum(?a, ?i)) :- order(?i, ?c, ?a, _) .
known(?c) :- order(_, ?c, _, _) .
quiet(?c) :- vip(?c), ~known(?c) .
"""


@pytest.fixture
def orders(write: Write) -> list[Source]:
    """Files in folders of countries, and a list of names."""
    write("orders/country=DE/1.csv", "id,customer,amount\n1,ann,1.25\n2,bob,7.00\n")
    write("orders/country=FR/1.csv", "id,customer,amount\n3,ann,0.50\nx,cem,1\n4,dan,1.234\n")
    write("vip.csv", "customer\nann\neve\n")
    return [Source("order", "orders"), Source("vip", "vip.csv", header=True)]


Make = Callable[..., Job]


@pytest.fixture
def make(spark: Any) -> Make:
    """What makes a job on Spark."""

    def made(program: str, sources: list[Source], publish: str = "published", **settings: Any) -> Job:
        engine = Engine(settings.pop("engine", "spark"), partitions=settings.pop("partitions", None))
        session = settings.pop("session", spark)
        return Job(
            tl.parse(program), publish=publish, sources=sources, engine=engine, session=session, **settings
        )

    return made


def same(one: str, other: str) -> None:
    """Two published folders have the same tables: schemas, rows and what changed last."""
    first, second = read(one), read(other)
    assert set(first) == set(second)
    for name in first:
        assert first.to_arrow(name).schema.equals(second.to_arrow(name).schema), name
        assert first[name] == second[name], name
        assert set(first.changes(name)) == set(second.changes(name)), name


def test_partitions_decimals_and_rejected_rows(make: Make, session: Any, orders: list[Source]) -> None:
    run = make(ORDERS, orders, session=session).run()
    found = DeltaTable("published/total").to_pyarrow_table().to_pydict()
    assert dict(zip(found["customer"], found["amount"], strict=True)) == {
        "ann": Decimal("1.75"),
        "bob": Decimal("7.00"),
    }
    assert DeltaTable("published/total").schema().to_arrow().field("amount").type == pa.decimal128(12, 2)
    assert set(DeltaTable("published/order").to_pyarrow_table()["country"].to_pylist()) == {"DE", "FR"}
    given = run.version.inputs["order < orders"]
    assert (given.rows, given.rejected) == (3, 2) and given.rejects is not None
    rejected = "".join(file.read_text() for file in (Path("published") / given.rejects).glob("*.csv"))
    assert "1.234" in rejected and "FR/1.csv" in rejected


@pytest.mark.parametrize("partitions", [None, pytest.param(2, marks=pytest.mark.slow)])
def test_a_second_day(
    make: Make,
    orders: list[Source],
    write: Write,
    partitions: int | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tidelog.pipeline.spark_run.MOST_ROWS", 1)  # so that Spark compares
    steps: list[Step] = []

    def run(is_full: bool = False) -> None:
        make(ORDERS, orders, partitions=partitions, listeners=[steps.append]).run(full=is_full)
        make(ORDERS, orders, "here", engine="columnar").run(full=is_full)

    # In this process, a folder with partitions is read file by file: the country is a column here.
    write("orders/country=DE/1.csv", "id,customer,amount,country\n1,ann,1.25,DE\n2,bob,7.00,DE\n")
    write("orders/country=FR/1.csv", "id,customer,amount,country\n3,ann,0.50,FR\n")
    sources = [Source("order", "orders/*/*.csv", header=True), orders[1]]
    orders[:] = sources
    run()
    same("published", "here")
    write("orders/country=FR/1.csv", "id,customer,amount,country\n3,ann,0.75,FR\n5,eve,2.00,FR\n")
    steps.clear()
    run()
    same("published", "here")
    assert read("published").manifest.reason == ("full" if partitions else "incremental")
    assert set(read("published").changes("quiet").removed) == {("eve",)}
    run(is_full=True)
    same("published", "here")
    assert not make(ORDERS, orders).run().is_new


def test_columns_of_any_type_are_compared_here(make: Make, write: Write) -> None:
    program = "p(?x) :- q(?x, _) ."
    write("q.csv", "alice,1\nb c,x\n7,2020-01-01\n")
    sources = [Source("q", "q.csv", header=False)]
    for engine, publish in (("spark", "published"), ("columnar", "here")):
        make(program, sources, publish, engine=engine).run()
    same("published", "here")
    write("q.csv", "alice,1\nb c,y\n7.5,2020-01-01\n")
    for engine, publish in (("spark", "published"), ("columnar", "here")):
        assert make(program, sources, publish, engine=engine).run().version.reason == "incremental"
    same("published", "here")


def test_frames_tables_and_sinks(make: Make, spark: Any, write: Write) -> None:
    frame = spark.createDataFrame([("a", "b"), ("b", "c")], "x string, y string")
    frame.createOrReplaceTempView("edges")
    program = (
        "@declare edge(x: string, y: string) .\n@declare reach(x: string, y: string) .\n"
        "reach(?x, ?y) :- edge(?x, ?y) .\nreach(?x, ?z) :- reach(?x, ?y), edge(?y, ?z) .\n"
    )
    for engine in ("spark", "columnar"):
        for number, source in enumerate(
            (Source("edge", frame=frame), Source("edge", format="table", table="edges"))
        ):
            sinks = [
                Sink("reach", "reach.csv", "csv"),
                Sink("reach", format="table", table=f"reach_{engine}{number}"),
            ]
            job = make(program, [source], f"{engine}{number}", engine=engine, sinks=sinks)
            assert job.run().version.tables["reach"].rows == 3
            assert not job.run().is_new  # a table is read again, and gives the same
            assert spark.table(f"reach_{engine}{number}").count() == 3
            assert Path("reach.csv").read_text() == "x,y\na,b\na,c\nb,c\n"
            spark.sql(f"DROP TABLE reach_{engine}{number}")


def test_predicates_that_no_rule_reads_are_published_too(make: Make, write: Write) -> None:
    pq.write_table(pa.table({"n": [1, 1, 2]}), "seen.parquet")
    write("e.csv", "x,y\n1,2\n")
    program = (
        "@declare seen(n: int) .\n@declare e(x: int, y: int) .\n@declare f(x: int, y: int) .\n"
        '@import few :- csv{ resource = "few.csv", format = (int), limit = 1 } .\n'
        "p(?x) :- e(?x, _) .\np(?x) :- f(?x, _) .\n"
    )
    write("f.csv", "x,y\n3,4\nnone,5\n")
    write("few.csv", "1\n2\n")
    sources = [Source(name, f"{name}.csv", header=True) for name in "ef"]
    sources.append(Source("seen", "seen.parquet"))
    for day in range(2):
        found = make(program, sources).run().version
        make(program, sources, "here", engine="columnar").run()
        same("published", "here")
        # Two sources in one scan are counted each for itself.
        counts = {key: (each.rows, each.rejected) for key, each in found.inputs.items()}
        assert (counts["e < e.csv"], counts["f < f.csv"]) == ((1 + day, 0), (1, 1))
        assert set(read("published")["few"]) == {(1,)}
        pq.write_table(pa.table({"n": [1, 3]}), "seen.parquet")
        write("e.csv", "x,y\n1,2\n2,3\n")
    assert found.reason == "incremental"


def test_a_job_that_derives_nothing_keeps_no_state(make: Make, write: Write) -> None:
    program = "@declare order(id: int, price: decimal(6, 2)) .\n"
    sources = [Source("order", "orders.csv", header=True)]
    lines = ["id,price", *(f"{number},{number}.25" for number in range(50)), "51,1.234", "52,x", "1,1.25"]
    for day in range(2):
        write("orders.csv", "\n".join(lines[: len(lines) - day]) + f"\n{100 + day},7\n")
        found = make(program, sources).run().version
        make(program, sources, "here", engine="columnar").run()
        same("published", "here")
        given = found.inputs["order < orders.csv"]
        assert given.rejected == 2 and given.rejects is not None
        assert found.reason == "full" and not list(Path("published").glob("_state*"))
        rejects = "".join(file.read_text() for file in (Path("published") / given.rejects).glob("*.csv"))
        assert "orders.csv:52:2" in rejects and "orders.csv:53:2" in rejects and rejects.count("E504") == 2
    assert set(read("published").changes("order").removed) == {(100, Decimal("7.00"))}


def test_a_run_that_fails_publishes_nothing(make: Make, orders: list[Source], write: Write) -> None:
    with pytest.raises(DataError, match="at most 1 are allowed"):
        make(ORDERS, orders, max_rejects=1).run()
    with pytest.raises(tl.Inconsistent):
        make(ORDERS + 'bottom() :- vip("eve") .\n', orders).run()
    assert make(ORDERS, orders).store.number is None
    assert make(ORDERS, orders).run().version.version == 1
    write("vip.csv", "client\nann\n")
    with pytest.raises(DataError, match="the header has no column `customer`"):
        make(ORDERS, orders).run()
    assert read("published").number == 1


def test_versions_of_the_two_engines_follow_one_another(make: Make, write: Write) -> None:
    program = "@declare e(x: int, y: int) .\nr(?x, ?y) :- e(?x, ?y) .\nr(?x, ?z) :- r(?x, ?y), e(?y, ?z) .\n"
    sources = [Source("e", "e.csv", header=True)]
    rows = ["1,2", "2,3", "3,4", "4,5"]
    for number, engine in enumerate(("spark", "columnar", "spark", "columnar"), 1):
        write("e.csv", "x,y\n" + "\n".join(rows[:number]) + "\n")
        run = make(program, sources, engine=engine).run()
        assert run.version.version == number and run.version.engine == engine
        assert len(read("published")["r"]) == number * (number + 1) // 2

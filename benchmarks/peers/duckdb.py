"""DuckDB in its best formulation of each workload, and in the others that were tried.

`recursive` is one recursive query; `packed` is the same with both columns in one integer; `staged` is
a script in an order found by hand, loops resolved where the rules allow it; `rounds` is semi-naive
evaluation with temporary tables, written from the rules. All of them give the rules' own answer for any
facts without duplicates, not only for these. The scripts are in benchmarks/programs/duckdb.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.peers.duckdb_rounds import evaluate_in_rounds
from benchmarks.peers.outcome import Outcome
from benchmarks.program import FOLDER, read_program
from benchmarks.workloads import Prepared

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

BEST = {"W1": "rounds", "W2": "rounds", "W3": "packed", "W4": "packed", "W5": "staged", "W6": "staged"}
REPEAT = "-- repeat\n"
OPTIONS = "delim = '\t', quote = '', escape = '', header = false, auto_detect = false"


def ready_duckdb(prepared: Prepared, variant: str, threads: int) -> Callable[[], Outcome]:
    """The formulation named by the variant; the best one when there is no name."""
    import duckdb

    duckdb.connect().execute("SELECT 1").close()
    name = variant or BEST[prepared.workload]
    program = read_program(prepared.workload)
    script = FOLDER / "duckdb" / f"{prepared.workload}.{name}.sql"

    def materialise() -> Outcome:
        with duckdb.connect() as connection:
            set_up(connection, prepared.folder, threads)
            if name == "rounds":
                return Outcome(evaluate_in_rounds(program, connection))
            return Outcome(run_script(script.read_text(encoding="utf-8"), connection))

    return materialise


def set_up(connection: DuckDBPyConnection, folder: Path, threads: int) -> None:
    """Files are found by their names; integers, names, pairs and triples are read as what they are."""
    connection.execute(f"SET threads = {threads}")
    connection.execute("SET preserve_insertion_order = false")
    connection.execute(f"SET file_search_path = '{folder}'")
    for macro, kind, columns in (
        ("edges", "INTEGER", "xy"),
        ("names", "VARCHAR", "x"),
        ("pairs", "VARCHAR", "xy"),
        ("triples", "VARCHAR", "xyz"),
    ):
        types = ", ".join(f"'{column}': '{kind}'" for column in columns)
        reading = f"read_csv(file, {OPTIONS}, columns = {{{types}}})"
        connection.execute(f"CREATE TEMP MACRO {macro}(file) AS TABLE FROM {reading}")


def run_script(script: str, connection: DuckDBPyConnection) -> int:
    """The number that the script ends with; its second part is repeated as long as it says so."""
    once, repeated, again = script.partition(REPEAT)
    row = connection.execute(once).fetchone()
    if repeated:
        row = connection.execute(again).fetchone()
        while row is not None and row[1]:
            row = connection.execute(again).fetchone()
    if row is None:
        raise ValueError("a script ends with a query that counts")
    return int(row[0])

"""The engines that are measured: tidelog and its peers.

An engine is one function: given a workload whose files are there, it imports what it needs, starts up
(libraries loaded, compiled code fetched, the smallest possible program run), writes the program in its own
language, and gives back the work to be timed, from reading the facts to counting the results. A new engine
is one file and one line here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from benchmarks.peers.clingo import ready_clingo
from benchmarks.peers.duckdb import ready_duckdb
from benchmarks.peers.egglog import ready_egglog
from benchmarks.peers.nemo import ready_nemo
from benchmarks.peers.outcome import Outcome
from benchmarks.peers.tidelog import ready_tidelog
from benchmarks.workloads import Prepared

Ready = Callable[[Prepared, str, int], Callable[[], Outcome]]
"""From a prepared workload, a variant and a number of threads to the work to be timed."""

ENGINES: Mapping[str, Ready] = {
    "tidelog": ready_tidelog,
    "duckdb": ready_duckdb,
    "egglog": ready_egglog,
    "nemo": ready_nemo,
    "clingo": ready_clingo,
}

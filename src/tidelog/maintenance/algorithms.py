"""The incremental algorithms by name: each maintains a stratum, and a `Driver` leads it through an update."""

from __future__ import annotations

from tidelog.maintenance.backward_forward import BackwardForward
from tidelog.maintenance.counting import CountingBackwardForward, CountingDeleteAndRederive
from tidelog.maintenance.dred import DeleteAndRederive
from tidelog.maintenance.forward_backward_forward import ForwardBackwardForward
from tidelog.maintenance.fp_update import FixpointUpdate
from tidelog.maintenance.rank_counting import RankCounting
from tidelog.maintenance.task import Algorithm

ALL: tuple[Algorithm, ...] = (
    DeleteAndRederive(),
    FixpointUpdate(),
    BackwardForward(),
    CountingDeleteAndRederive(),
    CountingBackwardForward(),
    ForwardBackwardForward(),
    RankCounting(),
)
ALGORITHMS = {algorithm.name: algorithm for algorithm in ALL}

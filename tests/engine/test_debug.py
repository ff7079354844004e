"""Debug mode: every address that a kernel reaches is checked.

The whole suite can run in it, `TIDELOG_DEBUG=1 pytest tests/engine tests/test_corpus.py`, and does so in
`make test-slow`. Here one compact program runs in it, in a process of its own; its kernels are compiled once.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

CHECK = '''
import numpy as np

import tidelog as tl
from tidelog import compiled
from tidelog.engine.columnar.interpreter import plan_runner as runner
from tidelog.engine.columnar.storage import catalog
from tidelog.equality.classes import label_components
from tidelog.data.text_kernels import split_fields

assert compiled.DEBUG


def is_refused(kernel, *arguments):
    try:
        kernel(*arguments)
    except IndexError as error:
        return kernel.__name__ in str(error)
    return False


labels, node = np.arange(5), np.array([4])
label_components(labels, node, node)
assert is_refused(label_components, labels, node + 1, node)

text, views, wanted = b"a\\nb\\nc\\n", np.zeros(6, np.int64), np.zeros(1, np.int64)
address = np.frombuffer(text, np.uint8).ctypes.data
split = address, 6, ord(","), 1, 3, False, wanted, views.ctypes.data
assert split_fields(*split, *np.zeros((3, 8), np.int64)) == (3, 0)
assert is_refused(split_fields, *split, *np.zeros((3, 2), np.int64))

PROGRAM = """
    path(?x, ?y) :- edge(?x, ?y) .
    path(?x, ?z) :- path(?x, ?y), path(?y, ?z) .
    loop(?x, ?y) :- path(?x, ?x), edge(?x, ?y) .
    apart(?x, ?y) :- edge(?x, _), edge(_, ?y), ~path(?x, ?y), ~wide(?x, _, ?y, 7) .
    wide(?x, ?y, ?z, 7) :- edge(?x, ?y), edge(?y, ?z), ?z != 3 .
    wide(?x, ?x, ?x, ?s) :- edge(?x, ?y), ?s = ?x * 100 + ?y .
    text(?x, CONCAT("n", STR(?x))) :- edge(?x, _) .
    early(?t) :- text(_, ?t), ?t < "n3" .
    all(?x, #count(?y), #sum(?y), #min(?y)) :- path(?x, ?y) .
    few(?x) :- all(?x, ?n, _, _), ?n < 40 .
    done() :- few(_) .
    both() :- done(), done(), few(_) .
"""
random = np.random.default_rng(0)
edges = [(int(x), int(y)) for x, y in random.integers(0, 90, (130, 2))]
runner.PARALLEL_FROM = 1
runner.EMITTED_ROWS = runner.BATCH = 64


def facts(threads, dense_bytes, modules=True):
    catalog.DENSE_BYTES = dense_bytes
    reasoner = tl.Reasoner(tl.parse(PROGRAM), threads=threads, modules=modules)
    reasoner.insert("edge", edges)
    first = {name: set(reasoner[name]) for name in reasoner}
    reasoner.insert("edge", [(200, 201), (201, 200)])
    assert (200, 200) in reasoner["path"]
    assert len(reasoner.query("path(?x, ?y), ?x < 9, ~edge(?x, ?y)")) > 0
    return first


expected = facts(1, 64 << 20)
assert len(expected["path"]) > 500 and len(expected["apart"]) > 500
assert facts(1, 4) == expected
for threads, dense_bytes in ((1, 4), (2, 4), (3, 64 << 20)):
    assert facts(threads, dense_bytes, modules=False) == expected
print("all is well")
'''


@pytest.mark.slow  # compiles the kernels of debug mode
def test_every_address_is_checked() -> None:
    environment = {**os.environ, "TIDELOG_DEBUG": "1"}
    done = subprocess.run(
        [sys.executable, "-c", CHECK], env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "all is well\n"), done.stderr

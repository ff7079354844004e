"""Arrays by their buffers are those that Arrow makes, and nothing in reading and writing imports pandas."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.data import arrow


@given(st.lists(st.text(max_size=5), max_size=20))
def test_texts(texts: list[str]) -> None:
    array = arrow.text_array(texts)
    array.validate(full=True)
    assert array == pa.array(texts, pa.string())


def test_half_a_surrogate_pair_is_no_text() -> None:
    with pytest.raises(UnicodeEncodeError):
        arrow.text_array(["a", "\ud800"])


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=20))
def test_numbers(numbers: list[int]) -> None:
    assert arrow.number_array(numbers, pa.int64()) == pa.array(numbers, pa.int64())


def test_numbers_that_do_not_fit() -> None:
    for number, kind in ((2**63, pa.int64()), (2**31, pa.date32())):
        with pytest.raises(OverflowError):
            arrow.number_array([number], kind)


@given(st.lists(st.booleans(), max_size=40), st.integers(0, 9))
def test_truth_values(truths: list[bool], offset: int) -> None:
    array = arrow.mask_of(np.array(truths, bool))
    assert array == pa.array(truths, pa.bool_())
    assert arrow.number_array(truths, pa.bool_()) == array
    assert arrow.flags_of(array.slice(offset)).tolist() == truths[offset:]


WITHOUT_PANDAS = """
import io, sys
from pathlib import Path
import pyarrow as pa
from tidelog.data.arrow import number_array, text_array
from tidelog.io.rejects import RejectedRows, OnError
from tidelog.io.python_data import from_python
from tidelog.io.data_file import InputFile
from tidelog.io.reader import read
from tidelog.io.write import write
from tidelog.logic.values import ColumnType as T

def count(batches):
    return sum(batch.rows for batch in batches)

texts = {
    "csv": "a,1,true,1.5,2020-01-01\\nb,x,true,1,2020-01-01\\n+1,+1,1,-0.0,2020-01-01\\n",
    "jsonl": '["a", 1, true, 1.5, "2020-01-01"]\\n[null]\\n["b", 2, false, 2, "2020-01-01"]\\n',
}
for name, text in texts.items():
    Path("x." + name).write_text(text)
    types = (T.ANY, T.INTEGER, T.BOOLEAN, T.DOUBLE, T.DATE)
    assert count(read(InputFile(Path("x." + name), name, types), RejectedRows(OnError.SKIP))) == 2
Path("x.ttl").write_text("<a> <b> [ <c> 5 ] , 'd' .")
assert count(read(InputFile(Path("x.ttl"), "turtle", (T.ANY,) * 4))) == 3
Path("x.nt").write_text("# comment\\n<a> <b> <c> .")
assert count(read(InputFile(Path("x.nt"), "ntriples", (T.IRI,) * 4))) == 1
assert count(from_python([("a", 1, 2.5, True, None)], (T.ANY,) * 5, faults=RejectedRows(OnError.SKIP))) == 0
assert count(from_python([("a", 1, 2.5, True, "1")], (T.ANY,) * 5)) == 1
texts, numbers = text_array(["<a>", '"']), number_array([1, 2], pa.int64())
table = pa.Table.from_arrays([texts, texts, numbers], names=list("spo"))
for name in ("csv", "json", "jsonl", "arrow"):
    write(io.BytesIO(), name, table.column_names, [table])
table = pa.Table.from_arrays([text_array(["<a:b>"])] * 3, names=list("spo"))
for name in ("nt", "ttl", "rdfxml"):
    write(io.BytesIO(), name, table.column_names, [table])
print([name for name in ("pandas", "polars") if name in sys.modules])
"""


def test_nothing_imports_pandas() -> None:
    pytest.importorskip("pyoxigraph")
    done = subprocess.run([sys.executable, "-c", WITHOUT_PANDAS], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("[]\n", "")

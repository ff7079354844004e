"""Terms on Spark: ids are the same everywhere, collisions are found, texts come back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.engine.columnar.dictionary import Dictionary
from tidelog.logic.terms import exact

terms = pytest.importorskip("tidelog.engine.spark.terms")
sql = pytest.importorskip("pyspark.sql.functions")


TEXTS = [
    "", "a", "alice", "0", "-0", "00", "7", "-7", "+7", " 7", "7 ", "1.0", "1.5", "1e3", "999999999999999999",
    "1000000000000000000", "-999999999999999999", "-1000000000000000000", "9223372036854775807",
    "9223372036854775808", '"7"', "<http://example.org/>", "ü", "日本", "é" * 40, "x" * 31, "x" * 32,
    "x" * 33, "x" * 100, "true", "-", "12a", "١٢",
    *("abcdefghijklmnopqrstuvwxyz0123456789"[:length] for length in range(36)),
]  # fmt: skip


def spark_ids(spark: Any, texts: list[str], hashing: Any) -> list[int]:
    frame = spark.createDataFrame(
        [(place, text) for place, text in enumerate(texts)], "place int, text string"
    )
    found = frame.select("place", terms.identities(sql.col("text"), hashing).alias("id")).collect()
    return [row["id"] for row in sorted(found, key=lambda row: row["place"])]


@pytest.mark.parametrize("salt", [0, 1, 123456789012])
def test_ids_are_the_same_in_spark_and_in_process(spark: Any, salt: int) -> None:
    hashing = terms.Hashing(salt)
    assert terms.identities_of(pa.array(TEXTS), hashing).tolist() == spark_ids(spark, TEXTS, hashing)


def test_ids_are_the_same_for_random_texts(spark: Any) -> None:
    random = np.random.default_rng(7)
    texts = ["".join(map(chr, random.integers(32, 1000, random.integers(0, 90)))) for _ in range(2000)]
    assert terms.identities_of(pa.array(texts)).tolist() == spark_ids(spark, texts, terms.PLAIN)


@given(st.lists(st.text(st.characters(codec="utf-8"))), st.integers(0, 5))
def test_ids_do_not_depend_on_where_texts_lie(texts: list[str], skipped: int) -> None:
    whole = terms.identities_of(pa.array(texts, pa.string()))
    part = terms.identities_of(pa.array(texts, pa.large_string())[skipped:])
    assert part.tolist() == whole[skipped:].tolist()
    chunks = pa.chunked_array([pa.array(texts[:2], pa.string()), pa.array(texts[2:], pa.string())])
    assert terms.identities_of(chunks).tolist() == whole.tolist()


@given(st.integers(-(2**63), 2**63 - 1))
def test_whole_numbers_are_their_own_ids(number: int) -> None:
    [identity] = terms.identities_of(pa.array([str(number)]))
    if abs(number) <= terms.MOST:
        assert identity < 0
        assert terms.numbers(np.array([identity]))[0] == number
        assert terms.number_identities(np.array([number]))[0] == identity
    else:
        assert identity >= 0


def test_equal_values_have_equal_texts_and_others_not() -> None:
    dictionary = Dictionary()
    ids = dictionary.encode_terms(
        pa.array(["1", '"1"', "1.0", "1.00", "01", "1.0E0", "a", "<a>", '"a"', '"a"@en'])
    )
    texts = terms.exact_texts(dictionary, ids).to_pylist()
    assert texts == [exact(value) for value in dictionary.decode_all(ids.tolist())]
    assert len(set(texts)) == len(set(ids.tolist()))


def test_decoding_gives_the_texts_back_joined_or_broadcast(spark: Any) -> None:
    frame = spark.createDataFrame([("alice", "7"), ("bob", "-3"), ('"x"', "1.5")], "a string, b string")
    dictionary = terms.dictionary_of(frame, ["a", "b"])
    ids = frame.select(*(terms.identities(sql.col(name)).alias(name) for name in frame.columns))
    wanted = sorted(map(tuple, frame.collect()))
    assert sorted(row["term"] for row in dictionary.collect()) == ['"x"', "1.5", "alice", "bob"]
    for count in (4, None, terms.SMALL + 1):
        assert sorted(map(tuple, terms.decoded(ids, ["a", "b"], dictionary, count).collect())) == wanted


def test_a_collision_is_found_and_another_salt_avoids_it(spark: Any) -> None:
    names = [(f"name{number}",) for number in range(40)]
    frame = spark.createDataFrame(names, "a string")
    weak = terms.Hashing(bits=6)
    with pytest.raises(Exception, match=terms.COLLISION) as caught:
        terms.dictionary_of(frame, ["a"], weak).collect()
    fault = terms.collision(caught.value)
    assert fault is not None and fault.diagnostics[0].code == "E680"
    assert "name" in fault.diagnostics[0].message and "salt" in (fault.diagnostics[0].help or "")
    assert terms.collision(ValueError("another")) is None
    few = [name for (name,) in names[:5]]
    salts = (terms.Hashing(salt, 6) for salt in range(100))
    clean = next(salted for salted in salts if len(set(terms.identities_of(pa.array(few), salted))) == 5)
    assert terms.dictionary_of(spark.createDataFrame(names[:5], "a string"), ["a"], clean).count() == 5


def test_dictionaries_are_united_each_term_once(spark: Any) -> None:
    one = terms.dictionary_of(spark.createDataFrame([("a",), ("b",)], "t string"), ["t"])
    two = terms.dictionary_of(spark.createDataFrame([("b",), ("c",), (None,), ("5",)], "t string"), ["t"])
    assert sorted(row["term"] for row in terms.united([one, two]).collect()) == ["a", "b", "c"]

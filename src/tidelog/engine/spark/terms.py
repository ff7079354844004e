"""Terms on Spark: 64-bit ids, the same in Spark expressions, in executors and on the driver.

A value is known by its exact text, `logic.terms.exact`: equal values have equal texts. The id of a whole
number of at most 18 digits is the number itself with the sign bit set: ids below 0 are whole numbers and need
no dictionary. The id of any other text is the lower 63 bits of its XXH64, Spark's `xxhash64`. A dictionary is
a frame of two columns, `id` and `term`, each id once, whole numbers not among them.

- `identities(texts)`: the ids of a column of exact texts, as a Spark expression.
- `identities_of(array)`: the ids of an Arrow array of exact texts, as a NumPy array.
- `exact_texts(dictionary, ids)`: the exact texts of ids of a columnar dictionary, as an Arrow array.
- `dictionary_of(frame, texts)`: the dictionary of columns of exact texts.
- `united(dictionaries)`: the dictionary of all of them. **The collision check is in here**: evaluating it
  fails with COLLISION in the message if two texts have one id; `collision(error)` makes that an error that
  people can read.
- `decoded(frame, columns, dictionary)`: the frame with texts in place of ids, by a broadcast of the
  dictionary while it is small, by a join beyond; `with_text` adds a column of texts and keeps the ids.
- `numbers(ids)`: the whole numbers of ids below 0, of a Spark column or a NumPy array.

`Hashing(salt)` gives other ids: what to do about a collision. `bits` makes the hash weak, for tests.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from tidelog.engine.columnar import decode
from tidelog.engine.columnar.dictionary import Dictionary
from tidelog.engine.spark import hash_kernels as kernels
from tidelog.errors import Diagnostic, EvaluationError
from tidelog.logic.values import Kind

Identities = npt.NDArray[np.int64]
Ids = npt.NDArray[np.int32]

SEED = 42  # of Spark's xxhash64
SIGN = int(kernels.SIGN)
MOST = 10**kernels.MOST_DIGITS - 1  # the largest number that is its own id
SMALL = 1 << 20  # terms up to which a dictionary is broadcast
ID, TERM = "id", "term"
COLLISION = "tidelog: two terms have one id"
SAME_HASH = "E680"


@dataclass(frozen=True, slots=True)
class Hashing:
    """How terms are hashed: another salt gives other ids."""

    salt: int = 0
    bits: int = 63

    @property
    def mask(self) -> int:
        """The bits of a hash that are kept."""
        return (1 << self.bits) - 1

    @property
    def seed(self) -> int:
        """The seed of XXH64: of two columns Spark hashes the second with the hash of the first as seed."""
        return int(kernels.hash_long(self.salt, np.uint64(SEED))) if self.salt else SEED


PLAIN = Hashing()


# ---- ids of texts


def identities(texts: Column, hashing: Hashing = PLAIN) -> Column:
    """The ids of a column of exact texts; null where the text is null."""
    number = texts.try_cast("bigint")
    is_whole = (number.cast("string") == texts) & number.between(-MOST, MOST)
    hashed = (
        sql.xxhash64(sql.lit(hashing.salt).cast("bigint"), texts) if hashing.salt else sql.xxhash64(texts)
    )
    return (
        sql.when(texts.isNull(), sql.lit(None).cast("bigint"))
        .when(is_whole, number.bitwiseOR(sql.lit(SIGN)))
        .otherwise(hashed.bitwiseAND(sql.lit(hashing.mask)))
    )


def identities_of(texts: Any, hashing: Hashing = PLAIN) -> Identities:
    """The ids of an Arrow array of exact texts, none of them missing."""
    if isinstance(texts, pa.ChunkedArray):
        parts = [identities_of(chunk, hashing) for chunk in texts.chunks]
        return np.concatenate(parts) if parts else np.zeros(0, np.int64)
    if not pa.types.is_large_string(texts.type):
        texts = texts.cast(pa.large_string())
    ids = np.empty(len(texts), np.int64)
    _, offsets, data = texts.buffers()
    if len(texts):
        places = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
        address = data.address if data is not None else 0
        kernels.identify(address, places, np.uint64(hashing.seed), np.uint64(hashing.mask), ids)
    return ids


def number_identities(numbers: npt.NDArray[np.int64]) -> Identities:
    """The ids of whole numbers of at most 18 digits."""
    return numbers | np.int64(SIGN)


def numbers(ids: Any) -> Any:
    """The whole numbers of ids below 0, of a Spark column or a NumPy array."""
    if isinstance(ids, Column):
        return sql.shiftright(sql.shiftleft(ids, 1), 1)
    return (ids << 1) >> 1


def are_whole(dictionary: Dictionary, ids: Ids) -> npt.NDArray[np.bool_]:
    """Which ids of a columnar dictionary are whole numbers of at most 18 digits."""
    payload = dictionary.payload[ids]
    is_integer = dictionary.kind[ids] == Kind.INTEGER
    return np.asarray(is_integer & (payload <= MOST) & (payload >= -MOST))


def exact_texts(dictionary: Dictionary, ids: Ids) -> pa.Array:
    """The exact texts of ids of a columnar dictionary."""
    return decode.to_texts(dictionary, ids, "exact")


# ---- dictionaries


def dictionary_of(frame: DataFrame, texts: Sequence[str], hashing: Hashing = PLAIN) -> DataFrame:
    """The dictionary of some columns of exact texts; nulls are passed over."""
    columns = sql.array(*(sql.col(f"`{name}`") for name in texts))
    terms = frame.select(sql.explode(columns).alias(TERM)).where(sql.col(TERM).isNotNull())
    identified = terms.select(identities(sql.col(TERM), hashing).alias(ID), TERM)
    return united([identified.where(sql.col(ID) >= 0)])


def united(dictionaries: Iterable[DataFrame]) -> DataFrame:
    """The dictionary of all terms of frames of ids and terms, in which ids may be repeated.

    Evaluating it fails if two terms have one id.
    """
    every = reduce(DataFrame.unionAll, (part.select(ID, TERM) for part in dictionaries))
    grouped = every.groupBy(ID).agg(sql.min(TERM).alias("least"), sql.max(TERM).alias("most"))
    message = sql.concat(sql.lit(f"{COLLISION}: "), "least", sql.lit(" | "), "most")
    term = sql.when(sql.col("least") == sql.col("most"), sql.col("least")).otherwise(sql.raise_error(message))
    return grouped.select(ID, term.cast("string").alias(TERM))


def collision(error: BaseException) -> EvaluationError | None:
    """What to say of an error if it is a collision of two terms, None if it is another one."""
    text = str(error)
    if COLLISION not in text:
        return None
    terms = text.partition(f"{COLLISION}: ")[2].partition("\n")[0].partition(" SQLSTATE")[0]
    message = f"two terms have the same 64-bit id on Spark: {terms.replace(' | ', ' and ')}"
    help = "give another salt: `--conf tidelog.salt=1`"
    return EvaluationError(Diagnostic(SAME_HASH, message, help=help))


def decoded(
    frame: DataFrame, columns: Sequence[str], dictionary: DataFrame, terms: int | None = None
) -> DataFrame:
    """The frame with exact texts in place of ids in some columns; the dictionary has so many terms."""
    for name in columns:
        frame = with_text(frame, name, name, dictionary, terms)
    return frame


def with_text(
    frame: DataFrame, column: str, text: str, dictionary: DataFrame, terms: int | None = None
) -> DataFrame:
    """The frame with the exact texts of a column's ids in the column `text`, which may be the same."""
    kept = [sql.col(f"`{name}`") for name in frame.columns if name != text]
    looked_up = dictionary.select(sql.col(ID).alias("looked up"), sql.col(TERM).alias("found"))
    if terms is not None and terms <= SMALL:
        looked_up = sql.broadcast(looked_up)
    ids = sql.col(f"`{column}`")
    found = frame.join(looked_up, ids == sql.col("`looked up`"), "left")
    whole = sql.when(ids < 0, numbers(ids).cast("string")).otherwise(sql.col("found"))
    placed = [sql.col(f"`{name}`") if name != text else whole.alias(text) for name in frame.columns]
    return found.select(*(placed if text in frame.columns else [*kept, whole.alias(text)]))

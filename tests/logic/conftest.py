"""How hypothesis draws values: `from_type(Value)` gives every kind, the awkward ones often."""

from __future__ import annotations

from decimal import Decimal

import hypothesis.strategies as st

from tidelog.logic import values
from tidelog.logic.values import XSD, Value

WORDS = st.from_regex(r"[A-Za-z_][A-Za-z0-9_-]{0,8}", fullmatch=True)
AWKWARD_NAMES = st.sampled_from(["_", "true", "false", "inf", "_-a", "true-x", "inf-1", "a-", "f", "since"])
SCHEMES = st.sampled_from(["http://example.org/", "urn:x:", "a.b/", "é", ""])
SMALL = st.integers(-20, 20)
TEXTS = st.text(max_size=8) | st.sampled_from(["", '"', "\\", "\n", "a\rb", "\x00", " ", "\u2028", "😀"])
TAGS = st.sampled_from(["en", "de-AT", "fr"])
DATATYPES = st.sampled_from([XSD + "int", XSD + "gYear", XSD + "double", "http://dt", "dt"])


def decimals() -> st.SearchStrategy[Decimal]:
    """Decimals with few digits, and with more than 64 bits hold."""
    return st.builds(
        lambda mantissa, scale: Decimal(f"{mantissa}E-{scale}"),
        SMALL | st.integers(-(2**70), 2**70),
        st.integers(0, 25),
    )


def doubles() -> st.SearchStrategy[Value]:
    """Doubles, infinite ones and whole ones among them."""
    numbers = st.floats(allow_nan=False) | SMALL.map(float)
    return numbers.map(lambda number: Value(values.Kind.DOUBLE, number + 0.0))


def all_values() -> st.SearchStrategy[Value]:
    """Values of every kind, made by the constructors."""
    return st.one_of(
        st.booleans().map(values.boolean),
        (SMALL | st.integers(-(2**63), 2**63 - 1) | st.integers(-(2**70), 2**70)).map(values.integer),
        decimals().map(values.decimal),
        doubles(),
        (SMALL | st.integers(-(10**7), 10**7)).map(values.date),
        st.builds(
            values.date_time, SMALL | st.integers(-(2**63), 2**63 - 1), st.none() | st.integers(-840, 840)
        ),
        TEXTS.map(values.string),
        st.builds(values.language_string, TEXTS, TAGS),
        st.builds(values.literal, TEXTS, DATATYPES),
        (WORDS | AWKWARD_NAMES).map(values.iri),
        st.builds(lambda scheme, word: values.iri(scheme + word), SCHEMES, WORDS),
        WORDS.map(values.blank),
    )


st.register_type_strategy(Value, all_values())

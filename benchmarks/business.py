"""Facts with values in them: order lines, log lines, accounts, parts. All random, the same each time.

Names that end in `.csv` are files with a header.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Numbers = npt.NDArray[np.int64]
Tables = dict[str, pa.Table]

LINES_PER_CUSTOMER = 20
SILENT = 0.05  # of the customers, who order nothing
PRODUCTS = 500
TWICE = 0.001  # of the lines, which stand in the file twice
OTHER_EMAIL = 0.01  # of the customers, who have two
COUNTRIES = ("DE", "ES", "FR", "IT", "PL")
SITES, ENDS = ("Example", "Mail.Example", "SHOP"), ("COM", "org", "Net")
DOMAINS = tuple(f"{site}.{end}" for site in SITES for end in ENDS)
FIRST_DAY = 20_454  # 2026-01-01
HOSTS, DAYS = 12, 3
MILLISECONDS = 86_400_000
UNREADABLE = (
    "-- connection lost --",
    "2026-13-01T00:00:00Z web03 GET /cart status=200 user=u00001 took=7ms",
    "",
)
KINDS = ("bond", "current", "saver")
YEARS = 30
LEVELS, PIECES = 6, 3  # of a product, and of every part but the last
LAST_PARTS = 500


def orders(size: int) -> Tables:
    """So many order lines, some of them twice, and customers, some of whom have ordered nothing."""
    random = np.random.default_rng(5)
    customers = max(size // LINES_PER_CUSTOMER, 10)
    repeated = int(size * TWICE)
    lines = size - repeated
    ordering = random.permutation(customers)[: customers - max(1, int(customers * SILENT))]
    table = pa.table(
        {
            "id": np.arange(lines),
            "customer": numbered("C", random.choice(ordering, lines), 7),
            "day": pa.array((FIRST_DAY + random.integers(0, 365, lines)).astype(np.int32)).cast(pa.date32()),
            "product": numbered("P", random.integers(0, PRODUCTS, lines), 3),
            "quantity": random.integers(1, 20, lines),
            "price": hundredths(random.integers(100, 99_999, lines)),
        }
    )
    again = table.take(np.sort(random.integers(0, lines, repeated)))
    return {
        "orders.csv": pa.concat_tables([table, again]),
        "customers.csv": customer_table(random, customers),
    }


def customer_table(random: np.random.Generator, count: int) -> pa.Table:
    """Customers in the order of their names, a few with a second email."""
    numbers = np.sort(np.r_[np.arange(count), random.choice(count, int(count * OTHER_EMAIL), replace=False)])
    countries = chosen(COUNTRIES, np.random.default_rng(6).integers(0, len(COUNTRIES), count)[numbers])
    domains = chosen(DOMAINS, random.integers(0, len(DOMAINS), len(numbers)))
    users = numbered("User.", np.arange(len(numbers)), 1)
    emails = pc.binary_join_element_wise(users, domains, "@")
    return pa.table({"customer": numbered("C", numbers, 7), "country": countries, "email": emails})


def log_lines(size: int) -> Tables:
    """So many lines of a log of three days, one in a hundred of them not to be read."""
    random = np.random.default_rng(7)
    begin = (FIRST_DAY + 59) * MILLISECONDS
    times = begin + np.sort(random.integers(0, DAYS * MILLISECONDS, size))
    moments = pc.strftime(pa.array(times, pa.timestamp("ms")), format="%Y-%m-%dT%H:%M:%SZ")
    users = max(size // 50, 20)
    words = [
        moments,
        numbered("web", random.integers(0, HOSTS, size), 2),
        chosen(("GET", "GET", "GET", "POST", "HEAD"), random.integers(0, 5, size)),
        pages(random, size),
        chosen(
            [f"status={code}" for code in (200, 200, 200, 304, 404, 500, 503)], random.integers(0, 7, size)
        ),
        numbered("user=u", random.zipf(1.3, size) % users, 6),
        durations(random, size),
    ]
    texts = pc.binary_join_element_wise(*words, " ")
    broken = random.random(size) < 0.01
    read = pc.if_else(broken, chosen(UNREADABLE, random.integers(0, len(UNREADABLE), size)), texts)
    return {"log.csv": pa.table({"number": np.arange(size), "text": read})}


def pages(random: np.random.Generator, size: int) -> pa.Array:
    """Pages, few of which get most of the hits."""
    numbers = random.zipf(1.2, size) % max(size // 100, 20)
    sections = chosen(("/shop/item-", "/search?q=", "/help/", "/user/7/page/"), numbers % 4)
    return pc.binary_join_element_wise(sections, pa.array(numbers).cast(pa.string()), "")


def durations(random: np.random.Generator, size: int) -> pa.Array:
    """Milliseconds, or seconds with a fraction once they are many: a few take minutes."""
    took = np.minimum(random.lognormal(4.5, 2.2, size).astype(np.int64), 999_999)
    short = pc.binary_join_element_wise(pa.array(took).cast(pa.string()), "ms", "")
    whole, rest = pa.array(took // 1000).cast(pa.string()), pa.array(took % 1000).cast(pa.string())
    fraction = pc.utf8_lpad(rest, 3, "0")
    long = pc.binary_join_element_wise(whole, pc.binary_join_element_wise(fraction, "s", ""), ".")
    return pc.binary_join_element_wise("took", pc.if_else(took < 1000, short, long), "=")


def accounts(size: int) -> Tables:
    """So many accounts, and a rate for each kind and year."""
    random = np.random.default_rng(8)
    years = np.tile(np.arange(YEARS), len(KINDS))
    return {
        "account.csv": pa.table(
            {
                "account": np.arange(size),
                "kind": chosen(KINDS, random.integers(0, len(KINDS), size)),
                "balance": np.round(random.uniform(10, 50_000, size), 2),
                "deposit": np.round(random.uniform(0, 500, size), 2),
            }
        ),
        "rate.csv": pa.table(
            {
                "kind": chosen(KINDS, np.repeat(np.arange(len(KINDS)), YEARS)),
                "year": years,
                "rate": np.round(random.uniform(0, 0.05, len(years)), 4),
            }
        ),
    }


def parts(size: int) -> Tables:
    """So many products of three parts each, which have three parts each, and so on, six levels down."""
    random = np.random.default_rng(9)
    levels = [np.arange(size) + level * size for level in range(LEVELS)]
    levels.append(np.arange(min(LAST_PARTS, size)) + LEVELS * size)
    users = np.concatenate(levels[:-1])
    pieces = [random.choice(below, PIECES * len(above)) for above, below in pairwise(levels)]
    uses = {
        "part": np.repeat(users, PIECES),
        "place": np.tile(np.arange(PIECES), len(users)),
        "piece": np.concatenate(pieces),
        "amount": np.round(random.uniform(0.2, 4, PIECES * len(users)), 3),
    }
    last = levels[-1]
    weights = {"part": last, "weight": np.round(random.uniform(0.01, 2, len(last)), 3)}
    return {
        "product.csv": pa.table({"part": levels[0]}),
        "uses.csv": pa.table(uses),
        "weighs.csv": pa.table(weights),
    }


def numbers_below(size: int) -> Tables:
    return {"number.csv": pa.table({"number": np.arange(1, size)})}


def nothing(_: int) -> Tables:
    """The facts are in the program."""
    return {}


def numbered(prefix: str, numbers: Any, digits: int) -> pa.Array:
    """Names that are numbers with leading zeros behind a prefix.

    >>> numbered("P", [7, 12], 3).to_pylist()
    ['P007', 'P012']
    """
    texts = pc.utf8_lpad(pa.array(numbers).cast(pa.string()), digits, "0")
    return pc.binary_join_element_wise(prefix, texts, "")


def chosen(names: Sequence[str], places: Any) -> pa.Array:
    return pa.array(names).take(pa.array(places))


def hundredths(numbers: Any) -> pa.Array:
    """Decimals of two digits after the point.

    >>> hundredths([250]).to_pylist()
    [Decimal('2.50')]
    """
    whole = pa.array(numbers).cast(pa.decimal128(19, 0))
    return pc.multiply(whole, pa.scalar(Decimal("0.01"), pa.decimal128(3, 2)))


MAKERS: Mapping[str, Callable[[int], Tables]] = {
    "W9": orders,
    "W9-doubles": orders,
    "W10": log_lines,
    "W11-interest": accounts,
    "W11-parts": parts,
    "W12": numbers_below,
    "W13": nothing,
}

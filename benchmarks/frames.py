"""The jobs of the suite `values` in polars: lazy frames that are collected together.

What rules do in rounds is a loop here. That a line number is a key, and that a customer has one country, is
known to the job.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import polars as pl

Results = Mapping[str, pl.LazyFrame]
Kind = pl.DataType | type[pl.DataType]


def order_lines(price: Kind) -> Callable[[Path, Path], None]:
    """The job over order lines, with prices of some kind."""

    def job(folder: Path, output: Path) -> None:
        schema: dict[str, Kind] = {
            "id": pl.Int64,
            "customer": pl.String,
            "day": pl.Date,
            "product": pl.String,
            "quantity": pl.Int64,
            "price": price,
        }
        orders = pl.scan_csv(folder / "orders.csv", schema=schema)
        customers = pl.scan_csv(folder / "customers.csv")
        line = orders.select(
            "id",
            "customer",
            pl.col("day").dt.month().alias("month"),
            "product",
            (pl.col("quantity") * pl.col("price")).alias("value"),
        ).unique()
        countries = customers.select("customer", "country").unique()
        located = line.join(countries, on="customer")
        ordered = line.group_by("customer").agg(pl.len())
        domain = pl.col("email").str.split("@").list.get(1).str.to_lowercase()
        write(
            output,
            {
                "revenue": located.group_by("country", "month").agg(pl.sum("value")),
                "dearest": line.group_by("product").agg(pl.max("value")),
                "ordered": ordered,
                "silent": countries.join(ordered, on="customer", how="anti").select("customer"),
                "domain": customers.select("customer", domain).unique(),
            },
        )

    return job


def log_lines(folder: Path, output: Path) -> None:
    log = pl.scan_csv(folder / "log.csv", schema={"number": pl.Int64, "text": pl.String})
    text, took = pl.col("text"), pl.col("took")
    words = text.str.split(" ").list
    request = (
        log.filter(text.str.contains("^[^ ]+ web[0-9]+ (GET|POST) /"))
        .select(
            "number",
            words.get(0).str.to_datetime("%Y-%m-%dT%H:%M:%S%.fZ", time_unit="us", strict=False).alias("time"),
            text.str.slice(25, 5).alias("host"),
            words.get(3).str.slice(1).alias("page"),
            words.get(4).str.slice(7).alias("status"),
            words.get(5).str.slice(5).alias("user"),
            words.get(6).str.slice(5).alias("took"),
        )
        .filter(pl.col("time").is_not_null())
        .with_columns(
            pl.col("time").dt.date().alias("day"),
            pl.col("time").dt.hour().alias("hour"),
            pl.when(took.str.ends_with("ms"))
            .then(took.str.strip_suffix("ms").cast(pl.Float64, strict=False) / 1000)
            .otherwise(took.str.strip_suffix("s").cast(pl.Float64, strict=False))
            .alias("seconds"),
        )
    )
    hits = request.group_by("page").agg(pl.len().alias("hits"))
    place = pl.col("hits").rank("dense", descending=True)
    lines, read = (frame.select(pl.len().cast(pl.Int64).alias("n")) for frame in (log, request))
    kind = pl.col("page").str.replace_all("[0-9]+", "N").alias("kind")
    write(
        output,
        {
            "users": request.group_by("day", "hour").agg(pl.col("user").n_unique()),
            "took": request.group_by("day", "hour").agg(
                pl.mean("seconds").alias("mean"), pl.max("seconds").alias("most")
            ),
            "best": hits.filter(place <= 10),
            "kinds": hits.group_by(kind).agg(pl.sum("hits")),
            "visits": request.group_by("user").agg(
                pl.min("time").alias("first"), pl.max("time").alias("last")
            ),
            "failures": request.filter(pl.col("status").str.starts_with("5")).group_by("host").agg(pl.len()),
            "slow": request.filter(pl.col("seconds") >= 90).select("number", "seconds"),
            "unread": lines.join(read, how="cross").select(pl.col("n") - pl.col("n_right")),
        },
    )


def interest(folder: Path, output: Path) -> None:
    account = pl.read_csv(folder / "account.csv")
    rate = pl.read_csv(folder / "rate.csv")
    now, totals = account, []
    for year in range(31):
        totals.append(
            now.group_by("kind").agg(pl.lit(year).first().alias("year"), pl.sum("balance").alias("total"))
        )
        rates = rate.filter(pl.col("year") == year).select("kind", "rate")
        grown = pl.col("balance") * (1 + pl.col("rate")) + pl.col("deposit")
        if len(rates):
            now = now.join(rates, on="kind").select("account", "kind", grown.alias("balance"), "deposit")
    write(output, {"total": pl.concat(totals).lazy(), "final": now.select("account", "balance").lazy()})


def parts(folder: Path, output: Path) -> None:
    uses = pl.read_csv(folder / "uses.csv").select("part", "piece", pl.col("amount").alias("each"))
    weighs = pl.read_csv(folder / "weighs.csv")
    top = pl.read_csv(folder / "product.csv").select(
        pl.col("part").alias("top"), "part", pl.lit(1.0).alias("amount")
    )
    levels = [top]
    while len(levels[-1]):
        down = levels[-1].join(uses, on="part")
        levels.append(down.select("top", pl.col("piece").alias("part"), pl.col("amount") * pl.col("each")))
    contained = pl.concat(levels).lazy()
    weight = (pl.col("amount") * pl.col("weight")).sum()
    write(
        output,
        {
            "needed": contained.group_by("part").agg(pl.sum("amount")),
            "weight": contained.join(weighs.lazy(), on="part").group_by("top").agg(weight),
        },
    )


def amicable(folder: Path, output: Path) -> None:
    number = pl.scan_csv(folder / "number.csv").select(pl.col("number").cast(pl.Int32).alias("x"))
    pairs = number.join(number.select(pl.col("x").alias("f")), how="cross")
    divides = (pl.col("f") <= pl.col("x") // 2) & (pl.col("x") % pl.col("f") == 0)
    divisors = pairs.filter(divides).group_by("x").agg(pl.sum("f").alias("total").cast(pl.Int32))
    others = divisors.select(pl.col("x").alias("total"), pl.col("total").alias("back"))
    found = divisors.join(others, on="total").filter(
        (pl.col("back") == pl.col("x")) & (pl.col("x") < pl.col("total"))
    )
    write(
        output,
        {
            "amicable": found.select("x", "total"),
            "abundant": divisors.filter(pl.col("total") > pl.col("x")).select(pl.len()),
        },
    )


def write(output: Path, results: Results) -> None:
    """A file for each result, computed together so that what they share is computed once."""
    for name, frame in zip(results, pl.collect_all(list(results.values())), strict=True):
        frame.write_csv(output / f"{name}.csv")


JOBS: Mapping[str, Callable[[Path, Path], None]] = {
    "W9": order_lines(pl.Decimal(12, 2)),
    "W9-doubles": order_lines(pl.Float64()),
    "W10": log_lines,
    "W11-interest": interest,
    "W11-parts": parts,
    "W12": amicable,
}

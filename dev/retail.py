"""Generated retail transactions: seeded and streamed. Six rules flag the bad ones; none is dropped.

The 26 columns are those of the reference pipeline: store and terminal, items and amounts, the store's location, parts
of the time, a flag for each rule, and the score of the flags.

    python -m dev.retail --days 3 | lake-assets land transactions -
"""

import argparse
import datetime as dt
import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import IO

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Numbers = npt.NDArray[np.int64]
Amounts = npt.NDArray[np.float64]

BLOCK_ROWS = 5_000
BAD_SHARE = 0.02  # share of the transactions
HIGH_TOTAL = 1_000.0
OPEN_HOURS = (6, 22)
PAYMENTS = ("card", "cash", "mobile", "gift_card")

_TICKS = 10  # writes in a second, at most, if a rate is given
_TAX = 0.08
_FORMATS = ("hypermarket", "supermarket", "express")
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_CITIES = {
    "NW": (("Seattle", "WA"), ("Portland", "OR"), ("Boise", "ID")),
    "NE": (("Boston", "MA"), ("New York", "NY"), ("Albany", "NY")),
    "MW": (("Chicago", "IL"), ("Columbus", "OH"), ("Detroit", "MI")),
    "SE": (("Atlanta", "GA"), ("Miami", "FL"), ("Charlotte", "NC")),
    "SW": (("Phoenix", "AZ"), ("Dallas", "TX"), ("Tucson", "AZ")),
}
_OTHER_CITIES = (("Springfield", "XX"), ("Riverside", "XX"))
_BASKETS = 2_000  # different ones

# Subtracted from the score of 1 by each rule.
RULES = {
    "is_total_wrong": 0.4,
    "is_negative": 0.4,
    "is_count_wrong": 0.2,
    "is_high_value": 0.15,
    "is_after_hours": 0.15,
    "is_payment_unknown": 0.2,
}
WARNING_BELOW, REVIEW_BELOW = 1.0, 0.7


@dataclass(frozen=True)
class Retail:
    """A chain of stores and its transactions; equal arguments make equal transactions.

    Args:
        stores: their number, spread evenly over the regions.
        per_store: transactions of a store on a day.
    """

    stores: int
    regions: Sequence[str]
    days: int
    seed: int
    start: dt.date = dt.date(2026, 2, 11)
    per_store: int = 400

    @property
    def rows(self) -> int:
        """The number of transactions."""
        return self.stores * self.days * self.per_store

    def blocks(self) -> Iterator[pa.Table]:
        """Yield the transactions in order of time, some thousands at once, in bounded memory."""
        for day in range(self.days):
            total = self.stores * self.per_store
            for first in range(0, total, BLOCK_ROWS):
                yield self._block(day, first, min(first + BLOCK_ROWS, total), total)

    @cached_property
    def _baskets(self) -> tuple[pa.Array, Numbers, Numbers, Amounts]:
        """Baskets as JSON, with the items, the distinct items, and the price of each."""
        random = np.random.default_rng(self.seed)
        texts, items, distinct, prices = [], [], [], []
        for _ in range(_BASKETS):
            kinds = int(random.integers(1, 7))
            skus = random.choice(10_000, kinds, replace=False).tolist()
            quantities = random.integers(1, 5, kinds).tolist()
            each = np.round(random.gamma(2, 6, kinds) + 0.5, 2).tolist()
            lines = [
                {"sku": f"SKU-{sku:04d}", "qty": quantity, "price": price}
                for sku, quantity, price in zip(skus, quantities, each, strict=True)
            ]
            texts.append(json.dumps(lines, separators=(",", ":")))
            items.append(sum(quantities))
            distinct.append(kinds)
            prices.append(round(sum(q * price for q, price in zip(quantities, each, strict=True)), 2))
        return pa.array(texts), np.array(items), np.array(distinct), np.array(prices)

    @cached_property
    def _stores(self) -> pa.Table:
        """The columns of each store, by its number less one."""
        random = np.random.default_rng(self.seed + 1)
        regions = [self.regions[number % len(self.regions)] for number in range(self.stores)]
        cities = [_CITIES.get(region, _OTHER_CITIES) for region in regions]
        chosen = [of_region[random.integers(len(of_region))] for of_region in cities]
        return pa.table(
            {
                "region": regions,
                "store_format": [_FORMATS[random.integers(len(_FORMATS))] for _ in regions],
                "city": [city for city, _ in chosen],
                "state": [state for _, state in chosen],
            }
        )

    def _block(self, day: int, first: int, last: int, total: int) -> pa.Table:
        random = np.random.default_rng((self.seed, day, first))
        rows = last - first
        store = random.integers(0, self.stores, rows)
        date = self.start + dt.timedelta(days=day)
        # In the order of time: the block's share of the opening hours.
        opening, closing = (hour * 3_600_000_000 for hour in OPEN_HOURS)
        share = np.sort(random.uniform(first / total, last / total, rows))
        micros = (opening + share * (closing - opening)).astype(np.int64)
        basket = random.integers(0, _BASKETS, rows)
        texts, items, distinct, prices = self._baskets
        count, subtotal = items[basket].copy(), prices[basket].copy()
        tax = np.round(subtotal * _TAX, 2)
        total_amount = np.round(subtotal + tax, 2)
        payment = random.integers(0, len(PAYMENTS), rows)

        # Each bad transaction breaks one of the rules, some a second one.
        broken = np.where(random.random(rows) < BAD_SHARE, random.integers(1, 7, rows), 0)
        also = np.where((broken > 0) & (random.random(rows) < 0.2), random.integers(1, 7, rows), 0)

        def breaks(rule: int) -> npt.NDArray[np.bool_]:
            either: npt.NDArray[np.bool_] = np.logical_or(broken == rule, also == rule)
            return either

        for amounts in (subtotal, tax, total_amount):
            amounts[breaks(4)] = np.round(amounts[breaks(4)] * 500, 2)
            amounts[breaks(2)] *= -1
        total_amount[breaks(1)] = np.round(total_amount[breaks(1)] + 7.77, 2)
        count[breaks(3)] += 3
        micros[breaks(5)] %= opening
        methods = pa.array([*PAYMENTS, None]).take(pa.array(np.where(breaks(6), len(PAYMENTS), payment)))
        midnight = np.datetime64(date, "us")
        columns = {
            "transaction_id": pa.array([f"T{date:%Y%m%d}-{number:08d}" for number in range(first, last)]),
            "timestamp": pa.array(midnight + micros.astype("timedelta64[us]")),
            "date": pa.array([date] * rows, pa.date32()),
            "store_id": pa.array(store + 1),
            "terminal_id": pa.array(random.integers(1, 9, rows)),
            **{name: self._stores.column(name).take(pa.array(store)) for name in self._stores.column_names},
            "hour": pa.array(micros // 3_600_000_000),
            "day_of_week": pa.array([_DAYS[date.weekday()]] * rows),
            "item_count": pa.array(count),
            "distinct_items": pa.array(distinct[basket]),
            "subtotal": pa.array(subtotal),
            "tax": pa.array(tax),
            "total": pa.array(total_amount),
            "payment_method": methods,
            "items": texts.take(pa.array(basket)),
        }
        return _judged(pa.table(columns), pa.array(items[basket]))


def _judged(rows: pa.Table, items: pa.Array) -> pa.Table:
    """Return the rows with a flag for each rule, their score and their quality."""
    opening, closing = OPEN_HOURS
    difference = pc.abs(pc.subtract(rows["total"], pc.add(rows["subtotal"], rows["tax"])))
    flags = {
        "is_total_wrong": pc.greater(difference, 0.015),
        "is_negative": pc.less(rows["total"], 0.0),
        "is_count_wrong": pc.not_equal(rows["item_count"], items),
        "is_high_value": pc.greater(rows["total"], HIGH_TOTAL),
        "is_after_hours": pc.or_(pc.less(rows["hour"], opening), pc.greater_equal(rows["hour"], closing)),
        "is_payment_unknown": pc.is_null(rows["payment_method"]),
    }
    score = np.ones(rows.num_rows)
    for name, cost in RULES.items():
        score -= cost * np.asarray(flags[name].cast(pa.float64()))
        rows = rows.append_column(name, flags[name])
    score = np.round(np.maximum(score, 0), 2)
    words = np.where(score < REVIEW_BELOW, "review", np.where(score < WARNING_BELOW, "warning", "clean"))
    return rows.append_column("quality_score", pa.array(score)).append_column("quality", pa.array(words.tolist()))


def paced(blocks: Iterator[pa.Table], rate: float) -> Iterator[pa.Table]:
    """Yield the rows in smaller blocks, at `rate` rows per second."""
    size = max(1, int(rate / _TICKS))
    start, rows = time.monotonic(), 0
    for block in blocks:
        for first in range(0, block.num_rows, size):
            piece = block.slice(first, size)
            rows += piece.num_rows
            time.sleep(max(0.0, start + rows / rate - time.monotonic()))
            yield piece


def _write_lines(blocks: Iterator[pa.Table], out: IO[bytes]) -> None:
    with duckdb.connect() as connection:
        connection.execute("SET threads = 1")
        for block in blocks:
            lines = connection.from_arrow(block).query("t", "SELECT to_json(t)::VARCHAR FROM t").fetchall()
            out.write("\n".join(line for (line,) in lines).encode() + b"\n")
            out.flush()


def _write_arrow(blocks: Iterator[pa.Table], out: IO[bytes]) -> None:
    first = next(blocks)
    with pa.ipc.new_stream(pa.PythonFile(out, "w"), first.schema) as writer:
        writer.write_table(first)
        for block in blocks:
            writer.write_table(block)
            out.flush()


def main() -> None:
    """Write transactions to standard output."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--stores", type=int, default=50)
    parser.add_argument("--regions", type=lambda text: text.split(","), default=["NW", "NE", "MW", "SE", "SW"])
    parser.add_argument("--days", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--start", type=dt.date.fromisoformat, default=Retail.start)
    parser.add_argument("--per-store", type=int, default=Retail.per_store)
    parser.add_argument("--rate", type=float, help="records per second")
    parser.add_argument("--format", choices=["jsonl", "arrow"], default="jsonl")
    options = vars(parser.parse_args())
    rate, write = options.pop("rate"), {"jsonl": _write_lines, "arrow": _write_arrow}[options.pop("format")]
    blocks = Retail(**options).blocks()
    write(blocks if rate is None else paced(blocks, rate), sys.stdout.buffer)


if __name__ == "__main__":
    main()

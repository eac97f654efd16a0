"""How many rows a second a two-column template renders, on one core.

python -m dev.benchmarks.layout_render [ROWS]
"""

import datetime as dt
import sys
import time

import numpy as np
import pyarrow as pa

from lake_assets.config.layout.template import Template

_REGIONS = np.array(["NE", "NW", "SE", "SW", "MW"])
_DAYS = 365
_ROUNDS = 5


def sample(rows: int) -> pa.Table:
    """Rows of five regions and a year's dates, in no order, with the dates as `date` and as timestamps `ts`."""
    random = np.random.default_rng(7)
    seconds = random.integers(0, _DAYS * 86400, rows) + int(dt.datetime(2026, 1, 1, tzinfo=dt.UTC).timestamp())
    timestamps = pa.array(seconds * 1_000_000, pa.timestamp("us", "UTC"))
    regions = pa.array(_REGIONS[random.integers(0, len(_REGIONS), rows)])
    return pa.table({"region": regions, "date": timestamps.cast(pa.date32()), "ts": timestamps})


def rows_per_second(template: Template, rows: pa.Table) -> float:
    """The best of some rounds, in rows a second."""
    best = float("inf")
    for _ in range(_ROUNDS):
        start = time.perf_counter()
        template.render(rows)
        best = min(best, time.perf_counter() - start)
    return float(rows.num_rows / best)


def main(count: int = 5_000_000) -> None:
    """Print one line a template."""
    pa.set_cpu_count(1)
    rows = sample(count)
    dictionaries = rows.set_column(0, "region", rows["region"].combine_chunks().dictionary_encode())
    cases = [
        ("UTC", "region={region}/date={date}", rows, ""),
        ("UTC", "region={region}/date={date}", dictionaries, ", region dictionary-encoded"),
        ("UTC", "{region}/{ts,,YY}-{ts,,MM}-{ts,,DD}", rows, ""),
        ("Europe/Berlin", "{region}/{ts,,YY}-{ts,,MM}-{ts,,DD}T{ts,,HH}", rows, ""),
    ]
    for zone, text, table, remark in cases:
        speed = rows_per_second(Template.parse(text, time_zone=zone), table)
        sys.stdout.write(f"{speed / 1e6:6.1f} million rows/s  {text}, {zone}{remark}\n")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

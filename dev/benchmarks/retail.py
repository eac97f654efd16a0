"""Generated retail transactions: seeded, of the shape of the reference pipeline's, never called real."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

_CITIES = ["Seattle", "Portland", "Boise", "Spokane", "Eugene", "Tacoma"]
_ITEMS = [f'[{{"sku":"SKU-{i:04d}","qty":{i % 5 + 1},"price":{i % 90 + 0.99}}}]' for i in range(500)]


def transactions(rows: int, seed: int) -> pa.Table:
    """Some transactions of one region and day, 20 columns."""
    r = np.random.default_rng(seed)

    def choice(values: list[str]) -> pa.Array:
        codes = pa.array(r.integers(0, len(values), rows).astype("int32"))
        return pa.DictionaryArray.from_arrays(codes, pa.array(values)).cast(pa.string())

    subtotal = np.round(r.gamma(2, 20, rows), 2)
    tax = np.round(subtotal * 0.08, 2)
    day = np.datetime64("2026-02-11T00:00:00", "us")
    moments = day + np.sort(r.integers(0, 86_400_000_000, rows)).astype("timedelta64[us]")
    score = np.round(r.random(rows), 3)
    return pa.table(
        {
            "transaction_id": pa.array(np.arange(rows, dtype="int64") + seed * rows),
            "ts": pa.array(moments),
            "store_id": pa.array(r.integers(1, 51, rows).astype("int32")),
            "terminal_id": pa.array(r.integers(1, 9, rows).astype("int32")),
            "cashier_id": pa.array(r.integers(1, 400, rows).astype("int32")),
            "item_count": pa.array(r.integers(1, 20, rows).astype("int32")),
            "subtotal": pa.array(subtotal),
            "tax": pa.array(tax),
            "total": pa.array(np.round(subtotal + tax, 2)),
            "payment_method": choice(["card", "cash", "mobile", "gift"]),
            "items": choice(_ITEMS),
            "store_format": choice(["super", "express", "hyper"]),
            "city": choice(_CITIES),
            "state": choice(["WA", "OR", "ID"]),
            "hour": pa.array(r.integers(0, 24, rows).astype("int32")),
            "day_of_week": choice(["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]),
            "is_anomaly": pa.array(r.random(rows) < 0.01),
            "anomaly_reason": choice(["", "amount", "time", "velocity"]),
            "quality_score": pa.array(score),
            "quality": choice(["clean", "warning", "review"]),
        }
    )


def land(folder: Path, files: int, rows: int) -> Path:
    """Files of that many rows each under `region=NW/date=2026-02-11`; what lies there already is taken as it is."""
    partition = folder / "region=NW" / "date=2026-02-11"
    partition.mkdir(parents=True, exist_ok=True)
    for number in range(files):
        file = partition / f"batch_{number:03d}.parquet"
        if not file.exists():
            pq.write_table(transactions(rows, number), file, compression="zstd")
    return folder

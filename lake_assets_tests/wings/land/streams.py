"""A stream for the tests of landing, its records, and what has landed, read by a client that is not ours."""

import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lake_assets.config.column_types import arrow_schema
from lake_assets.config.streams import StreamConfig
from lake_assets.storage.formats.inferred_types import fit
from lake_assets.storage.formats.records import Rejected, validate
from lake_assets.wings.land.read_records import RecordForm, RecordSource, read_records
from lake_assets.wings.land.writer import REJECTS, LandingWriter

COLUMNS = {"region": "string", "date": "date", "id": "bigint", "total": "double"}
PARTITIONS = {"region": {}, "date": {"type": "date", "start": "2026-01-01"}}

GOOD = '{"region":"NW","date":"2026-02-11","id":1,"total":1.5}'


def stream_of(
    source: Path | Mapping[str, Any],
    *,
    layout: str | Mapping[str, Any] | None = None,
    partitions: Mapping[str, Any] = PARTITIONS,
    **landing: Any,
) -> StreamConfig:
    """A stream, of regions and dates by default; `landing` is its config's part of that name."""
    return StreamConfig.model_validate(
        {
            "source": str(source) if isinstance(source, Path) else source,
            "partitions": partitions,
            "destination": {"table": "sales"},
            "landing": {"columns": COLUMNS} | landing,
        }
        | ({"layout": layout} if layout else {})
    )


def rows(first: int, count: int, region: str = "NW", date: str = "2026-02-11") -> pa.Table:
    """Rows of one partition with ids that follow each other."""
    ids = pa.array(range(first, first + count), pa.int64())
    dates = pa.array([date] * count).cast(pa.date32())
    return pa.table({"region": [region] * count, "date": dates, "id": ids, "total": ids.cast(pa.float64())})


def land_text(stream: StreamConfig, path: Path) -> LandingWriter:
    """Land a file as the command does; returns the closed writer."""
    with LandingWriter("sales", stream) as writer:
        form: Any = {".jsonl": "jsonl", ".csv": "csv"}.get(path.suffix, "arrow")
        for records in read_records(RecordSource(str(path), form, integers=writer.integers), writer.schema):
            writer.accept(records)
    return writer


def parsed(form: RecordForm, columns: Mapping[str, str], text: bytes) -> list[pa.Table | Rejected]:
    """What landing makes of a text: rows that fit these columns, and records that do not."""
    schema = arrow_schema(columns)
    records = read_records(RecordSource("-", form, io.BytesIO(text)), lambda _: schema)
    return [item for record in records for item in validate(record, lambda _, rows: fit(rows, schema))]


def landed_ids(folder: Path) -> list[int]:
    """The ids in all files below a folder, sorted."""
    return sorted(i for file in files(folder) for i in pq.read_table(file, partitioning=None)["id"].to_pylist())


def files(folder: Path) -> list[Path]:
    """The data files below a folder, by name."""
    return sorted((file for file in folder.rglob("*.parquet")), key=lambda file: (file.name, str(file)))


def rejects(folder: Path) -> list[dict[str, Any]]:
    """The rejected records of an output."""
    paths = sorted((folder / REJECTS).glob("*.jsonl"), key=lambda file: file.name)
    return [json.loads(line) for path in paths for line in path.read_text().splitlines()]

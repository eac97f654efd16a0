"""The exported changes of a commit: their files, and the rows of the manifest that make these visible."""

import datetime as dt
import hashlib
import re
import secrets
import tempfile
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import duckdb
import pyarrow as pa
from pydantic import Field

from lake_assets.base.duckdb_engine import all_threads, identifier
from lake_assets.base.json_dataclasses import Documented
from lake_assets.config.lake import Lake
from lake_assets.config.sections import Deltas
from lake_assets.lake.failures import translated
from lake_assets.lake.ledger.tables import Values
from lake_assets.lake.session import LakeSession, TableName
from lake_assets.storage.formats.landed_rows import BATCH_ROWS

LATEST = "_latest.json"


@dataclass(frozen=True, slots=True)
class Export:
    """Where and how a commit exports its changes."""

    deltas: Deltas
    target_file_size: int  # bytes
    streams: tuple[str, ...]  # the names of the stream, the present one first


@dataclass(frozen=True, slots=True)
class DeltaFile(Documented):
    """A file of exported changes."""

    uri: str
    """Its path or URI."""
    rows_inserted: int
    """Rows that the commit inserted."""
    rows_deleted: int
    """Rows that the commit deleted."""
    size: Annotated[int, Field(serialization_alias="bytes")]
    """Its size in bytes."""


@dataclass(frozen=True, slots=True)
class Delta:
    """The exported changes of the commit that becomes one snapshot; no other commit may have them."""

    snapshot_id: int
    committed_at: dt.datetime
    files: Sequence[DeltaFile] = ()

    @property
    def values(self) -> list[Values]:
        """A row of the manifest of deltas for each file, without the columns of the ledger."""
        return [(self.committed_at, f.uri, f.rows_inserted, f.rows_deleted, f.size) for f in self.files]


def table_tag(lake: Lake, table: TableName) -> str:
    """Return a short text in the names of a table's exported files, so that maintenance of another lake leaves them."""
    return hashlib.sha256(f"{lake.catalog.location}\n{table}".lower().encode()).hexdigest()[:8]


def file_prefix(tag: str, snapshot: int, moment: dt.datetime) -> str:
    """Return the beginning of the names of one attempt's files. Names sort by time, then by snapshot."""
    return f"{moment.astimezone(dt.UTC):%Y%m%dT%H%M%S.%fZ}-{snapshot:012d}-{tag}-{secrets.token_hex(4)}"


def file_pattern(tag: str) -> re.Pattern[str]:
    """Return the names of a table's exported files."""
    return re.compile(rf"\d{{8}}T\d{{6}}\.\d{{6}}Z-\d{{12,}}-{tag}-[0-9a-f]{{8}}-\d{{3,}}\.parquet")


CHANGE = "_change"
META_COLUMNS = (CHANGE, "_snapshot", "_run_id", "_committed_at")

_COUNT = "_lake_assets_count"
_FOLDER = "lake-assets-spill-"


def taken_name(columns: Iterable[str]) -> str | None:
    """Return the first of these names, in lower case, that the columns of changes have; None if there is none."""
    return min({name.lower() for name in columns}.intersection(META_COLUMNS), default=None)


def meta_fields() -> tuple[pa.Field, ...]:
    """Return the columns of changes after those of the table, in the order of `META_COLUMNS`."""
    kinds = (pa.string(), pa.int64(), pa.string(), pa.timestamp("us", tz="UTC"))
    return tuple(pa.field(name, kind) for name, kind in zip(META_COLUMNS, kinds, strict=True))


def with_meta(batch: pa.RecordBatch, schema: pa.Schema, constants: Sequence[object]) -> pa.RecordBatch:
    """Return a batch of columns and `_change`, with `_snapshot`, `_run_id` and `_committed_at` of their commit."""
    fields = meta_fields()[1:]
    arrays = [pa.repeat(pa.scalar(v, f.type), batch.num_rows) for v, f in zip(constants, fields, strict=True)]
    return pa.RecordBatch.from_arrays([*batch.columns, *arrays], schema=schema)


@dataclass(frozen=True, slots=True)
class RowQuery:
    """A query of rows, with its parameters."""

    sql: str
    parameters: Sequence[object] = ()


def difference(columns: Sequence[str], deleted: RowQuery | None, inserted: RowQuery | None) -> RowQuery:
    """Return the query of the changes between two sets of rows: the columns, and the text `delete` or `insert`.

    A row that both sets have is not a change. Of one that they have several times, the surplus is. Deletes come first.
    If one of the sets is known to be empty (None), the rows are streamed. Otherwise DuckDB aggregates them, and spills
    to disk what exceeds its memory.
    """
    names = ", ".join(map(identifier, columns))
    if deleted is None or inserted is None:
        rows, change = (inserted, "insert") if inserted is not None else (deleted, "delete")
        assert rows is not None, "one of the sets has rows"  # noqa: S101 - the callers' duty
        return RowQuery(f"SELECT {names}, '{change}' AS {CHANGE} FROM ({rows.sql})", rows.parameters)  # noqa: S608 - quoted
    both = (
        f"SELECT {names}, -1 AS {_COUNT} FROM ({deleted.sql}) "  # noqa: S608 - quoted names
        f"UNION ALL SELECT {names}, 1 AS {_COUNT} FROM ({inserted.sql})"
    )
    counts = f"SELECT {names}, sum({_COUNT})::BIGINT AS {_COUNT} FROM ({both}) GROUP BY {names}"  # noqa: S608
    change = f"CASE WHEN {_COUNT} < 0 THEN 'delete' ELSE 'insert' END"
    changes = (
        f"SELECT {names}, {change} AS {CHANGE}, unnest(range(abs({_COUNT}))) "  # noqa: S608
        f"FROM ({counts}) WHERE {_COUNT} <> 0"
    )
    sql = f"SELECT {names}, {CHANGE} FROM ({changes}) ORDER BY {CHANGE}"  # noqa: S608
    return RowQuery(sql, [*deleted.parameters, *inserted.parameters])


def columns_at(session: LakeSession, table: TableName, snapshot: int) -> tuple[dict[str, str], list[pa.Field]]:
    """Return the columns of a table in a snapshot: their DuckDB types by name, and their Arrow fields."""
    with translated(session.config):
        described = session.connection.sql(f"SELECT * FROM {table.sql} AT (VERSION => {int(snapshot)}) LIMIT 0")  # noqa: S608
        types = {name: str(kind) for name, kind in zip(described.columns, described.types, strict=True)}
        return types, list(described.to_arrow_table().schema)


def query_batches(session: LakeSession, rows: RowQuery) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a query, which are read while they are taken, with bounded memory; each may fail."""
    with translated(session.config):
        spill_outside(session)
        with all_threads(session.connection), session.connection.cursor() as cursor:
            cursor.execute("SET TimeZone = 'UTC'")
            reader = cursor.execute(rows.sql, rows.parameters).to_arrow_reader(BATCH_ROWS)
            while (batch := _next(reader)) is not None:
                if batch.num_rows:
                    yield batch


def _next(reader: pa.RecordBatchReader) -> pa.RecordBatch | None:
    """Return the next batch; None at the end.

    Arrow raises an error of its own with DuckDB's text, which becomes a duckdb.IOException.
    """
    try:
        return reader.read_next_batch()
    except StopIteration:
        return None
    except (pa.ArrowException, OSError) as error:
        raise duckdb.IOException(str(error)) from error


def spill_outside(session: LakeSession) -> None:
    """Let the lake's engine spill to the system's folder of temporary files, not to the current folder.

    DuckDB creates the folder when it needs it, and removes it. The folder of an engine cannot change after its first
    use. The spilled rows of an encrypted lake are encrypted.
    """
    engine = session.connection
    ((folder,),) = engine.execute("SELECT current_setting('temp_directory')").fetchall()
    if _FOLDER in str(folder):
        return
    if session.config.is_encrypted:
        engine.execute("SET GLOBAL temp_file_encryption = true")
    engine.execute("SET GLOBAL temp_directory = ?", [str(Path(tempfile.gettempdir(), _FOLDER + uuid.uuid4().hex))])

"""Rows of a query as Arrow batches, which are read while they are taken, with bounded memory."""

import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa

from lake_assets.duckdb_engine import all_threads
from lake_assets.lake.commit.difference import Rows
from lake_assets.lake.failures import translated
from lake_assets.lake.session import LakeSession, TableName
from lake_assets.parquet.read import BATCH_ROWS

_FOLDER = "lake-assets-spill-"


def columns_at(session: LakeSession, table: TableName, snapshot: int) -> tuple[dict[str, str], list[pa.Field]]:
    """The columns of a table in a snapshot: their DuckDB types by name, and their Arrow fields.

    Raises:
        CatalogError: the table cannot be read.
    """
    with translated(session.config):
        described = session.connection.sql(f"SELECT * FROM {table.sql} AT (VERSION => {int(snapshot)}) LIMIT 0")  # noqa: S608
        types = {name: str(kind) for name, kind in zip(described.columns, described.types, strict=True)}
        return types, list(described.to_arrow_table().schema)


def stream(session: LakeSession, rows: Rows) -> Iterator[pa.RecordBatch]:
    """The batches of a query.

    Raises:
        CatalogError: the query fails, at any batch.
    """
    with translated(session.config):
        spill_outside(session)
        with all_threads(session.connection), session.connection.cursor() as cursor:
            cursor.execute("SET TimeZone = 'UTC'")
            reader = cursor.execute(rows.sql, rows.parameters).to_arrow_reader(BATCH_ROWS)
            while (batch := _next(reader)) is not None:
                if batch.num_rows:
                    yield batch


def _next(reader: pa.RecordBatchReader) -> pa.RecordBatch | None:
    """The next batch; None at the end.

    Raises:
        duckdb.IOException: the query fails. Arrow raises an error of its own with DuckDB's text.
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

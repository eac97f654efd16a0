"""Files of an encrypted lake, which DuckDB decrypts: Arrow does not read what it encrypts."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import duckdb
import pyarrow as pa

from lake_assets.base.duckdb_engine import literal
from lake_assets.base.errors import CatalogError
from lake_assets.spark.task.scanned_files import ScanColumn


def decrypted(folder: Path, key: str, columns: Sequence[ScanColumn], others: Mapping[int, str]) -> str:
    """Return the path of a copy of the file `encrypted` in a folder, which DuckDB decrypts; all columns when none.

    DuckDB finds the columns by their ids, and names them so; others, of whole numbers, have names.
    """
    encrypted, plain = str(folder / "encrypted"), str(folder / "plain")
    source = f"read_parquet({literal(encrypted)}, encryption_config = {{footer_key_value: from_base64({literal(key)})}}"
    with duckdb.connect() as engine:
        own = {kind for _, kind, *_ in engine.execute(f"DESCRIBE FROM {source})").fetchall()}
        for column in columns:
            if column.parts and str(duckdb.type(column.sql)) not in own:  # DuckDB finds parts by their names
                raise CatalogError(
                    f"column {column.name!r} is {column.sql} now, and was another type when rows were encrypted:",
                    "read by lake_assets.connect, or name the other columns.",
                )
        form = "{0.column_id}: {{name: '{0.column_id}', type: {1}, default_value: {2}}}"
        places = [form.format(column, literal(column.sql), _default(column)) for column in columns]
        places += [f"{of}: {{name: '{name}', type: 'BIGINT', default_value: NULL}}" for of, name in others.items()]
        schema = f", schema = MAP {{{', '.join(places)}}}" if places else ""
        engine.execute(f"COPY (FROM {source}{schema})) TO {literal(plain)} (FORMAT parquet)")
    return plain


def _default(column: ScanColumn) -> str:
    """Return the default as a text, which DuckDB casts: values of several types are refused there."""
    if pa.types.is_binary(column.type):
        value: object = "".join(f"\\x{byte:02x}" for byte in column.default.as_py() or b"")
    elif pa.types.is_timestamp(column.type):
        value = column.default.cast(pa.string()).as_py()  # Python's have no nanoseconds
    else:
        value = column.default.as_py()
    return literal(str(value)) if column.default.is_valid else "NULL"

"""Descriptions of columns, as writers of Parquet keep them: in the metadata of Arrow's fields, or in Spark's schema."""

import json

import pyarrow as pa

from lake_assets.parquet.parquet_files import ParquetRows
from lake_assets.parquet.read import opened
from lake_assets.storage.arrow import ArrowStore

_KEYS = (b"description", b"comment")  # of a field's metadata; the first that it has counts
_SPARK = b"org.apache.spark.sql.parquet.row.metadata"


def column_descriptions(store: ArrowStore, key: str) -> dict[str, str]:
    """Return the descriptions of an object's columns, by their names in small letters; only the footer is read.

    Raises:
        SourceError, SourceChangedError, StorageError: as `Reader.read`.
    """
    with opened(store, key) as file:
        parquet = ParquetRows(file, key).parquet
        described = _of_spark((parquet.metadata.metadata or {}).get(_SPARK))
        return described | _of_arrow(parquet.schema_arrow)


def _of_arrow(schema: pa.Schema) -> dict[str, str]:
    found = {field.name.lower(): _text(field.metadata or {}) for field in schema}
    return {name: text for name, text in found.items() if text}


def _text(metadata: dict[bytes, bytes]) -> str:
    text = next((metadata[key] for key in _KEYS if key in metadata), b"")
    return text.decode(errors="replace").strip()


def _of_spark(schema: bytes | None) -> dict[str, str]:
    """Return the comments in the JSON that Spark writes to the footer; none if it is not of this form."""
    try:
        fields = json.loads(schema)["fields"] if schema else []
        comments = {str(field["name"]).lower(): field["metadata"].get("comment") for field in fields}
    except (ValueError, LookupError, TypeError, AttributeError):
        return {}
    return {name: text.strip() for name, text in comments.items() if isinstance(text, str) and text.strip()}

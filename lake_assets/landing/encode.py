"""Batches as Parquet files in memory."""

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import types

from lake_assets.errors import SchemaError
from lake_assets.parquet.leaves import leaf_types, no_rows

_SAMPLE = 1000  # rows
_FEW = 64  # distinct values


class Encoder:
    """Writes tables of one schema as Parquet with zstd.

    In a file of a thousand rows, a column of few distinct values takes a few bits a row with a dictionary, and zstd
    makes it no smaller; a column of many distinct values gains nothing from a dictionary. So each column gets one of
    the two. This takes a third less time than both for all columns, and no more bytes.

    Args:
        schema: of the tables.

    Raises:
        SchemaError: Parquet cannot hold a column.
    """

    def __init__(self, schema: pa.Schema) -> None:
        for field in schema:
            if any(map(types.is_duration, leaf_types(field.type))):
                raise SchemaError(
                    f"the records' column {field.name!r} is {field.type}, and Parquet has no durations:",
                    "convert it to a number before.",
                )
        self._dictionaries: list[str] = []
        self._compression: dict[str, str] = {}
        try:
            metadata = pq.read_metadata(pa.BufferReader(self.encode(no_rows(schema))))
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as error:
            raise SchemaError(
                f"the records' columns cannot be written as Parquet: {error}.", "Declare them in `landing.columns`."
            ) from error
        # Parquet compresses the leaves of a nested column, each by its own path.
        self._leaves = [metadata.schema.column(index).path for index in range(metadata.num_columns)]
        self._compression = dict.fromkeys(self._leaves, "zstd")

    def learn(self, rows: pa.Table) -> None:
        """Choose the encoding of each column by some of its rows."""
        sample = rows.slice(0, _SAMPLE)
        names = {field.name for field in sample.schema if _few(sample.column(field.name), field.type)}
        self._compression = {leaf: "none" if leaf in names else "zstd" for leaf in self._leaves}
        self._dictionaries = [name for name in sample.schema.names if name in names]

    def encode(self, rows: pa.Table) -> pa.Buffer:
        """Return the bytes of a Parquet file with these rows."""
        sink = pa.BufferOutputStream()
        pq.write_table(
            rows,
            sink,
            compression=self._compression,
            use_dictionary=self._dictionaries,
            version="2.6",
            store_schema=False,
        )
        return sink.getvalue()


def _few(column: pa.ChunkedArray, kind: pa.DataType) -> bool:
    """Return whether a column of sample rows has few distinct values."""
    if types.is_boolean(kind):
        return True
    if types.is_nested(kind) or len(column) < _SAMPLE:
        return False
    return int(pc.count_distinct(column, mode="all").as_py()) <= _FEW

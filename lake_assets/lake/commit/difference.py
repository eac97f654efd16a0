"""The difference of two sets of rows, as SQL: which rows were removed and which were added."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lake_assets.duckdb_engine import identifier

CHANGE = "_change"
META_COLUMNS = (CHANGE, "_snapshot", "_run_id", "_committed_at")

_COUNT = "_lake_assets_count"


def taken_name(columns: Iterable[str]) -> str | None:
    """The first of these columns' names, in lower case, that the columns of changes have; None if there is none."""
    return min({name.lower() for name in columns}.intersection(META_COLUMNS), default=None)


def meta_fields() -> tuple[pa.Field, ...]:
    """The columns of changes after those of the table, in the order of `META_COLUMNS`."""
    kinds = (pa.string(), pa.int64(), pa.string(), pa.timestamp("us", tz="UTC"))
    return tuple(pa.field(name, kind) for name, kind in zip(META_COLUMNS, kinds, strict=True))


def with_meta(batch: pa.RecordBatch, schema: pa.Schema, constants: Sequence[object]) -> pa.RecordBatch:
    """A batch of columns and `_change`, with `_snapshot`, `_run_id` and `_committed_at` of their commit."""
    fields = meta_fields()[1:]
    arrays = [pa.repeat(pa.scalar(v, f.type), batch.num_rows) for v, f in zip(constants, fields, strict=True)]
    return pa.RecordBatch.from_arrays([*batch.columns, *arrays], schema=schema)


@dataclass(frozen=True, slots=True)
class Rows:
    """A query of rows, with its parameters."""

    sql: str
    parameters: Sequence[object] = ()


def difference(columns: Sequence[str], deleted: Rows | None, inserted: Rows | None) -> Rows:
    """The query of the changes between two sets of rows: the columns, and the text `delete` or `insert`.

    A row that both sets have is no change; of a row that they have several times, the surplus is. Deletes come first.
    If one of the sets is known to be empty (None), the rows are streamed. Otherwise DuckDB aggregates them, and spills
    to disk what exceeds its memory.
    """
    names = ", ".join(map(identifier, columns))
    if deleted is None or inserted is None:
        rows, change = (inserted, "insert") if inserted is not None else (deleted, "delete")
        assert rows is not None, "one of the sets has rows"  # noqa: S101 - the callers' duty
        return Rows(f"SELECT {names}, '{change}' AS {CHANGE} FROM ({rows.sql})", rows.parameters)  # noqa: S608 - quoted
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
    return Rows(sql, [*deleted.parameters, *inserted.parameters])

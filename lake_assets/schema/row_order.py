"""The order of rows in data files, if a client of the lake has given the table one (`ALTER TABLE … SET SORTED BY`)."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lake_assets.schema.dictionaries import combined_table
from lake_assets.schema.leaves import without_dictionary

RUN_BYTES = 256 * 2**20  # of Arrow memory that is sorted at once; it bounds the memory of a task
BATCH_ROWS = 100_000


@dataclass(frozen=True, slots=True)
class SortKey:
    """A column that orders rows, by its name in any case."""

    column: str
    is_descending: bool = False
    has_nulls_first: bool = False


def sorted_runs(batches: Iterable[pa.RecordBatch], order: Sequence[SortKey]) -> Iterator[pa.RecordBatch]:
    """Yield the rows in runs of 256 MB, each of them sorted; as they are if there is no order.

    A key that the rows lack is of their partition, and the same for all. A nested column ends the order before it.
    """
    if not order:
        yield from batches
        return
    gathered: list[pa.RecordBatch] = []
    memory = 0
    for batch in batches:
        gathered.append(batch)
        memory += batch.nbytes
        if memory >= RUN_BYTES:
            yield from _sorted(gathered, order)
            memory = 0
    if gathered:
        yield from _sorted(gathered, order)


def _sorted(gathered: list[pa.RecordBatch], order: Sequence[SortKey]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the batches, sorted; the list is emptied, so that their memory is released."""
    rows = combined_table(gathered)
    gathered.clear()
    names = {name.lower(): name for name in rows.schema.names}
    values, keys = [], []
    for key in order:
        name = names.get(key.column.lower())
        if name is None:
            continue
        if pa.types.is_nested(kind := without_dictionary(rows.schema.field(name).type)):
            break
        column = rows.column(name).cast(kind)
        # Arrow has one place for the NULLs of all keys.
        values += [column.is_null(), column]
        keys += ["descending" if first else "ascending" for first in (key.has_nulls_first, key.is_descending)]
    if values:
        by = pa.Table.from_arrays(values, [str(number) for number in range(len(values))])
        positions = pc.sort_indices(by, [(name, way) for name, way in zip(by.schema.names, keys, strict=True)])
        rows = rows.take(positions)
    yield from rows.to_batches(BATCH_ROWS)

"""The rows of an open landed object, of any format: what a task needs of it."""

import datetime as dt
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lake_assets.schema.bad_rows import NUMBER, BadRows
from lake_assets.schema.dictionaries import dictionary_columns
from lake_assets.schema.schema_fit import Fitter
from lake_assets.schema.spans import ValueSpan, span_of
from lake_assets.storage.formats.parquet_files import BATCH_ROWS, ParquetRows

DECODED = 16 * 2**20  # bytes of an object, decompressed; larger ones are decoded as they are read


@dataclass(frozen=True, slots=True)
class Share:
    """The part of an object that one task reads: row groups `part·n/parts` up to `(part+1)·n/parts` of its n.

    Of ORC it is stripes; of Avro and a text the blocks or records that begin in these bytes.
    """

    key: str
    etag: str
    size: int  # bytes, of the whole object
    part: int = 0
    parts: int = 1
    modified: dt.datetime | None = None  # of the whole object


@dataclass(frozen=True, slots=True)
class Rows:
    """Some rows of an object."""

    batch: pa.RecordBatch  # the rows
    first: int  # the number of the first one in the object, from 0; unused if no row's number is needed
    # Returns those that are left out as dead letters have them, given their numbers; None: as they are
    letters: Callable[[BadRows], BadRows] | None = None


def renumbered(before: Callable[[], int], bad: BadRows) -> BadRows:
    """Return rows of a share with their numbers in the object, of which so many rows are before the share."""
    column = bad.rows.schema.get_field_index(NUMBER)
    numbers = pc.add(bad.rows.column(column), before())
    return BadRows(bad.rows.set_column(column, NUMBER, numbers), bad.reasons)


class LandedRows(Protocol):
    """An open object. Each format has a reader of this form; nothing but `Reader` knows which one it is."""

    schema: pa.Schema  # its own columns, without those that are added
    count: int | None  # the number of its rows; None if only the rows tell it

    @property
    def is_small(self) -> bool:
        """Whether the rows fit into one batch, so that they can be decoded ahead of their turn."""

    def read(
        self, share: Share, columns: Sequence[str], fitter: Fitter, *, numbered: bool, splits: bool
    ) -> Iterator[Rows | BadRows]:
        """Yield the rows of a share in order, in batches, and those that cannot be read as the schema's types.

        Rows that `fitter` would drop may be left out. `numbered`: the rows' numbers are needed. `splits`: rows that
        cannot be read are left out by themselves, and those that do not fit later; otherwise a row that cannot be read
        is a SchemaError. A damaged object is an ArrowInvalid or an OSError.
        """


class LandedParquet:
    """The rows of a Parquet object, which is divided into shares by its row groups."""

    def __init__(self, rows: ParquetRows, *, dictionaries: bool) -> None:
        self.schema: pa.Schema = rows.schema
        self.count: int | None = rows.count
        self._rows = rows
        self._dictionaries = dictionaries  # columns that the object stores as such may stay dictionaries of texts

    @property
    def is_small(self) -> bool:
        """See `LandedRows`."""
        metadata = self._rows.parquet.metadata
        if self._rows.count > BATCH_ROWS:
            return False
        size: int = sum(metadata.row_group(n).total_byte_size for n in range(metadata.num_row_groups))
        return size <= DECODED

    def read(
        self, share: Share, columns: Sequence[str], fitter: Fitter, *, numbered: bool, splits: bool
    ) -> Iterator[Rows | BadRows]:
        """See `LandedRows`."""
        rows = self._rows
        count = rows.parquet.num_row_groups
        own = range(share.part * count // share.parts, (share.part + 1) * count // share.parts)
        dictionaries = dictionary_columns(rows.parquet, own, fitter.unchanged) if self._dictionaries else []
        # One row group at a time, because pre-buffering takes memory for all that are requested.
        for group in own:
            if not _may_have_rows(rows, group, fitter):
                continue
            first = _first_row(rows.parquet, group) if numbered or splits else 0
            for batch in rows.batches(BATCH_ROWS, group, columns, nanos=fitter.nanos, dictionaries=dictionaries):
                yield Rows(batch, first)
                first += batch.num_rows


def _first_row(parquet: pq.ParquetFile, group: int) -> int:
    """Return the number of a row group's first row in the file, from 0."""
    return sum(parquet.metadata.row_group(number).num_rows for number in range(group))


def _may_have_rows(rows: ParquetRows, group: int, fitter: Fitter) -> bool:
    """Return whether a row group may have rows of the partition, by its statistics."""
    if not (fitter.chosen or fitter.made):
        return True
    parquet, old = rows.parquet, rows.columns.old
    names = [parquet.schema.column(index).path for index in range(len(parquet.schema))]
    chosen: list[tuple[int, Callable[[ValueSpan], bool]]]
    chosen = [
        (names.index(name), partial(ValueSpan.may_hold, value=value.as_py())) for name, value in fitter.chosen.items()
    ]
    chosen += [(names.index(made.name), made.may_be_in) for made in fitter.made if made.name in names]
    facts = parquet.metadata.row_group(group)
    return all(
        may_be_in(span_of(facts.column(index).statistics, is_old=names[index] in old)) for index, may_be_in in chosen
    )

"""The rows of an open landed object, of any format: what a task needs of it."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from lake_assets.base.errors import SchemaDriftError
from lake_assets.schema.bad_rows import ROW_NUMBER, BadRows
from lake_assets.schema.column_rules import Rules
from lake_assets.schema.fitter import Fitter
from lake_assets.storage.manifest import LandedObject

BATCH_ROWS = 131_072
DECODED = 16 * 2**20  # bytes of an object, decompressed; larger ones are decoded as they are read


@dataclass(frozen=True, slots=True)
class Part:
    """One of several parts of an object: of Parquet some row groups, of ORC some stripes.

    Of Avro and a text it is the blocks or records that begin in some of the bytes.
    """

    number: int = 0
    of: int = 1

    def span(self, count: int) -> range:
        """Return which of so many row groups, stripes or bytes it has."""
        return range(self.number * count // self.of, (self.number + 1) * count // self.of)


WHOLE_OBJECT = Part()


@dataclass(frozen=True, slots=True)
class Share:
    """The part of a landed object that one task reads."""

    landed: LandedObject
    part: Part = WHOLE_OBJECT


@dataclass(frozen=True, slots=True)
class LandedBatch:
    """Some rows of an object."""

    batch: pa.RecordBatch  # the rows
    first: int  # the number of the first one in the object, from 0; unused if no row's number is needed
    # Returns those that are left out as dead letters have them, given their numbers; None: as they are
    letters: Callable[[BadRows], BadRows] | None = None


def renumbered(before: Callable[[], int], bad: BadRows) -> BadRows:
    """Return rows of a part with their numbers in the object, of which so many rows are before the part."""
    column = bad.rows.schema.get_field_index(ROW_NUMBER)
    numbers = pc.add(bad.rows.column(column), before())
    return BadRows(bad.rows.set_column(column, ROW_NUMBER, numbers), bad.reasons)


@dataclass(frozen=True, slots=True)
class ExpectedObject:
    """What a stream tells of an object before it is opened."""

    form: Any  # the format of the config
    columns: pa.Schema  # whose types are known: those as which a text is read, and aliases of Avro
    rules: Rules  # for columns that are not known, and values that do not fit


class LandedRows(Protocol):
    """An open object. Each format has a reader of this form; nothing but `Landed.open` knows which one it is."""

    schema: pa.Schema  # its own columns, without those that are added
    count: int | None  # the number of its rows; None if only the rows tell it

    @property
    def is_small(self) -> bool:
        """Whether the rows fit into one batch, so that they can be decoded ahead of their turn."""

    def read(
        self, part: Part, columns: Sequence[str], fitter: Fitter, *, numbered: bool
    ) -> Iterator[LandedBatch | BadRows]:
        """Yield the rows of a part in order, in batches, and those that cannot be read as the schema's types.

        Rows that `fitter` would drop may be left out. `numbered`: the rows' numbers are needed. If the fitter `splits`,
        rows that cannot be read are left out by themselves, and those that do not fit later; otherwise a row that
        cannot be read is a SchemaError. A damaged object is an ArrowInvalid or an OSError.
        """


class RenamedRows:
    """Rows with the names of the table, without the columns that are left out; two of one name are refused."""

    def __init__(self, rows: LandedRows, rules: Rules, origin: str) -> None:
        self.schema = rules.renamed(rows.schema, origin)
        self.count = rows.count
        self._rows = rows
        self._rules = rules
        self._landed = dict(zip(self.schema.names, (column.name for column in rules.kept(rows.schema)), strict=True))

    @property
    def is_small(self) -> bool:
        """See `LandedRows`."""
        return self._rows.is_small

    def read(
        self, part: Part, columns: Sequence[str], fitter: Fitter, *, numbered: bool
    ) -> Iterator[LandedBatch | BadRows]:
        """See `LandedRows`."""
        names = {landed: name for name, landed in self._landed.items()}
        landed = [self._landed[name] for name in columns]
        fitter = fitter.reading(self._landed)
        try:
            for rows in self._rows.read(part, landed, fitter, numbered=numbered):
                if isinstance(rows, LandedBatch):
                    batch = rows.batch.rename_columns([names.get(name, name) for name in rows.batch.schema.names])
                    yield replace(rows, batch=batch)
                else:
                    yield rows
        except SchemaDriftError as error:  # of a text whose later records have other columns
            schemas = [(origin, self._rules.columns_of(schema, origin)) for origin, schema in error.schemas]
            raise SchemaDriftError(error.problem, error.hint, schemas) from error

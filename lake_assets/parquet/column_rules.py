"""What the columns of landed rows are to be, besides their types."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa

from lake_assets.config.modes import SchemaPolicy
from lake_assets.formats.annotations import is_foreign
from lake_assets.parquet.leaves import plain
from lake_assets.parquet.row_order import SortKey
from lake_assets.parquet.type_fit import STRING_KINDS, Misfit, misfits, wider


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of a stream; names of columns are in lower case.

    Attributes:
        policy: `evolve` fills missing columns and fields of structs with NULL, and raises `SchemaDriftError` for
            unknown and wider ones; `ignore_extra` leaves out unknown ones; `strict` refuses all of them.
        required: the columns that have a value in each row.
        defaults: the values of rows that have none.
        formats: how texts are read as the types of their columns.
        rescue: the column with what does not fit, as it is written.
        sources: the landed names of columns that have another one in the table.
        reserved: landed columns that decide the partition of a row; they are never kept beside it.
        not_null: the columns that are NOT NULL in the table.
        absent: the table's defaults, for rows that lack a column.
        order: of the rows in each of the table's files.
    """

    policy: SchemaPolicy = "strict"
    required: frozenset[str] = frozenset()
    defaults: Mapping[str, pa.Scalar] = field(default_factory=dict)
    formats: Mapping[str, str] = field(default_factory=dict)
    rescue: str | None = None
    sources: Mapping[str, str] = field(default_factory=dict)
    reserved: frozenset[str] = frozenset()
    not_null: frozenset[str] = frozenset()
    absent: Mapping[str, pa.Scalar] = field(default_factory=dict)
    order: tuple[SortKey, ...] = ()

    @property
    def columns(self) -> frozenset[str]:
        """The columns that have one of their own."""
        return self.required.union(self.defaults, self.formats, self.not_null)

    def form_of(self, column: pa.Field) -> str | None:
        """Return the format of a landed column of texts."""
        is_text = any(is_kind(plain(column.type)) for is_kind in STRING_KINDS)
        return self.formats.get(column.name.lower()) if is_text else None

    @property
    def of_results(self) -> "Rules":
        """Those of the rows of a transform, which have no texts any more."""
        return replace(self, formats={}, rescue=None)

    def landed(self, name: str) -> str:
        """Return the landed name of a column."""
        return self.sources.get(name.lower(), name)

    def rescues(self, misfit: Misfit) -> bool:
        """Return whether what does not fit is kept beside the columns, so that the others stay as they are."""
        if self.rescue is None or misfit.given is None:
            return False
        if misfit.known is None:
            return self.policy == "strict" or is_foreign(misfit.given)
        return self.policy != "evolve" or wider(misfit.known, misfit.given) is None

    def leaves_out(self, column: pa.Field) -> bool:
        """Return whether a table gets no column for a landed one, because no lake holds its type."""
        return is_foreign(column.type) and (self.rescue is not None or self.policy == "ignore_extra")

    def evolving(self, schema: pa.Schema, table: pa.Schema) -> pa.Schema:
        """Return the columns of an object that may change the table, or fit: the others are kept beside it."""
        known = {column.name.lower(): column for column in table}
        return pa.schema(
            [
                column
                for column in schema
                if not any(map(self.rescues, misfits([column], [known.get(column.name.lower(), column)], "evolve")))
                and (column.name.lower() in known or not self.leaves_out(column))
            ]
        )

    @property
    def before_transform(self) -> "Rules":
        """Those of the rows that a transform reads, whose columns are not the table's."""
        return replace(self, not_null=frozenset(), absent={})

    def why_required(self, name: str) -> str | None:
        """Return why a row must have a value of a column, as a clause; None if it need not."""
        if name.lower() in self.defaults:
            return None
        if name.lower() in self.required:
            return "`columns` declares nullable: false"
        return "the table has it NOT NULL" if name.lower() in self.not_null else None

    def default_of(self, name: str) -> pa.Scalar | None:
        """Return the value of rows that lack a column; None if that is NULL."""
        return self.defaults.get(name.lower(), self.absent.get(name.lower()))


STRICT = Rules()

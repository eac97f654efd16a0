"""What the columns of landed rows are to be, besides their types."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa

from lake_assets.config.modes import SchemaPolicy
from lake_assets.parquet.leaves import plain
from lake_assets.parquet.type_fit import STRING_KINDS


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of a stream; names of columns are in lower case.

    Attributes:
        policy: `evolve` fills missing columns and fields of structs with NULL, and raises `SchemaDriftError` for
            unknown and wider ones; `ignore_extra` leaves out unknown ones; `strict` refuses all of them.
        required: the columns that have a value in each row.
        defaults: the values of rows that have none.
        formats: how texts are read as the types of their columns.
    """

    policy: SchemaPolicy = "strict"
    required: frozenset[str] = frozenset()
    defaults: Mapping[str, pa.Scalar] = field(default_factory=dict)
    formats: Mapping[str, str] = field(default_factory=dict)

    @property
    def columns(self) -> frozenset[str]:
        """The columns that have one of their own."""
        return self.required.union(self.defaults, self.formats)

    def form_of(self, column: pa.Field) -> str | None:
        """Return the format of a landed column of texts."""
        is_text = any(is_kind(plain(column.type)) for is_kind in STRING_KINDS)
        return self.formats.get(column.name.lower()) if is_text else None

    @property
    def of_results(self) -> "Rules":
        """Those of the rows of a transform, which have no texts any more."""
        return replace(self, formats={})

    def must_have(self, name: str) -> bool:
        """Return whether a landed row must have a value of a column."""
        return name.lower() in self.required and name.lower() not in self.defaults


STRICT = Rules()

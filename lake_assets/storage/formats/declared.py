"""The columns that a stream declares, where landed columns become those of the table."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Self

import pyarrow as pa

from lake_assets.base.errors import SchemaDriftError, SchemaError
from lake_assets.config.column_types import arrow_type
from lake_assets.config.columns import default_value
from lake_assets.schema.bad_rows import BadRows
from lake_assets.schema.column_rules import STRICT, Rules
from lake_assets.schema.row_order import SortKey
from lake_assets.schema.schema_fit import Fitter
from lake_assets.schema.type_fit import widens
from lake_assets.storage.formats.landed_rows import LandedRows, Rows, Share

if TYPE_CHECKING:
    from lake_assets.config.streams import Stream


@dataclass(frozen=True, slots=True)
class Declared:
    """The declared columns of a stream."""

    # The names in the landed files of columns that have another one in the table, by that
    sources: Mapping[str, str] = field(default_factory=dict)
    # The landed columns that are left out, by their names in lower case; see `kept`
    omitted: Mapping[str, str] = field(default_factory=dict)
    is_landed: bool = True  # the table has the landed columns; a transform makes others
    rules: Rules = STRICT  # what the columns are to be besides

    @classmethod
    def of(cls, config: "Stream") -> Self:
        """Return those of a stream."""
        columns = config.declared
        sources = {name: column.source for name, column in columns.items() if column.source is not None}
        omitted = {name.lower(): name for name, column in columns.items() if column.omit}
        lower = {name.lower(): column for name, column in columns.items()}
        rules = Rules(
            config.schema_policy,
            frozenset(name for name, column in lower.items() if not column.nullable),
            {
                name: default_value(column.default, arrow_type(column.type))
                for name, column in lower.items()
                if column.default is not None and column.type is not None
            },
            {name: column.format for name, column in lower.items() if column.format is not None},
            config.rescue,
            {name.lower(): source for name, source in sources.items()},
            frozenset(name.lower() for name in (*config.partitions, *(derived.column for derived in config.derived))),
            types={n.lower(): pa.field(n, arrow_type(c.type)) for n, c in columns.items() if c.type is not None},
            rows="registered" if config.mode == "index" else "landed",
        )
        return cls(sources, omitted, config.transform is None, rules)

    def for_table(self, not_null: frozenset[str], absent: Mapping[str, pa.Scalar], order: tuple[SortKey, ...]) -> Self:
        """Return these with what the table decides: see `Rules`."""
        return replace(self, rules=replace(self.rules, not_null=not_null, absent=absent, order=order))

    @property
    def renames(self) -> bool:
        """Whether the rows have other columns, or other names of them, than the landed objects."""
        return bool(self.sources or self.omitted)

    @property
    def adapts(self) -> bool:
        """Whether the rows are not those of the landed objects as they are, or each value is to be looked at."""
        return self.renames or bool(self.rules.columns)

    @property
    def of_table(self) -> Rules:
        """The rules of the rows that the table gets; those of a transform have no texts any more."""
        return self.rules if self.is_landed else replace(self.rules, formats={}, rescue=None, rows="result")

    @property
    def of_landed(self) -> Rules:
        """The rules of the rows of landed objects; the columns of those that a transform reads are not the table's."""
        if self.is_landed:
            return self.rules
        return replace(self.rules, not_null=frozenset(), absent={}, rows="first", is_input=True)

    def kept(self, schema: pa.Schema) -> list[pa.Field]:
        """Return the columns of a landed object that are not left out; of two that differ in case, one may be."""
        names = set(schema.names)
        declared = [(column, self.omitted.get(column.name.lower())) for column in schema]
        return [column for column, name in declared if name is None or (name in names and name != column.name)]

    def renamed(self, schema: pa.Schema, origin: str) -> pa.Schema:
        """Return the columns of a landed object by their names in the table, without those that are left out.

        Two of one name are refused.
        """
        if not self.renames:
            return schema
        names = {source.lower(): name for name, source in self.sources.items()}
        found: dict[str, pa.Field] = {}
        for landed in self.kept(schema):
            name = names.get(landed.name.lower(), landed.name)
            if (other := found.setdefault(name.lower(), landed)) is not landed:
                # `columns` knows no two names that differ in the case of their letters.
                same = other.name.lower() == landed.name.lower()
                raise SchemaError(
                    f"{origin} has the columns {other.name!r} and {landed.name!r}, and each is {name!r} in the table:",
                    "rename one where it is written, or leave one out: omit: true in `columns`."
                    if same
                    else "omit one of them in `columns`, or give it another name there.",
                )
        return pa.schema([f.with_name(names.get(f.name.lower(), f.name)) for f in found.values()])

    def columns_of(self, schema: pa.Schema, origin: str) -> pa.Schema:
        """Return the columns that the rows of a landed object have, as `renamed`, with the types of its texts."""
        return self._as_declared(self.renamed(schema, origin), lambda field, _: self.rules.form_of(field) is not None)

    def typed(self, schema: pa.Schema) -> pa.Schema:
        """Return the columns of a landed object with the declared types that hold theirs."""
        return self._as_declared(schema, lambda field, kind: widens(field.type, kind))

    def read_as(self, schema: pa.Schema) -> pa.Schema:
        """Return the inferred columns of a text with the declared types, as which it is read."""
        return self._as_declared(schema, lambda *_: True)

    def _as_declared(self, schema: pa.Schema, holds: Callable[[pa.Field, pa.DataType], bool]) -> pa.Schema:
        kinds = [(field, self.rules.types.get(field.name.lower(), field).type) for field in schema]
        return pa.schema([field.with_type(kind) if holds(field, kind) else field for field, kind in kinds])

    def created(self, schema: pa.Schema) -> pa.Schema:
        """Return the columns of a new table: these, with the declared types, and the declared ones that they lack."""
        return self._with_declared(self.rules.created(self.read_as(schema)))

    def known(self, columns: pa.Schema) -> pa.Schema:
        """Return the columns whose types are known, by their landed names, given those of the table.

        A table that grows gets the declared ones that it lacks.
        """
        known = self._with_declared(columns) if self.is_landed and self.rules.grows else columns
        texts = [f.with_type(pa.string()) if f.name.lower() in self.rules.formats else f for f in known]
        return pa.schema([f.with_name(self.rules.landed(f.name)) for f in texts])

    def _with_declared(self, schema: pa.Schema) -> pa.Schema:
        own = {name.lower() for name in schema.names}
        return pa.schema([*schema, *(field for name, field in self.rules.types.items() if name not in own)])


UNDECLARED = Declared()


class DeclaredRows:
    """Rows with declared names, without the columns that are left out; two of one name are refused."""

    def __init__(self, rows: LandedRows, declared: Declared, origin: str) -> None:
        self.schema = declared.renamed(rows.schema, origin)
        self.count = rows.count
        self._rows = rows
        self._declared = declared
        self._landed = dict(zip(self.schema.names, (column.name for column in declared.kept(rows.schema)), strict=True))

    @property
    def is_small(self) -> bool:
        """See `LandedRows`."""
        return self._rows.is_small

    def read(
        self, share: Share, columns: Sequence[str], fitter: Fitter, *, numbered: bool, splits: bool
    ) -> Iterator[Rows | BadRows]:
        """See `LandedRows`."""
        names = {landed: name for name, landed in self._landed.items()}
        landed = [self._landed[name] for name in columns]
        fitter = fitter.reading(self._landed)
        try:
            for rows in self._rows.read(share, landed, fitter, numbered=numbered, splits=splits):
                if isinstance(rows, Rows):
                    batch = rows.batch.rename_columns([names.get(name, name) for name in rows.batch.schema.names])
                    yield replace(rows, batch=batch)
                else:
                    yield rows
        except SchemaDriftError as error:  # of a text whose later records have other columns
            schemas = [(origin, self._declared.columns_of(schema, origin)) for origin, schema in error.schemas]
            raise SchemaDriftError(error.problem, error.hint, schemas) from error

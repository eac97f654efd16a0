"""The one decision what becomes of landed columns that are not as the table has them, and of rows that do not fit.

`Rules` are those of a stream. Readers, writers, schema evolution and the dry run all ask them.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Literal, Self, TypeAlias

import pyarrow as pa
from pyarrow import types as t

from lake_assets.base.errors import SchemaDriftError, SchemaError
from lake_assets.config.column_types import arrow_type
from lake_assets.config.columns import default_value
from lake_assets.config.layout.derived import Derived
from lake_assets.config.layout.partition import PartitionColumn
from lake_assets.config.modes import SchemaPolicy
from lake_assets.schema.annotations import is_foreign
from lake_assets.schema.arrow_types import (
    columns_with_values,
    is_text,
    with_types_of,
    without_columns,
    without_null_parts,
)
from lake_assets.schema.casts import is_number
from lake_assets.schema.misfits import LAND_AS_ANOTHER, OF_ANOTHER, Misfit, misfits, refuse_places, widens, wider_type

if TYPE_CHECKING:
    from lake_assets.config.streams import StreamConfig

AnyRows: TypeAlias = Literal["landed", "first", "result", "registered"]
"""Rows for a table that has others; those that are compared with another object; of a transform; of mode index."""

_EVOLVE = "or set schema_policy: evolve, with which the table gains new columns and missing ones are NULL."
_COLUMNS: Mapping[AnyRows, str] = {
    "landed": f"land it again with the table's columns, give it these in a transform, {_EVOLVE}",
    "first": "land it again with the columns of the others, or set schema_policy: evolve, which fills missing ones.",
    "result": f"give it the table's columns, {_EVOLVE}",
    "registered": "land it again with the table's columns, or use mode: replace with schema_policy: evolve.",
}
_TYPES: Mapping[AnyRows, str] = {
    "landed": "cast it in a transform, or let the stream fill another table.",
    "first": LAND_AS_ANOTHER,
    "result": "cast it in the transform, or let the stream fill another table.",
    "registered": "land it with the table's type.",
}
_CAST = "land it as that type, cast it in a transform, or declare another one in `columns` for a new table."
_DECLARED: Mapping[AnyRows, str] = {
    "landed": _CAST,
    "first": _CAST,
    "result": "cast it in the transform.",
    "registered": "land it as that type, or declare another one in `columns` for a new table.",
}
_WIDER: Mapping[AnyRows, str] = {
    "landed": "set schema_policy: evolve, which widens the table's column, or cast it in a transform.",
    "first": "set schema_policy: evolve, which takes the wider type, or land it with the type of the others.",
    "result": "set schema_policy: evolve, which widens the table's column, or cast it in the transform.",
    "registered": "land it with the table's type, or use mode: replace with schema_policy: evolve.",
}


class ColumnVerdict(Enum):
    """What becomes of a column, or of a part of one, that a landed object has otherwise than the table."""

    FILL = "its rows have NULL or a default in the table's column"
    LEAVE_OUT = "it is not read"
    CHANGE = "the table gets it, its wider type, or the type of its first value"
    CAST = "its values decide: each that is the same in the table's type fits"
    RESCUE = "what does not fit is kept in the column of rescue"
    REFUSE = "it is an error"


@dataclass(frozen=True, slots=True)
class SortKey:
    """A column that orders rows, by its name in any case."""

    column: str
    is_descending: bool = False
    has_nulls_first: bool = False


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of a stream, or of a table alone. Keys are names of columns in the table, in lower case."""

    policy: SchemaPolicy = "strict"  # nobody else asks for it; `verdict` says what it means
    required: frozenset[str] = frozenset()  # the columns that have a value in each row
    defaults: Mapping[str, pa.Scalar] = field(default_factory=dict)  # the values of rows that have none
    formats: Mapping[str, str] = field(default_factory=dict)  # how texts are read as the types of their columns
    rescue: str | None = None  # the column with what does not fit, as it is written
    splits: bool = False  # a row that does not fit is left out by itself; otherwise it is an error
    # The names in the landed files of columns that have another one in the table, by that as it is written
    sources: Mapping[str, str] = field(default_factory=dict)
    # The landed columns that are left out, by their names in lower case; see `kept`
    omitted: Mapping[str, str] = field(default_factory=dict)
    # The columns with a declared type, which never changes
    types: Mapping[str, pa.Field] = field(default_factory=dict)
    # Landed columns that decide the partition of a row; they are never kept beside it
    reserved: frozenset[str] = frozenset()
    derived: tuple[Derived, ...] = ()  # partition columns that are made of a landed one, by which rows are checked
    selects: bool = False  # keep only the partition's rows, by the partition columns in the rows
    not_null: frozenset[str] = frozenset()  # the columns that are NOT NULL in the table
    absent: Mapping[str, pa.Scalar] = field(default_factory=dict)  # the table's defaults, for rows that lack a column
    order: tuple[SortKey, ...] = ()  # of the rows in each of the table's files
    is_landed: bool = True  # the table has the landed columns; a transform makes others
    rows: AnyRows = "landed"  # which rows have the columns, for the advice of errors
    is_input: bool = False  # they are those that a transform reads, whose columns are settled before

    @classmethod
    def of(cls, config: "StreamConfig") -> Self:
        """Return the rules of a stream, without what its table decides."""
        columns = config.declared
        lower = {name.lower(): column for name, column in columns.items()}
        return cls(
            config.schema_policy,
            required=frozenset(name for name, column in lower.items() if not column.nullable),
            defaults={
                name: default_value(column.default, arrow_type(column.type))
                for name, column in lower.items()
                if column.default is not None and column.type is not None
            },
            formats={name: column.format for name, column in lower.items() if column.format is not None},
            rescue=config.rescue,
            splits=config.on_bad_row == "dead_letter",
            sources={name: column.source for name, column in columns.items() if column.source is not None},
            omitted={name.lower(): name for name, column in columns.items() if column.omit},
            types={n.lower(): pa.field(n, arrow_type(c.type)) for n, c in columns.items() if c.type is not None},
            reserved=frozenset(name.lower() for name in (*config.partitions, *(d.column for d in config.derived))),
            derived=config.derived,
            selects=config.selects_rows,
            is_landed=config.transform is None,
            rows="registered" if config.mode.registers else "landed",
        )

    @property
    def of_first(self) -> Self:
        """The rules of rows that fill a new table, whose columns are those of the first objects."""
        return replace(self, rows="first")

    @property
    def of_landed(self) -> Self:
        """The rules of the rows of landed objects; those that a transform reads do not have the table's columns."""
        if self.is_landed:
            return self
        return replace(self, not_null=frozenset(), absent={}, rows="first", is_input=True)

    @property
    def of_table(self) -> Self:
        """The rules of the rows that the table gets; those of a transform have no texts, and are of one partition."""
        if self.is_landed:
            return self
        return replace(self, formats={}, rescue=None, splits=False, derived=(), selects=False, rows="result")

    @property
    def renames(self) -> bool:
        """Whether the rows have other columns, or other names of them, than the landed objects."""
        return bool(self.sources or self.omitted)

    @property
    def adapts(self) -> bool:
        """Whether the rows are not those of the landed objects as they are, or each value is to be looked at."""
        return bool(not self.is_landed or self.renames or self.columns or self.selects or self.derived)

    @property
    def columns(self) -> frozenset[str]:
        """The columns with a rule of their own, by which each value is looked at."""
        return self.required.union(self.defaults, self.formats, self.not_null)

    def form_of(self, column: pa.Field) -> str | None:
        """Return the format of a landed column of texts."""
        return self.formats.get(column.name.lower()) if is_text(column.type) else None

    def landed(self, name: str) -> str:
        """Return the landed name of a column."""
        return next((source for own, source in self.sources.items() if own.lower() == name.lower()), name)

    @property
    def unknown(self) -> ColumnVerdict:
        """What becomes of a column that the table lacks, and whose type lakes have."""
        return self.verdict(Misfit(("",), pa.string(), None))

    @property
    def grows(self) -> bool:
        """Whether the table gets the columns and the wider types of landed objects."""
        return self.unknown is ColumnVerdict.CHANGE

    def verdict(self, misfit: Misfit) -> ColumnVerdict:
        """Return what becomes of a column, or a part of one."""
        given, known, evolves = misfit.given, misfit.known, self.policy == "evolve"
        if given is None:
            has_default = len(misfit.path) == 1 and self.default_of(misfit.name) is not None
            return ColumnVerdict.FILL if evolves or has_default else ColumnVerdict.REFUSE
        if known is None and not misfit.is_second and (self.policy == "ignore_extra" or (evolves and t.is_null(given))):
            return ColumnVerdict.LEAVE_OUT  # a new column without a value has no type yet
        is_new = known is None and len(misfit.path) == 1
        may_change = evolves and not self.is_input and (is_new or not self._is_declared(misfit))
        if known is None:
            is_kept = self.rescue is not None and (not may_change or is_foreign(given))
            return ColumnVerdict.RESCUE if is_kept else ColumnVerdict.CHANGE if may_change else ColumnVerdict.REFUSE
        if (t.is_null(known) and not self.is_input) or (may_change and wider_type(known, given) is not None):
            return ColumnVerdict.CHANGE
        if self.rescue is not None:
            return ColumnVerdict.RESCUE
        is_written = self.rows != "registered"  # a registered file keeps its type
        return ColumnVerdict.CAST if is_written and is_number(given) and is_number(known) else ColumnVerdict.REFUSE

    def verdicts(self, given: Iterable[pa.Field], known: Iterable[pa.Field]) -> Mapping[ColumnVerdict, list[Misfit]]:
        """Return what becomes of columns, given those of the table: each that is not there as it is."""
        result: dict[ColumnVerdict, list[Misfit]] = {verdict: [] for verdict in ColumnVerdict}
        for misfit in misfits(given, known):
            result[self.verdict(misfit)].append(misfit)
        return result

    def accepted(self, given: pa.Schema, known: pa.Schema, origin: str) -> Mapping[ColumnVerdict, list[Misfit]]:
        """Return the verdicts on columns of which the table takes each in some way; see `verdict`.

        `given` are the columns of an object or result, which `origin` names, and `known` those of the table, without
        partition columns. Columns, and parts, without a type yet are null. Raises SchemaDriftError if the table is to
        change before; if it cannot, that is refused then, before it has changed.
        """
        verdicts = self.verdicts(given, known)
        for misfit in (*verdicts[ColumnVerdict.FILL], *verdicts[ColumnVerdict.REFUSE]):
            is_missing = misfit.given is None and len(misfit.path) == 1 and self.default_of(misfit.name) is None
            if is_missing and (why := self.why_required(misfit.name)) is not None:
                raise SchemaError(
                    f"{origin} has no column {misfit.name!r}, and {why}:",
                    "land it again with the column"
                    + ("." if self.rows == "registered" else ", or declare a default in `columns`."),
                )
        if verdicts[ColumnVerdict.CHANGE] or (verdicts[ColumnVerdict.REFUSE] and self.grows):
            raise drift_error(origin, given)
        if verdicts[ColumnVerdict.REFUSE]:
            refuse_places(given, known.names, origin)
            raise self.refusal(verdicts[ColumnVerdict.REFUSE], origin)
        return verdicts

    def takes(self, given: pa.Field, known: pa.Field) -> bool:
        """Return whether a column of the table has a type for all values of a landed one, or gets it."""
        return all(self.verdict(misfit) is ColumnVerdict.CHANGE for misfit in misfits([given], [known]))

    def evolved(
        self, table: pa.Schema, landed: Sequence[tuple[str, pa.Schema]], partition_columns: Sequence[PartitionColumn]
    ) -> pa.Schema:
        """Return the columns with which a table can hold the rows of landed schemas; those of the table come first.

        The table's are without partition columns, which never change. A column, or a part of one, without a type yet
        gets the first type, by any rules; if the table does not grow, nothing else changes. Each landed schema has its
        origin. Raises SchemaError if a column cannot be widened to a type, or a new one has a name or type that the
        lake cannot hold.
        """
        from lake_assets.schema.ducklake_types import check_columns  # noqa: PLC0415 - a task needs no DuckDB

        by_path = {column.name.lower() for column in partition_columns}
        table = with_types_of(table, (schema for _, schema in landed))
        for origin, given in landed if self.grows else ():
            check_columns(given, origin)
            refuse_places(given, (*table.names, *by_path), origin)
            table = self._changed(table, without_columns(given, by_path), origin)
        return table

    def _changed(self, table: pa.Schema, given: pa.Schema, origin: str) -> pa.Schema:
        """Return the columns of the table with those changes that its rows of an object need; see `accepted`."""
        columns = {column.name.lower(): column for column in table}
        declared = self.types.keys() - columns.keys()
        columns |= {key: self.types[key] for key in map(str.lower, given.names) if key in declared}
        verdicts = self.verdicts(given, columns.values())
        if verdicts[ColumnVerdict.REFUSE]:
            raise self.refusal(verdicts[ColumnVerdict.REFUSE], origin)
        changing = {misfit.path[0].lower() for misfit in verdicts[ColumnVerdict.CHANGE]}
        for column in given:
            if (key := column.name.lower()) in changing:
                known = columns.setdefault(key, column.with_type(without_null_parts(column.type)))
                kind = wider_type(known.type, column.type, with_empty=False, keeps=True)
                columns[key] = known.with_type(kind or known.type)
        return pa.schema(columns.values())

    def created(self, columns: pa.Schema, others: Iterable[pa.Schema] = (), origin: str = "") -> pa.Schema:
        """Return the columns of a new table: those of its first objects, and the declared ones that they lack.

        A column without a value gets a type of other objects. If the table grows, it gets other columns only when they
        have a value. Columns that their object, the origin, names by their places are refused.
        """
        if self.is_landed:
            refuse_places(columns, (), origin)
        columns = self.read_as(with_types_of(columns, others))
        leaves_out = self.rescue is not None or self.unknown is ColumnVerdict.LEAVE_OUT
        kept = pa.schema([column for column in columns if not (leaves_out and is_foreign(column.type))])
        return self._with_declared(columns_with_values(kept) if self.grows else kept)

    def known(self, columns: pa.Schema) -> pa.Schema:
        """Return the columns whose types are known, by their landed names, given those of the table.

        A table that grows gets the declared ones that it lacks.
        """
        known = self._with_declared(columns) if self.is_landed and self.grows else columns
        texts = [f.with_type(pa.string()) if f.name.lower() in self.formats else f for f in known]
        return pa.schema([f.with_name(self.landed(f.name)) for f in texts])

    def _with_declared(self, schema: pa.Schema) -> pa.Schema:
        own = {name.lower() for name in schema.names}
        return pa.schema([*schema, *(field for name, field in self.types.items() if name not in own)])

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
        columns: dict[str, pa.Field] = {}
        for landed in self.kept(schema):
            name = names.get(landed.name.lower(), landed.name)
            if (other := columns.setdefault(name.lower(), landed)) is not landed:
                # `columns` knows no two names that differ in the case of their letters.
                same = other.name.lower() == landed.name.lower()
                raise SchemaError(
                    f"{origin} has the columns {other.name!r} and {landed.name!r}, and each is {name!r} in the table:",
                    "rename one where it is written, or leave one out: omit: true in `columns`."
                    if same
                    else "omit one of them in `columns`, or give it another name there.",
                )
        return pa.schema([f.with_name(names.get(f.name.lower(), f.name)) for f in columns.values()])

    def columns_of(self, schema: pa.Schema, origin: str) -> pa.Schema:
        """Return the columns that the rows of a landed object have, as `renamed`, with the types of its texts."""
        return self._as_declared(self.renamed(schema, origin), lambda field, _: self.form_of(field) is not None)

    def with_wider_types(self, schema: pa.Schema) -> pa.Schema:
        """Return the columns of a landed object with the declared types that hold theirs."""
        return self._as_declared(schema, lambda field, kind: widens(field.type, kind))

    def read_as(self, schema: pa.Schema) -> pa.Schema:
        """Return the inferred columns of a text with the declared types, as which it is read."""
        return self._as_declared(schema, lambda *_: True)

    def _as_declared(self, schema: pa.Schema, holds: Callable[[pa.Field, pa.DataType], bool]) -> pa.Schema:
        kinds = [(field, self.types.get(field.name.lower(), field).type) for field in schema]
        return pa.schema([field.with_type(kind) if holds(field, kind) else field for field, kind in kinds])

    def refusal(self, refused: Sequence[Misfit], origin: str) -> SchemaError:
        """Return the error for columns of an object or a result that do not fit the table."""
        missing = [repr(misfit.name) for misfit in refused if misfit.given is None]
        unknown = [repr(misfit.name) for misfit in refused if misfit.known is None]
        if missing or unknown:
            parts = [
                f"{verb} {', '.join(names)}" for verb, names in (("it lacks", missing), ("it has", unknown)) if names
            ]
            return SchemaError(f"{origin} does not fit the table: {' and '.join(parts)}:", _COLUMNS[self.rows])
        misfit, is_declared = refused[0], self._is_declared(refused[0])
        whose = "the declared type" if is_declared else OF_ANOTHER if self.rows == "first" else "the table's"
        fix = _DECLARED[self.rows] if is_declared else self.widening(misfit) or _TYPES[self.rows]
        is_held = misfit.given is None or not is_foreign(misfit.given)
        return SchemaError(misfit.differing(origin, whose), fix if is_held else LAND_AS_ANOTHER)

    def widening(self, misfit: Misfit) -> str | None:
        """Return how the table gets a type for all values; None if it does not."""
        if self.grows or self._is_declared(misfit) or misfit.is_conflict:
            return None
        return _WIDER[self.rows]

    def _is_declared(self, misfit: Misfit) -> bool:
        return misfit.path[0].lower() in self.types

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


STRICT, GROWING, SOME_COLUMNS = Rules(), Rules("evolve"), Rules("ignore_extra")
REGISTERED = Rules(rows="registered")
"""The rules of files that become files of the table as they are."""


def drift_error(origin: str, schema: pa.Schema) -> SchemaDriftError:
    """Return the error for columns of an object or a result that change the table first."""
    return SchemaDriftError(
        f"the columns of {origin} are not yet those of the table:", "run it again.", [(origin, schema)]
    )

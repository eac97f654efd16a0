"""The one decision what becomes of a landed column that is not as the table has it; all who need it ask `Rules`."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Literal, TypeAlias

import pyarrow as pa
from pyarrow import types as t

from lake_assets.base.errors import SchemaDriftError, SchemaError
from lake_assets.config.modes import SchemaPolicy
from lake_assets.schema.annotations import is_foreign
from lake_assets.schema.casts import is_number
from lake_assets.schema.leaves import columns_with_values, is_text, without_null_parts
from lake_assets.schema.row_order import SortKey
from lake_assets.schema.type_fit import LAND_AS_ANOTHER, OF_ANOTHER, Misfit, misfits, refuse_places, wider_type

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


class Verdict(Enum):
    """What becomes of a column, or of a part of one, that a landed object has otherwise than the table."""

    FILL = "its rows have NULL or a default in the table's column"
    LEAVE_OUT = "it is not read"
    CHANGE = "the table gets it, its wider type, or the type of its first value"
    CAST = "its values decide: each that is the same in the table's type fits"
    RESCUE = "what does not fit is kept in the column of rescue"
    REFUSE = "it is an error"


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of a stream; names of columns are in lower case."""

    policy: SchemaPolicy = "strict"  # nobody else asks for it; `verdict` says what it means
    required: frozenset[str] = frozenset()  # the columns that have a value in each row
    defaults: Mapping[str, pa.Scalar] = field(default_factory=dict)  # the values of rows that have none
    formats: Mapping[str, str] = field(default_factory=dict)  # how texts are read as the types of their columns
    rescue: str | None = None  # the column with what does not fit, as it is written
    # The landed names of columns that have another one in the table
    sources: Mapping[str, str] = field(default_factory=dict)
    # Landed columns that decide the partition of a row; they are never kept beside it
    reserved: frozenset[str] = frozenset()
    not_null: frozenset[str] = frozenset()  # the columns that are NOT NULL in the table
    absent: Mapping[str, pa.Scalar] = field(default_factory=dict)  # the table's defaults, for rows that lack a column
    order: tuple[SortKey, ...] = ()  # of the rows in each of the table's files
    # The columns with a declared type, which never changes, by their names in lower case
    types: Mapping[str, pa.Field] = field(default_factory=dict)
    rows: AnyRows = "landed"  # which rows have the columns, for the advice of errors
    is_input: bool = False  # they are those that a transform reads, whose columns are settled before

    @property
    def columns(self) -> frozenset[str]:
        """The columns that have one of their own."""
        return self.required.union(self.defaults, self.formats, self.not_null)

    def form_of(self, column: pa.Field) -> str | None:
        """Return the format of a landed column of texts."""
        return self.formats.get(column.name.lower()) if is_text(column.type) else None

    def landed(self, name: str) -> str:
        """Return the landed name of a column."""
        return self.sources.get(name.lower(), name)

    @property
    def unknown(self) -> Verdict:
        """What becomes of a column that the table lacks, and whose type lakes have."""
        return self.verdict(Misfit(("",), pa.string(), None))

    @property
    def grows(self) -> bool:
        """Whether the table gets the columns and the wider types of landed objects."""
        return self.unknown is Verdict.CHANGE

    def verdict(self, misfit: Misfit, *, by_value: bool = False) -> Verdict:
        """Return what becomes of a column, or a part of one; `by_value` numbers of another type may fit."""
        given, known, evolves = misfit.given, misfit.known, self.policy == "evolve"
        if given is None:
            has_default = len(misfit.path) == 1 and self.default_of(misfit.name) is not None
            return Verdict.FILL if evolves or has_default else Verdict.REFUSE
        if known is None and not misfit.is_second and (self.policy == "ignore_extra" or (evolves and t.is_null(given))):
            return Verdict.LEAVE_OUT  # a new column without a value has no type yet
        is_new = known is None and len(misfit.path) == 1
        may_change = evolves and not self.is_input and (is_new or not self._is_declared(misfit))
        if known is None:
            is_kept = self.rescue is not None and (not may_change or is_foreign(given))
            return Verdict.RESCUE if is_kept else Verdict.CHANGE if may_change else Verdict.REFUSE
        if (t.is_null(known) and not self.is_input) or (may_change and wider_type(known, given) is not None):
            return Verdict.CHANGE
        if self.rescue is not None:
            return Verdict.RESCUE
        return Verdict.CAST if by_value and is_number(given) and is_number(known) else Verdict.REFUSE

    def verdicts(
        self, given: Iterable[pa.Field], known: Iterable[pa.Field], *, by_value: bool = False
    ) -> Mapping[Verdict, list[Misfit]]:
        """Return what becomes of columns, given those of the table: each that is not there as it is."""
        result: dict[Verdict, list[Misfit]] = {verdict: [] for verdict in Verdict}
        for misfit in misfits(given, known):
            result[self.verdict(misfit, by_value=by_value)].append(misfit)
        return result

    def accepted(
        self, given: pa.Schema, known: pa.Schema, origin: str, *, by_value: bool
    ) -> Mapping[Verdict, list[Misfit]]:
        """Return the verdicts on columns of which the table takes each in some way; see `verdict`.

        `given` are the columns of an object or result, which `origin` names, and `known` those of the table, without
        partition columns. Columns, and parts, without a type yet are null. Raises SchemaDriftError if the table is to
        change before; if it cannot, that is refused then, before it has changed.
        """
        verdicts = self.verdicts(given, known, by_value=by_value)
        for misfit in (*verdicts[Verdict.FILL], *verdicts[Verdict.REFUSE]):
            is_missing = misfit.given is None and len(misfit.path) == 1 and self.default_of(misfit.name) is None
            if is_missing and (why := self.why_required(misfit.name)) is not None:
                raise SchemaError(
                    f"{origin} has no column {misfit.name!r}, and {why}:",
                    "land it again with the column"
                    + ("." if self.rows == "registered" else ", or declare a default in `columns`."),
                )
        if verdicts[Verdict.CHANGE] or (verdicts[Verdict.REFUSE] and self.grows):
            raise not_yet(origin, given)
        if verdicts[Verdict.REFUSE]:
            refuse_places(given, known.names, origin)
            raise self.refusal(verdicts[Verdict.REFUSE], origin)
        return verdicts

    def takes(self, given: pa.Field, known: pa.Field) -> bool:
        """Return whether a column of the table has a type for all values of a landed one, or gets it."""
        return all(self.verdict(misfit) is Verdict.CHANGE for misfit in misfits([given], [known]))

    def changed(self, table: pa.Schema, given: pa.Schema, origin: str) -> pa.Schema:
        """Return the columns of the table with those changes that its rows of an object need; see `accepted`."""
        columns = {column.name.lower(): column for column in table}
        declared = self.types.keys() - columns.keys()
        columns |= {key: self.types[key] for key in map(str.lower, given.names) if key in declared}
        verdicts = self.verdicts(given, columns.values(), by_value=True)
        if verdicts[Verdict.REFUSE]:
            raise self.refusal(verdicts[Verdict.REFUSE], origin)
        changing = {misfit.path[0].lower() for misfit in verdicts[Verdict.CHANGE]}
        for column in given:
            if (key := column.name.lower()) in changing:
                known = columns.setdefault(key, column.with_type(without_null_parts(column.type)))
                kind = wider_type(known.type, column.type, with_empty=False, keeps=True)
                columns[key] = known.with_type(kind or known.type)
        return pa.schema(columns.values())

    def created(self, columns: pa.Schema) -> pa.Schema:
        """Return those columns of an object that a new table gets; if it grows, others when they have a value."""
        leaves_out = self.rescue is not None or self.unknown is Verdict.LEAVE_OUT
        kept = pa.schema([column for column in columns if not (leaves_out and is_foreign(column.type))])
        return columns_with_values(kept) if self.grows else kept

    def refusal(self, refused: Sequence[Misfit], origin: str) -> SchemaError:
        """Return the error for columns of an object or a result that do not fit the table."""
        missing = [repr(misfit.name) for misfit in refused if misfit.given is None]
        unknown = [repr(misfit.name) for misfit in refused if misfit.known is None]
        if missing or unknown:
            found = (("it lacks", missing), ("it has", unknown))
            parts = [f"{verb} {', '.join(names)}" for verb, names in found if names]
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

    @property
    def of_first(self) -> "Rules":
        """Those of the rows that fill a new table, whose columns are those of the first objects."""
        return replace(self, rows="first")

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


def not_yet(origin: str, schema: pa.Schema) -> SchemaDriftError:
    """Return the error for columns of an object or a result that change the table first."""
    return SchemaDriftError(
        f"the columns of {origin} are not yet those of the table:", "run it again.", [(origin, schema)]
    )

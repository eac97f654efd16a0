"""Conversion of the columns of a file or a transform's result to the columns of the table, without loss.

Columns are matched by name. A type may be widened; every other difference is refused with the column's name, before a
row is read. (Parquet readers that match by position, or cast where they can, write wrong rows into lakes.)
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as t

from lake_assets.base.errors import SchemaError
from lake_assets.config.layout.partition import Partition
from lake_assets.config.sections import LETTER_COLUMNS
from lake_assets.schema.arrow_types import (
    data_file_schema,
    dictionary_decoded,
    exceeded,
    has_limits,
    has_nanoseconds,
    without_columns,
    without_views,
)
from lake_assets.schema.bad_rows import (
    NOTHING,
    ROW_NUMBER,
    BadRows,
    bad_positions,
    is_alike,
    is_changed,
    lines_of_values,
    positions,
    python_values,
    split_by_type,
    with_kept,
)
from lake_assets.schema.casts import cast
from lake_assets.schema.column_rules import STRICT, ColumnVerdict, Rules
from lake_assets.schema.dialects import read_texts
from lake_assets.schema.partition_values import cast_whole, derived_values, is_other, other_value, selecting_values


@dataclass(frozen=True, slots=True)
class Target:
    """The columns of a table's data files, without partition columns, and the rules by which others fit them."""

    columns: pa.Schema  # those, and parts of those, without a type yet are null
    rules: Rules = STRICT


class Fitter:
    """Fits batches of one schema to a target schema, and checks partition columns that the rows have.

    With the policy `evolve`, a SchemaDriftError says that the table lacks a column or a field, or has a narrower one.
    """

    def __init__(self, source: pa.Schema, target: Target, partition: Partition, origin: str) -> None:
        rules = target.rules
        if rules.splits:
            _refuse_letter_columns(source, origin)
        if rules.rescue is not None:
            own = (name for name in target.columns.names if name.lower() == rules.rescue.lower())
            rules = replace(rules, rescue=next(own, None))
        self._rules, self._partition, self._origin = rules, partition, origin
        self._target = data_file_schema(target.columns)
        by_name = _by_name(source, origin)
        self._read_partition(source, by_name)
        types = {field.name.lower(): field.type for field in self._target}
        self._forms = {f.name: form for f in source if f.name.lower() in types and (form := rules.form_of(f))}
        """The formats of texts, by the columns to read."""
        given = [f.with_type(types[f.name.lower()]) if f.name in self._forms else f for f in source]
        of_rows = without_columns(given, (column.name for column in partition.columns))
        verdicts = rules.accepted(of_rows, target.columns, origin)
        rescued = verdicts[ColumnVerdict.RESCUE]
        self._extras = [misfit.name for misfit in rescued if misfit.known is None and len(misfit.path) == 1]
        """The columns of the source that only the column of what does not fit takes."""
        self._rescuable = {by_name[misfit.path[0].lower()] for misfit in rescued}
        self._hints = {
            by_name[m.path[0].lower()]: hint for m in verdicts[ColumnVerdict.CAST] if (hint := rules.widening(m))
        }
        self._set_columns(source, by_name)

    def _read_partition(self, source: pa.Schema, by_name: Mapping[str, str]) -> None:
        """Find the columns that tell the partition of a row."""
        partition, origin, rules = self._partition, self._origin, self._rules
        self._partition_names = {
            column.name: by_name[column.name.lower()] for column in partition.columns if column.name.lower() in by_name
        }
        self.selecting_values = (
            selecting_values(source, by_name, partition, origin, rules.derived) if rules.selects else {}
        )
        """The partition's value in each source column that selects rows, by the column's name."""
        made = [
            value
            for value in derived_values(rules.derived, partition, by_name, origin)
            if value.name not in self.selecting_values
        ]
        self.selecting_derived = [value for value in made if value.column.in_rows and rules.selects]
        """The derived values that select rows."""
        self._checked_derived = [value for value in made if value not in self.selecting_derived]

    def _set_columns(self, source: pa.Schema, by_name: Mapping[str, str]) -> None:
        """Set which columns are to be read, and how."""
        rules, target = self._rules, self._target
        self._same = rules.rescue is None and not rules.columns and source.remove_metadata().equals(target)
        self._names = [by_name.get(name.lower()) for name in target.names]
        pairs = [(name, field) for name, field in zip(self._names, target, strict=True) if name]
        self.columns = [name for name, _ in pairs]
        """The columns to read, in the target's order, without partition columns."""
        self.nanos = {name for name, field in pairs if has_nanoseconds(field.type)}
        """The columns to read that the target has in nanoseconds."""
        self._bounded = {name for name, field in pairs if has_limits(field.type)}
        made = (value.name for value in (*self.selecting_derived, *self._checked_derived))
        others = dict.fromkeys([*self._partition_names.values(), *made, *self.selecting_values, *self._extras])
        self.partition_columns = [name for name in others if name not in self.columns]
        """The further columns to read: of partitions, those that one is derived from, and unknown ones."""
        self.unchanged = {
            name
            for name, f in pairs
            if name not in others and name.lower() not in rules.columns and source.field(name).type.equals(f.type)
        }
        """The columns to read whose values are neither converted nor checked against the partition."""

    @property
    def splits(self) -> bool:
        """Whether a row that does not fit is left out by itself."""
        return self._rules.splits

    def fits(self, partition: Partition) -> bool:
        """Return whether this is the fitter of another partition too: of any if no column tells the partition."""
        tells = self._partition_names or self.selecting_values or self.selecting_derived or self._checked_derived
        return self._partition is partition or (not tells and self._partition.columns == partition.columns)

    def of(self, origin: str, partition: Partition) -> Self:
        """Return the fitter of another object or result with the same schema, of a partition that it `fits`."""
        fitter = copy(self)
        fitter._origin, fitter._partition = origin, partition  # noqa: SLF001 - of the same class
        fitter.selecting_derived = [replace(made, origin=origin) for made in self.selecting_derived]
        fitter._checked_derived = [replace(made, origin=origin) for made in self._checked_derived]  # noqa: SLF001
        return fitter

    def reading(self, landed: Mapping[str, str]) -> Self:
        """Return the fitter for a reader of the columns by their landed names, given these by the names here."""
        fitter = copy(self)
        fitter.nanos = {landed[name] for name in self.nanos if name in landed}
        fitter.unchanged = {landed[name] for name in self.unchanged if name in landed}
        return fitter

    def fit(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Convert a batch to the target's schema. A column in `unchanged` may be a dictionary, and stays one."""
        batch = self._select(batch)
        self._check_partition(batch)
        if self._same:
            return self._readable(batch)
        arrays, rules = [], self._rules
        kept: defaultdict[int, dict[str, object]] = defaultdict(dict)
        for name, field in zip(self._names, self._target, strict=True):
            if name is None:
                count, default = batch.num_rows, rules.default_of(field.name)
                arrays.append(pa.nulls(count, field.type) if default is None else pa.repeat(default, count))
                continue
            default = rules.defaults.get(field.name.lower())
            values = batch.column(name)
            if name in self.unchanged and t.is_dictionary(values.type):
                arrays.append(values)
                continue
            try:
                if rules.rescue is None:
                    array = self._converted(name, values, field.type)
                else:
                    array = self._rescued(name, values, field.type, kept)
            except pa.ArrowInvalid as error:
                raise SchemaError(
                    f"column {name!r} of {self._origin} has a value that {field.type} cannot hold: {error}:",
                    self._hints.get(name, "correct the value, or round it in a transform."),
                ) from error
            if array.null_count and (why := rules.why_required(field.name)) is not None:
                raise SchemaError(
                    f"column {name!r} of {self._origin} has a row without a value, and {why}:",
                    "correct the row, or declare a default in `columns`.",
                )
            arrays.append(array if default is None else array.fill_null(default))
        if rules.rescue is not None:
            for name in self._extras:
                for row, value in enumerate(python_values(batch.column(name))):
                    if value is not None:
                        kept[row][rules.landed(name)] = value
            place = self._target.names.index(rules.rescue)
            arrays[place] = with_kept(arrays[place], kept)
        fields = [field.with_type(array.type) for field, array in zip(self._target, arrays, strict=True)]
        return self._readable(pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields)))

    def _converted(self, name: str, values: pa.Array, kind: pa.DataType) -> pa.Array:
        form = self._forms.get(name)
        if form is not None:
            return read_texts(dictionary_decoded(values).cast(pa.string()), form, kind)
        return cast(values, kind)

    def _rescued(
        self, name: str, values: pa.Array, kind: pa.DataType, kept: defaultdict[int, dict[str, object]]
    ) -> pa.Array:
        """Convert the values that the type holds; the others are kept, and NULL in the column."""
        if name in self.unchanged and name not in self._bounded:
            return cast(values, kind)
        is_rescuable = name in self._rescuable and name not in self._forms
        convert = partial(self._unchanged if is_rescuable else self._converted, name)
        is_other = is_rescuable and not is_alike(values.type, kind)
        unfit = positions(values.is_valid()) if is_other else bad_positions(values, kind, convert)
        landed = self._rules.landed(name)
        for row, value in zip(unfit, python_values(values.take(pa.array(unfit, pa.int64()))), strict=True):
            kept[row][landed] = value
        if is_rescuable and t.is_nested(kind):
            for row, value in enumerate(python_values(values)):
                if landed not in kept.get(row, ()) and (rest := split_by_type(value, kind)[1]) is not NOTHING:
                    kept[row][landed] = rest
        if is_other:
            return pa.nulls(len(values), kind)
        refused = set(unfit)
        fitting = pa.array([None if row in refused else row for row in range(len(values))], pa.int64())
        return convert(values.take(fitting) if unfit else values, kind)

    def _unchanged(self, name: str, values: pa.Array, kind: pa.DataType) -> pa.Array:
        array = self._converted(name, values, kind)
        if is_changed(values, array):
            raise pa.ArrowInvalid("it would be another value")
        return array

    def split(self, batch: pa.RecordBatch, first: int) -> tuple[pa.RecordBatch, BadRows | None]:
        """Convert the rows of a batch that fit, as `fit` does, and give the others with their reasons.

        `first` is the number of its first row in the object. If the rules split no rows, or it cannot be told whether a
        row belongs to the partition, that is a SchemaError.
        """
        try:
            return self.fit(batch), None
        except SchemaError:
            if not self._rules.splits:
                raise
            numbers = pa.array(range(first, first + batch.num_rows), pa.int64())
            selected = self._select(batch.append_column(ROW_NUMBER, numbers))
            reasons: dict[int, list[str]] = {}
            for row, reason in self._reasons(selected):
                reasons.setdefault(row, []).append(reason)
            if not reasons:
                raise
        is_good = pa.array([row not in reasons for row in range(selected.num_rows)], pa.bool_())
        bad = sorted(reasons)
        selected = without_views(selected)
        rows = BadRows(selected.take(pa.array(bad, pa.int64())), ["; ".join(reasons[row]) for row in bad])
        return self.fit(selected.filter(is_good).select(batch.schema.names)), rows

    def _reasons(self, batch: pa.RecordBatch) -> Iterator[tuple[int, str]]:
        """Yield the rows of a batch that do not fit, by their position, each with a reason; some have several."""
        own = str(self._partition)  # once: a batch may have many such rows
        for name, rows in self._others(batch):
            for row, text in zip(rows, lines_of_values(batch.column(name), rows), strict=True):
                yield row, f"{name} is {text}, so the row belongs to another partition than {own}"
        for column, field in zip(self._names, self._target, strict=True):
            if (
                self._rules.rescue is None
                and column is not None
                and (column not in self.unchanged or column in self._bounded)
            ):
                values = batch.column(column)
                convert = partial(self._converted, column) if column in self._forms else cast
                rows = bad_positions(values, field.type, convert)
                for row, text in zip(rows, lines_of_values(values, rows), strict=True):
                    yield row, f"column {column!r} has the value {text}, which {field.type} cannot hold"
            if column is not None and (why := self._rules.why_required(field.name)) is not None:
                values = batch.column(column)
                if self._rules.rescue is not None:
                    values = self._rescued(column, values, field.type, defaultdict(dict))
                reason = f"column {column!r} has no value, and {why}"
                yield from ((row, reason) for row in positions(pc.is_null(values)))

    def _others(self, batch: pa.RecordBatch) -> Iterator[tuple[str, list[int]]]:
        """Yield the positions of rows of other partitions, by each column of the rows that tells it."""
        for column, value in zip(self._partition.columns, self._partition.values, strict=True):
            name = self._partition_names.get(column.name)
            if name is not None and name not in self.selecting_values:
                yield name, positions(is_other(batch.column(name), column, value))
        for made in self._checked_derived:
            yield made.name, made.others(batch)

    def _readable(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the batch of the target's schema; refuses times that DuckDB cannot read."""
        for name, field in zip(self._names, self._target, strict=True):
            if name not in self._bounded:
                continue
            if (held := exceeded(batch.column(field.name))) is not None:
                raise SchemaError(
                    f"column {name!r} of {self._origin} has {held.misfit}:", f"correct the value{held.hint}."
                )
        return batch

    def _select(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if self.selecting_values or self.selecting_derived:
            batch = without_views(batch)
        for made in self.selecting_derived:
            batch = batch.filter(made.has(batch))
        for name, value in self.selecting_values.items():
            try:
                values = cast_whole(batch.column(name), value.type)
            except pa.ArrowInvalid as error:
                raise SchemaError(
                    f"column {name!r} of {self._origin} selects the rows of a partition, and has a value that is not a "
                    f"{value.type}: {error}:",
                    "correct the value, or the type of this partition column in the config.",
                ) from error
            batch = batch.filter(pc.equal(values, value) if value.is_valid else pc.is_null(values))
        return batch

    def _check_partition(self, batch: pa.RecordBatch) -> None:
        for column, value in zip(self._partition.columns, self._partition.values, strict=True):
            name = self._partition_names.get(column.name)
            if name is None or name in self.selecting_values:
                continue
            if (hint := other_value(batch.column(name), name, column, value)) is not None:
                row, fix = hint
                fix = fix if self._origin.startswith("the object") else "correct the transform."
                raise SchemaError(f"{self._origin} has a row with {row}, and belongs to {self._partition}:", fix)
        for made in self._checked_derived:
            made.check(batch)


def _refuse_letter_columns(source: pa.Schema, origin: str) -> None:
    """Refuse an object with a column that dead letters have too."""
    own = min({name.lower() for name in source.names}.intersection(LETTER_COLUMNS), default=None)
    if own is not None:
        raise SchemaError(
            f"{origin} has a column {own!r}, which is a name of the dead letters' own columns:",
            "rename it, or remove on_bad_row from the stream.",
        )


def _by_name(source: pa.Schema, origin: str) -> dict[str, str]:
    """Return the columns' names by their lower case, as SQL compares them."""
    by_name: dict[str, str] = {}
    for name in source.names:
        if (other := by_name.setdefault(name.lower(), name)) != name:
            raise SchemaError(
                f"{origin} has the columns {other!r} and {name!r}, which SQL cannot tell apart:",
                "rename one where it is written, or leave one out: omit: true in `columns`.",
            )
    return by_name

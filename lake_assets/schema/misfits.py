"""Which types hold the values of which others, column by column and at any depth of nested types.

Columns and fields of structs are matched by name; upper and lower case are the same, as in SQL.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyarrow import types as t

from lake_assets.base.errors import SchemaError
from lake_assets.schema.arrow_types import is_list, is_text, joined_columns, joined_types, shown_type

_PLACE = re.compile(r"_col\d+", re.IGNORECASE)

OF_ANOTHER = "that of another object"
LAND_AS_ANOTHER = "let its writer cast it to another type, such as a text, or leave it out by omit: true in `columns`."


@dataclass(frozen=True, slots=True)
class Misfit:
    """A column, or a part of a nested one, whose values the known columns do not hold."""

    path: tuple[str, ...]  # its name, with the names of the columns around it; `element`, `key` and `value` are parts
    given: pa.DataType | None  # None: it is missing
    known: pa.DataType | None  # None: it is unknown
    is_second: bool = False  # another field of its struct has the same name

    @property
    def name(self) -> str:
        """Its name with those around it: `shape.corner.x`, `tags.element`, `counts.value.n`."""
        return ".".join(self.path)

    @property
    def is_conflict(self) -> bool:
        """Whether both have types, and no type holds the values of both."""
        return self.given is not None and self.known is not None and wider_type(self.known, self.given) is None

    def differing(self, origin: str, whose: str) -> str:
        """Return what is wrong with a column or a field of which both have a type."""
        assert self.given is not None  # noqa: S101 - the caller checks
        assert self.known is not None  # noqa: S101 - the caller checks
        kind = "column" if len(self.path) == 1 else "field"
        types = f"{shown_type(self.given)}, and {whose} is {shown_type(self.known)}"
        return f"{kind} {self.name!r} of {origin} is {types}, which cannot hold all of it:"


def refuse_places(schema: pa.Schema, known: Collection[str], origin: str) -> None:
    """Refuse columns that are named by their places, as Hive names those of ORC: others may be at these in each file.

    Columns in `known` may be called so.
    """
    lower = {name.lower() for name in known}
    names = [name for name in schema.names if name.lower() not in lower]
    if names and all(map(_PLACE.fullmatch, names)):
        raise SchemaError(
            f"{origin} has the columns {', '.join(names)}, which its writer has named by their places:",
            f"give each its name in the stream's `columns`, such as `columns: {{id: {{from: {names[0]}}}}}`.",
        )


def misfits(given: Iterable[pa.Field], known: Iterable[pa.Field], path: tuple[str, ...] = ()) -> Iterator[Misfit]:
    """Yield the columns, or fields of a struct, that do not fit the known ones, in the order of these.

    `path` has the names of the columns around them.
    """
    by_name: dict[str, pa.Field] = {}
    for field in given:
        if by_name.setdefault(field.name.lower(), field) is not field:  # one of both would be lost
            yield Misfit((*path, field.name), field.type, None, is_second=True)
    for field in known:
        landed = by_name.pop(field.name.lower(), None)
        if landed is not None:
            yield from _parts(landed.type, field.type, (*path, field.name))
        else:
            yield Misfit((*path, field.name), None, field.type)
    for field in by_name.values():
        yield Misfit((*path, field.name), field.type, None)


def _parts(given: pa.DataType, known: pa.DataType, path: tuple[str, ...]) -> Iterator[Misfit]:
    """Yield the misfits of one column and of its parts."""
    given = _plain(given, known)
    # DuckLake has a column without a type yet as INTEGER.
    if given.equals(known) or t.is_null(given) or (t.is_null(known) and given.equals(pa.int32())):
        return
    if t.is_struct(given) and t.is_struct(known):
        yield from misfits(given, known, path)
    elif t.is_map(given) and t.is_map(known):
        yield from _parts(given.key_type, known.key_type, (*path, "key"))
        yield from _parts(given.item_type, known.item_type, (*path, "value"))
    elif is_list(given) and is_list(known):
        yield from _parts(given.value_type, known.value_type, (*path, "element"))
    elif not _holds(known, given):
        yield Misfit(path, given, known)


def widens(source: pa.DataType, target: pa.DataType) -> bool:
    """Return whether the target type can hold all values of the source type (of timestamps, those in its unit)."""
    return not any(_parts(source, target, ()))


def wider_type(
    known: pa.DataType, other: pa.DataType, *, with_empty: bool = True, keeps: bool = False
) -> pa.DataType | None:
    """Return the type that holds the values of both, if DuckLake can widen a column of the known one to it.

    DuckLake widens integers, floats, and decimals of the same scale, adds fields to structs, and does both at any depth
    of lists, maps and structs. The known fields keep their names and their order.

    `with_empty` adds fields that are NULL in all rows of a file, so that their type is unknown. With `keeps`, a type,
    or a part of it, that cannot be widened stays as it is.
    """
    conflicts = []

    def of_leaf(known: pa.DataType, other: pa.DataType) -> pa.DataType:
        other = _plain(other, known)
        if t.is_null(known):
            return other
        numbers = any(is_kind(known) and is_kind(other) for is_kind in (t.is_integer, t.is_floating)) or (
            t.is_decimal(known) and t.is_decimal(other) and known.scale == other.scale
        )
        if numbers and not widens(other, known) and widens(known, other):
            return other
        conflicts.extend([] if widens(other, known) else [other])
        return known

    def is_kept(own: pa.Field | None, given: pa.Field | None) -> bool:
        return own is not None or with_empty or (given is not None and not t.is_null(given.type))

    result = joined_types(known, other, of_leaf, is_kept)
    return result if keeps or not conflicts else None


def united_columns(schemas: Sequence[tuple[str, pa.Schema]]) -> pa.Schema:
    """Return one schema with the columns of all, in the order in which they first occur; each schema has its origin."""
    columns: dict[str, pa.Field] = {}
    for origin, schema in schemas:
        for field in schema:
            known = columns.setdefault(field.name.lower(), field)
            if (data_type := wider_type(known.type, field.type)) is None:
                misfit = next(m for m in _parts(field.type, known.type, (known.name,)) if m.is_conflict)
                raise SchemaError(misfit.differing(origin, OF_ANOTHER), LAND_AS_ANOTHER)
            columns[field.name.lower()] = known.with_type(data_type)
    return pa.schema(list(columns.values()))


def shared_columns(schemas: Sequence[tuple[str, pa.Schema]]) -> pa.Schema:
    """Return the columns, and fields of structs, that all schemas have, in the types of `united_columns`."""
    columns = united_columns(schemas)
    for _, schema in schemas:
        columns = joined_columns(columns, schema, lambda own, _: own, lambda own, given: bool(own and given))
    return columns


def _plain(given: pa.DataType, known: pa.DataType) -> pa.DataType:
    """Return the type of the values of a dictionary, or of an extension type that the known type is not."""
    if isinstance(given, pa.OpaqueType):
        return given  # no column holds it
    if isinstance(given, pa.BaseExtensionType) and not isinstance(known, pa.BaseExtensionType):
        return _plain(given.storage_type, known)
    return _plain(given.value_type, known) if t.is_dictionary(given) and not given.equals(known) else given


def _holds(target: pa.DataType, source: pa.DataType) -> bool:
    """Return whether a type that is not nested holds all values of another one."""
    if t.is_integer(source) and t.is_integer(target):
        return _holds_integers(target, source)
    if t.is_floating(source) and t.is_floating(target):
        return bool(source.bit_width <= target.bit_width)
    if t.is_decimal(source) and t.is_decimal(target):
        digits = target.precision - target.scale >= source.precision - source.scale
        return bool(digits and target.scale >= source.scale)
    if t.is_timestamp(source) and t.is_timestamp(target):
        return (source.tz is None) == (target.tz is None)
    return (
        (is_text(source) and is_text(target))
        or (_is_binary(source) and _is_binary(target))
        or (t.is_date(source) and t.is_date(target))
        or (t.is_time(source) and t.is_time(target))
    )


def _holds_integers(target: pa.DataType, source: pa.DataType) -> bool:
    signed = t.is_signed_integer(source)
    if signed == t.is_signed_integer(target):
        return bool(source.bit_width <= target.bit_width)
    return bool(not signed and source.bit_width < target.bit_width)


def _is_binary(data_type: pa.DataType) -> bool:
    kinds = (t.is_binary, t.is_large_binary, t.is_binary_view, t.is_fixed_size_binary)
    return any(is_kind(data_type) for is_kind in kinds)

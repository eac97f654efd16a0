"""A partition: one value for each partition column. It has three texts.

In a path (Hive's form, as Spark writes it): `region=NW/date=2026-02-11`, values percent-encoded, NULL as
`__HIVE_DEFAULT_PARTITION__`. On the command line: `region=NW,date=2026-02-11`. In Dagster: each value is the key of one
dimension, in the path's encoding. The one partition of a stream without partition columns is `all` in each of them.
"""

import datetime as dt
import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, reduce
from itertools import product
from numbers import Integral
from operator import or_
from typing import Any, Literal

from lake_assets.base.errors import PartitionError
from lake_assets.base.texts import is_unicode, shown, storable
from lake_assets.config.layout.hive import HIVE_NULL, escape, percent, unescape
from lake_assets.config.layout.times import TIME_TYPES

PartitionType = Literal["string", "integer", "year", "month", "week", "date", "hour"]
PartitionValue = str | int | dt.date | None
Empty = Literal["null", "value", "refuse"]
"""The meaning of an empty text in a path: NULL, the empty text, or an error."""

WHOLE = "all"  # of a table without partition columns

_INTEGER = re.compile(r"-?[0-9]{1,1024}")  # `\d` would accept digits of other scripts
_ENCODED_IN_SHELL = re.compile(r"[,%\x00-\x1f\x7f]")  # separators and control characters
_OF_SELECTIONS = re.compile(r"[,|]|\.(?=\.)|(?<=\.)\.")  # separators, alternatives and ranges
_INT64 = range(-(2**63), 2**63)
_REMEMBERED = 65_536  # values of all columns


@dataclass(frozen=True, slots=True)
class PartitionColumn:
    """A partition column: its name (an SQL identifier) and the type of its values."""

    name: str
    type: PartitionType
    in_rows: bool = False  # the landing zone's files have the column, and its paths do not
    empty: Empty = "refuse"  # the meaning of an empty text
    # A letter as `é` and its decomposed form are two texts; by default the composed one is read for both
    exact: bool = False

    def __hash__(self) -> int:
        """Return the hash of the name, as the columns of a stream have different names."""
        return hash(self.name)

    @lru_cache(_REMEMBERED)  # noqa: B019 - columns are few, and each value is one of many partitions
    def parse(self, text: str) -> PartitionValue:
        """Return the typed value of a path's text, percent-encoded or not; PartitionError if it is none."""
        if text == HIVE_NULL:
            return None
        if not is_unicode(text):
            raise self.not_unicode(text)
        value = unescape(text)
        if "\0" in value:
            raise PartitionError(f"partition value {self.name}={shown(value)} has a zero byte:", "rename the folder.")
        if not value and self.empty == "refuse":
            raise PartitionError(
                f"partition value {self.name} is empty, and the config does not define its meaning:",
                f"write {HIVE_NULL} for NULL, or set `empty: value` or `empty: null` for the column in the config.",
            )
        if not value:
            return None if self.empty == "null" else ""
        if self.type in TIME_TYPES:
            return self._time(value)
        if self.type == "integer":
            # More than 64 bits, signs and spaces are refused, not wrapped or trimmed.
            if not _INTEGER.fullmatch(value):
                raise self._refuse(value, "write it in the digits 0 to 9, such as 2026")
            if int(value) not in _INT64:
                raise self._refuse(value, f"write a number from {_INT64[0]} to {_INT64[-1]}, or use type: string")
            return int(value)
        return self.composed(value)

    def composed(self, value: str) -> str:
        """Return the value composed (NFC) if it is decomposed (NFD); a mixture, which no writer makes, is as it is."""
        composed = value if self.exact or value.isascii() else unicodedata.normalize("NFC", value)
        return composed if unicodedata.normalize("NFD", composed) == value else value

    def forms(self, value: PartitionValue) -> list[PartitionValue]:
        """Return the texts that are this value, itself first: the decomposed one is how macOS writes names."""
        if self.exact or not isinstance(value, str) or value.isascii():
            return [value]
        decomposed = unicodedata.normalize("NFD", value)
        return [value] if self.composed(decomposed) != value else list(dict.fromkeys([value, decomposed]))

    def _time(self, value: str) -> PartitionValue:
        kind = TIME_TYPES[self.type]
        try:
            parsed = kind.start(value)
        except ValueError:
            parsed = None
        # strptime also accepts 2026-2-1, which is another folder's name.
        if parsed is None or kind.text(parsed) != value:
            example = kind.text(dt.datetime(2026, 2, 11, 13, tzinfo=dt.UTC))
            raise self._refuse(value, f"write it as {kind.picture}, such as {example}")
        if self.type == "date":
            return parsed.date()
        return parsed.year if self.type == "year" else value

    def _refuse(self, value: str, hint: str) -> PartitionError:
        return PartitionError(f"partition value {self.name}={value!r} is not of type {self.type}:", f"{hint}.")

    def not_unicode(self, value: str) -> PartitionError:
        """Return the error for a value with bytes that are not UTF-8."""
        return PartitionError(
            f"partition value {self.name}={shown(value)} is not UTF-8:", "write it in UTF-8, or rename the folder."
        )

    @lru_cache(_REMEMBERED)  # noqa: B019
    def text(self, value: PartitionValue) -> str:
        """Return the value in a path: percent-encoded, NULL as `__HIVE_DEFAULT_PARTITION__`."""
        if value is None:
            return HIVE_NULL
        if value == "" and self.empty == "value":
            return ""
        return escape(f"{value:04}" if self.type == "year" else str(value))

    def shown(self, value: PartitionValue) -> str:
        """Return the value on the command line, for errors: of printable characters only `,` and `%` are encoded."""
        text = self.text(value)
        return text if value is None else _ENCODED_IN_SHELL.sub(lambda match: percent(match[0]), unescape(text))


@dataclass(frozen=True, slots=True)
class Partition:
    """One value for each partition column of a stream, in the order of the stream's columns."""

    columns: tuple[PartitionColumn, ...]
    values: tuple[PartitionValue, ...]
    _path: str = field(default="", init=False, repr=False, compare=False)  # when it was asked for

    def __hash__(self) -> int:
        """Return the hash of the values, as partitions of one stream have the same columns."""
        return hash(self.values)

    def __post_init__(self) -> None:
        """Refuse a value that catalogs, stores and paths cannot hold, such as bytes that are not UTF-8."""
        for column, value in zip(self.columns, self.values, strict=True):
            if isinstance(value, str) and not is_unicode(value):
                raise column.not_unicode(value)

    @classmethod
    def of(cls, columns: Iterable[PartitionColumn], texts: Mapping[str, str]) -> "Partition":
        """Return the partition with these texts as values, one for each column."""
        columns = tuple(columns)
        names = [column.name for column in columns]
        if texts and not columns:
            raise PartitionError("the stream has no partition columns:", f"write {WHOLE}, its one partition.")
        if set(texts) != set(names):
            raise PartitionError(
                f"the partition names {storable(', '.join(texts)) or 'nothing'}, and the stream's partition columns "
                f"are {', '.join(names)}:",
                f"write {','.join(f'{name}=…' for name in names)}.",
            )
        return cls(columns, tuple(column.parse(texts[column.name]) for column in columns))

    @classmethod
    def parse(cls, columns: Iterable[PartitionColumn], text: str) -> "Partition":
        """Read `region=NW,date=2026-02-11`; a comma or a percent sign inside a value is percent-encoded."""
        columns, texts = tuple(columns), dict[str, str]()
        if text == WHOLE and not columns:
            return cls((), ())
        for part in text.split(","):
            column, equals, value = part.partition("=")
            name = column.strip()
            if not equals or name in texts:
                raise PartitionError(
                    f"partition {shown(text)} is not a list of column=value:",
                    "write each column once, such as region=NW,date=2026-02-11 (a comma in a value as %2C).",
                )
            texts[name] = value
        return _as_written(cls.of(columns, texts), texts)

    @classmethod
    def from_values(cls, columns: Iterable[PartitionColumn], values: Mapping[str, object]) -> "Partition":
        """Return the partition with these values, one for each column, by the columns' names.

        A value is a text that is not percent-encoded, a number, a date, or None for NULL.
        """
        texts = {name: _text_of(name, value) for name, value in values.items()}
        return _as_written(cls.of(columns, texts), texts)

    @classmethod
    def at(cls, columns: Iterable[PartitionColumn], path: str) -> "Partition":
        """Parse a path as the property `path` returns it: `region=NW/date=2026-02-11`."""
        columns = tuple(columns)
        if path == WHOLE and not columns:
            return cls((), ())
        partition = cls.of(columns, dict(part.partition("=")[::2] for part in path.split("/")))
        if partition.path != path and all(form.path != path for form in partition.forms):
            raise PartitionError(f"partition path {path!r} is not in this package's form:", f"use {partition.path}.")
        return partition

    @property
    def forms(self) -> list["Partition"]:
        """The partitions whose values are forms of these; see `PartitionColumn.forms`. The first is this one."""
        forms = (column.forms(value) for column, value in zip(self.columns, self.values, strict=True))
        return [Partition(self.columns, values) for values in product(*forms)]

    @property
    def path_part(self) -> "Partition":
        """The partition without the columns that are in the rows: what the landing zone's paths have of it."""
        in_path = [(c, v) for c, v in zip(self.columns, self.values, strict=True) if not c.in_rows]
        return Partition(tuple(column for column, _ in in_path), tuple(value for _, value in in_path))

    def texts(self) -> dict[str, str]:
        """Return each column's value in a path, by the column's name."""
        return {c.name: c.text(v) for c, v in zip(self.columns, self.values, strict=True)}

    @property
    def path(self) -> str:
        """The partition as a Hive path: `region=NW/date=2026-02-11`, without slashes at its ends; `all` of a table."""
        if not self._path:
            path = "/".join([f"{c.name}={c.text(v)}" for c, v in zip(self.columns, self.values, strict=True)])
            object.__setattr__(self, "_path", path or WHOLE)
        return self._path

    @property
    def option(self) -> str:
        """The partition as `--partition` takes it: `region=NW,date=2026-02-11`."""
        return option_of(self.path)

    def __str__(self) -> str:
        return self.path


def any_of(
    columns: Sequence[str],
    wanted: Collection[tuple[PartitionValue, ...]],
    equals_any: Callable[[str, Sequence[PartitionValue]], Any],
    constant: Callable[[bool], Any],
) -> Any:  # noqa: ANN401 - of DuckDB or of Spark
    """Return the condition that columns have one of these combinations of values, made by two functions of an engine.

    All days of two regions are `region IN (…) AND date IN (…)`: combinations that differ in the first column alone
    share a term. Files are left out by such terms.
    """
    if not wanted or not columns:
        return constant(bool(wanted))
    if len(columns) == 1:
        return equals_any(columns[0], [value for (value,) in wanted])
    rests: dict[PartitionValue, set[tuple[PartitionValue, ...]]] = defaultdict(set)
    for first, *rest in wanted:
        rests[first].add(tuple(rest))
    firsts: dict[frozenset[tuple[PartitionValue, ...]], list[PartitionValue]] = defaultdict(list)
    for first, of_first in rests.items():
        firsts[frozenset(of_first)].append(first)
    return reduce(
        or_,
        (
            equals_any(columns[0], values) & any_of(columns[1:], rest, equals_any, constant)
            for rest, values in firsts.items()
        ),
    )


def option_of(path: str) -> str:
    """Return a `Partition.path` as `--partition` takes it, with percent-encoding for what a selection gives a meaning.

    >>> option_of("region=a,b/date=2026-02-11")
    'region=a%2Cb,date=2026-02-11'
    """
    return ",".join(_OF_SELECTIONS.sub(lambda match: percent(match[0]), part) for part in path.split("/"))


def _as_written(partition: Partition, texts: Mapping[str, str]) -> Partition:
    """Return the partition, if its texts are its folder's. A number in another form is a PartitionError."""
    for column, typed in zip(partition.columns, partition.values, strict=True):
        # A folder p=007 is not the folder of partition p=7, which would be read.
        if column.type == "integer" and typed is not None and unescape(texts[column.name]) != str(typed):
            raise PartitionError(
                f"partition value {column.name}={texts[column.name]} is not written as its folder "
                f"{column.name}={typed}:",
                f"write {column.name}={typed}, and move objects of other folders there.",
            )
    return partition


def _text_of(name: str, value: object) -> str:
    """Return a value in a path; `PartitionColumn.parse` checks it."""
    if value is None:
        return HIVE_NULL
    if not isinstance(value, str | Integral | dt.date) or isinstance(value, bool):
        raise PartitionError(
            f"partition value {name} is of Python's type {type(value).__name__}:",
            "give a text, a whole number, a date, or None for NULL.",
        )
    return escape(str(value)) if value != "" else ""

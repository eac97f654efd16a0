"""Layout templates: how the values of a row become the folders that its file lies in, and back."""

import datetime as dt
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Literal
from zoneinfo import ZoneInfo

import pyarrow as pa

from lake_assets.errors import LayoutError
from lake_assets.layout import codec, grammar, olake_paths
from lake_assets.layout.arrow import read_rows, render_rows
from lake_assets.layout.grammar import NOW, Part, Placeholder, Static
from lake_assets.layout.hive import escape

Compat = Literal["olake"]


@dataclass(frozen=True)
class Template:
    """A path template such as `region={region}/date={date}`, read; make one with `parse` or `hive`.

    Three uses: `render` gives the path of rows, `match` the partition values of a path, `prefix` the listing
    prefix of a partition. Every path that `render` gives, `match` reads back to the values it was made of, where
    NULL and the empty string are one value, as in Hive. In a `nested` template that holds if each value's folders
    are followed by a `name=`; in `compat: olake` it does not hold, for those paths are ambiguous.

    Attributes:
        text: the template as it was written.
        parts: static texts and placeholders in order.
        time_zone: IANA name of the zone whose clock gives the dates and hours of the path.
        nested: a `/` in a value makes folders.
        compat: whose paths are reproduced, if another system's.
    """

    text: str
    parts: tuple[Part, ...] = field(repr=False)
    time_zone: str = "UTC"
    nested: bool = False
    compat: Compat | None = None

    @classmethod
    def parse(
        cls, text: str, *, time_zone: str = "UTC", nested: bool = False, compat: Compat | None = None
    ) -> "Template":
        """Read a template; its grammar is in `grammar.py` and docs/layout.md.

        Args:
            text: the template.
            time_zone: IANA name of the zone of the path's dates and hours. Instants are taken to its clock;
                timestamps without a zone or offset are what that clock showed.
            nested: let a `/` in a value make folders.
            compat: `olake` to read the template, and to write paths, as OLake does: in UTC, nested, unencoded.

        Raises:
            LayoutError: the text is no template (shown with a caret under the fault), or there is no such zone.
        """
        return _parsed(text, time_zone, nested, compat)

    @classmethod
    def hive(cls, columns: Iterable[str]) -> "Template":
        """The layout of Hive and of Spark's `partitionBy`: `column=value` folders in the columns' order.

        Raises:
            LayoutError: there is no column, or one without a name.
        """
        return cls.parse("/".join(f"{escape(column)}={{{grammar.quoted(column)}}}" for column in columns))

    @classmethod
    def root(cls) -> "Template":
        """The layout of files that lie anywhere below the source's root, where paths say nothing."""
        return cls("", ())

    def named(self, names: Mapping[str, str]) -> "Template":
        """The same layout, whose partition columns have other names than the columns that their values come from.

        Args:
            names: the new names by the present ones; `now()` is every `now()` whose folder gives it no name.

        Raises:
            LayoutError: the layout has no such column, or two of its columns would have one name.
        """
        known = dict.fromkeys(p.name or NOW for p in self.placeholders)
        for name, new in names.items():
            if name not in known:
                raise LayoutError(
                    f"the layout {self.text!r} has no column {name!r}:", f"it has {', '.join(known) or 'none'}."
                )
            if new != name and new in known and names.get(new, new) == new:
                raise LayoutError(f"the layout {self.text!r} has two columns named {new!r}:", "take another name.")
        parts = [
            replace(p, name=names.get(p.name or NOW, p.name)) if isinstance(p, Placeholder) else p for p in self.parts
        ]
        return replace(self, parts=tuple(parts))

    @cached_property
    def placeholders(self) -> tuple[Placeholder, ...]:
        """The placeholders in the order of the path."""
        return tuple(part for part in self.parts if isinstance(part, Placeholder))

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The partition columns: the names that `match` gives values to, in the order of the path."""
        return tuple(dict.fromkeys(p.name for p in self.placeholders if p.name is not None))

    @cached_property
    def row_columns(self) -> tuple[str, ...]:
        """The columns that rows are rendered from: `columns` without the names of `now()`."""
        return tuple(dict.fromkeys(p.column for p in self.placeholders if not p.is_now))

    def with_empty(self, *, kept: Iterable[str], read: Iterable[str]) -> "Template":
        """The same paths, but that some columns' values may be empty there, as in `region=/`.

        Args:
            kept: columns whose empty values are written as such and read as such; their text is the empty one.
            read: columns whose empty values are written as NULL; what is empty in a path has the empty text.

        Raises:
            LayoutError: a folder would have no name.
        """
        kept, either = set(kept), {*kept, *read}
        for place in self.placeholders:
            if place.name in kept and place.bare:
                raise LayoutError(
                    f"the layout {self.text!r} has a folder that is {{{place.column}}} alone:",
                    f"an empty value would leave it without a name, so write {place.name}={{{place.column}}}.",
                )
        parts = tuple(
            replace(part, may_be_empty=part.name in either, keeps_empty=part.name in kept)
            if isinstance(part, Placeholder) and part.name is not None and not part.bare
            else part
            for part in self.parts
        )
        return replace(self, parts=parts)

    def render_row(self, row: Mapping[str, object], *, now: dt.datetime | None = None) -> str:
        """The path of one row, without slashes at its ends.

        Args:
            row: values by column: str, int, bool, Decimal, date, datetime or None.
            now: the time of the run, with a time zone; the present when None.

        Raises:
            LayoutError: the row lacks a column that has no default, a value's type is none of these, or a time
                lies outside the years 1 to 9999.
        """
        for placeholder in self.placeholders:
            self._require(placeholder, row.keys())
        present = self._now(now)
        texts = [
            part.text
            if isinstance(part, Static)
            else self._write(part, present if part.is_now else row.get(part.column))
            for part in self.parts
        ]
        return self._whole("".join(texts))

    def render(self, rows: pa.Table | pa.RecordBatch, *, now: dt.datetime | None = None) -> pa.DictionaryArray:
        """The path of every row, in the rows' order, as `dictionary<int32, string>` without nulls.

        Each distinct path is made once, so the cost is that of telling the rows apart.

        Args:
            rows: columns of type string, integer, boolean, decimal, date or timestamp, or dictionaries of these.
            now: the time of the run, with a time zone; the present when None.

        Raises:
            LayoutError: a column without a default is missing, a column is of another type, or a time lies outside
                the years 1 to 9999.
        """
        for placeholder in self.placeholders:
            self._require(placeholder, rows.schema.names)
        return render_rows(self.parts, rows, self._now(now), self._zone, self._write, self._whole)

    def source(self, name: str) -> str | None:
        """The column of the rows that a partition column's values come from; None where it is the time of the run."""
        return next((p.column for p in self.placeholders if p.name == name and not p.is_now), None)

    def folder(self, name: str) -> str | None:
        """The name of the folder `name=…` that begins a partition column's value in a path; None where none does."""
        for before, place in pairwise(self.parts):
            if isinstance(before, Static) and isinstance(place, Placeholder) and place.name == name:
                folder = before.text.rpartition("/")[2]
                if folder.endswith("=") and folder.count("=") == 1:
                    return folder.removesuffix("=")
        return None

    def read_rows(self, name: str, column: pa.ChunkedArray | pa.Array) -> pa.DictionaryArray:
        """What the rows' paths say of one partition column, as `match` gives it, from the column that it comes from.

        Args:
            name: of the partition column.
            column: the rows' values of `source(name)`.

        Raises:
            LayoutError: the values are of a type that no path can name, or a time lies outside the years 1 to 9999.
        """
        places = [p for p in self.placeholders if p.name == name and not p.is_now]
        return read_rows(places, column, self._zone, self._write, self._read)

    def match(self, path: str, *, file: bool = False) -> Mapping[str, str] | None:
        """The partition values of a path, by the names of `columns`; None if the path does not fit the template.

        Values are encoded as `PartitionColumn.text` encodes them, and NULL is `__HIVE_DEFAULT_PARTITION__`;
        any encoding is read. The parts of a timestamp are one text, such as `2026-02-11`.

        Args:
            path: below the source root, such as `region=NW/date=2026-02-11/part-0.parquet`; what lies behind the
                template's last folder counts for nothing. With `nested`, all folders are read, and a path that
                does not end in `/` is that of a file.
            file: the path is that of a file, whose own name is never a value.

        Raises:
            LayoutError: a value is percent-encoded, but not in UTF-8.
        """
        if file or (self.nested and not path.endswith("/")):
            path = path.rpartition("/")[0]
        found = self._pattern.fullmatch(path.removesuffix("/"))
        if found is None:
            return None
        read: dict[str, list[tuple[Placeholder, str]]] = {name: [] for name in self.columns}
        for placeholder, text in zip(self.placeholders, found.groups(), strict=True):
            if placeholder.name is not None:
                read[placeholder.name].append((placeholder, text))
        values = {name: self._read(texts) for name, texts in read.items()}
        return None if None in values.values() else {name: text for name, text in values.items() if text is not None}

    def prefix(self, texts: Mapping[str, str]) -> str:
        """The shortest prefix, below the source root, that lists a partition's objects and as few others as can be.

        It ends in `/` where it names a whole folder: always, unless a column without a value, or `now()`, stands
        in the same folder's name as the last value. Listed objects outside the partition do not `match` its values.

        Args:
            texts: encoded values by partition column, as `Partition.texts` gives them; some may be left out.

        Raises:
            LayoutError: the template has no such column, a text is no time where a time is asked for, or, in
                `compat: olake`, the path would climb out of the source root.
        """
        if unknown := [name for name in texts if name not in self.columns]:
            raise LayoutError(
                f"the layout {self.text!r} has no partition column {unknown[0]!r}:",
                f"it has {', '.join(self.columns) or 'none'}.",
            )
        prefix, bound = "", False
        for part in self.parts:
            if isinstance(part, Static):
                prefix += part.text
                bound = bound and "/" not in part.text
            elif part.name is not None and part.name in texts:
                prefix += self.value_text(part, texts[part.name])
                bound = True
            else:
                folder, _, name = prefix.rpartition("/")
                return self._folder(folder) + (name if bound else "")
        return self._folder(prefix)

    @cached_property
    def _zone(self) -> ZoneInfo:
        return ZoneInfo(self.time_zone)

    def _now(self, now: dt.datetime | None) -> dt.datetime:
        if now is None:
            return dt.datetime.now(self._zone)
        if now.tzinfo is None:
            raise LayoutError(f"the time of the run {now} has no time zone:", "give it one, such as datetime.UTC.")
        return now.astimezone(self._zone)

    def _whole(self, path: str) -> str:
        return olake_paths.clean(path) if self.compat else path

    def _folder(self, path: str) -> str:
        path = self._whole(path)
        if path.split("/")[0] == "..":
            raise LayoutError(f"the path {path!r} lies outside the source:", "take another value, or leave compat out.")
        return f"{path}/" if path else ""

    def _require(self, placeholder: Placeholder, columns: Iterable[str]) -> None:
        if not placeholder.is_now and not placeholder.optional and placeholder.column not in columns:
            raise LayoutError(
                f"the rows have no column {placeholder.column!r}, which the layout {self.text!r} names:",
                f"add it, or give it a default: {{{placeholder.column},unknown}}.",
            )

    def _write(self, placeholder: Placeholder, value: object) -> str:
        if self.compat:
            return olake_paths.write(placeholder, value)
        return codec.write(placeholder, value, self._zone, nested=self.nested)

    def value_text(self, placeholder: Placeholder, text: str) -> str:
        """What a path holds in this place for a partition's value, given as `Partition.texts` does.

        Raises:
            LayoutError: the place is for a part of a time, and the text is no time.
        """
        places = [other.granularity for other in self.placeholders if other.name == placeholder.name]
        together = () if None in places else tuple(name for name in places if name is not None)
        if self.compat:
            return olake_paths.write_partition(placeholder, text, together)
        return codec.write_partition(placeholder, text, together, self._zone, nested=self.nested)

    def _read(self, found: Sequence[tuple[Placeholder, str]]) -> str | None:
        return olake_paths.read(found) if self.compat else codec.read(found, self._zone)

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return olake_paths.pattern(self.parts) if self.compat else codec.pattern(self.parts, nested=self.nested)


@lru_cache(1024)
def _parsed(text: str, time_zone: str, nested: bool, compat: Compat | None) -> Template:
    """As `Template.parse`; many streams of a config have one layout."""
    if compat and time_zone != "UTC":
        raise LayoutError(f"time zone {time_zone} with compat {compat}:", "leave it out; OLake's paths are in UTC.")
    try:
        ZoneInfo(time_zone)
    except (KeyError, ValueError, OSError) as error:
        raise LayoutError(f"there is no time zone {time_zone!r}:", "write it as Europe/Berlin or UTC.") from error
    parts = olake_paths.parse(text) if compat else grammar.parse(text)
    return Template(text, parts, time_zone, nested or compat is not None, compat)

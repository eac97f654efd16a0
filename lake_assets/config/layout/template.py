"""Layout templates: from the values of a row to the folders of its file, and back."""

import datetime as dt
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import chain, pairwise, takewhile, zip_longest
from types import MappingProxyType
from typing import Literal
from zoneinfo import ZoneInfo

import pyarrow as pa

from lake_assets.base.errors import LayoutError
from lake_assets.config.layout import grammar, olake_paths
from lake_assets.config.layout.arrow_paths import read_rows, render_rows
from lake_assets.config.layout.codec import HiveCodec
from lake_assets.config.layout.grammar import NOW, Part, Placeholder, Static
from lake_assets.config.layout.hive import SPELLINGS, escape, is_hidden, is_reserved
from lake_assets.config.layout.olake_paths import OlakeCodec

Compat = Literal["olake"]

_WORD = re.compile(r"[^\W\d_]{2}")


@dataclass(frozen=True)
class Template:
    """A parsed path template such as `region={region}/date={date}`; `parse` and `hive` make one.

    `render` returns the paths of rows, `match` the partition values of a path, `prefix` the listing prefix of a
    partition. `match` reads the values back from every path that `render` returns; NULL and the empty string are one
    value, as in Hive. In a `nested` template that holds if each value's folders are followed by a `name=`. With
    `compat: olake` it does not hold, because those paths are ambiguous.

    Attributes:
        text: the template's text.
        parts: static texts and placeholders in order.
        time_zone: IANA name of the time zone of the dates and hours in paths.
        nested: a `/` in a value makes folders.
        compat: the other system whose paths are read and written.
        file_parts: how many parts, at the end, are the name of a file; 0 if the layout has folders only.
    """

    text: str
    parts: tuple[Part, ...] = field(repr=False)
    time_zone: str = "UTC"
    nested: bool = False
    compat: Compat | None = None
    file_parts: int = 0

    @classmethod
    def parse(
        cls, text: str, *, time_zone: str = "UTC", nested: bool = False, compat: Compat | None = None
    ) -> "Template":
        """Parse a template; `grammar.py` and docs/layout.md have its grammar.

        Args:
            text: the template.
            time_zone: IANA name of the time zone of the dates and hours in paths. Timestamps with a zone or offset are
                converted to it; others are local times of it.
            nested: a `/` in a value makes folders.
            compat: `olake` reads the template and writes paths as OLake does: in UTC, nested, unencoded.

        Raises:
            LayoutError: the template is malformed (with a caret at the position), or there is no such time zone.
        """
        return _parsed(text, time_zone, nested, compat)

    @classmethod
    def hive(cls, columns: Iterable[str]) -> "Template":
        """Return the layout of Hive and of Spark's `partitionBy`: `column=value` folders in the columns' order.

        Raises:
            LayoutError: there is no column, or one without a name.
        """
        return cls.parse("/".join(f"{escape(column)}={{{grammar.quoted(column)}}}" for column in columns))

    @classmethod
    def root(cls) -> "Template":
        """Return the layout of files anywhere below the source's root; their paths have no values."""
        return cls("", ())

    def with_files(self, files: str) -> "Template":
        """Return the layout with the names of the files in its folders, such as `sales_{date}_*.parquet`.

        Its paths are those of files, right in the folders. A LayoutError if the name is malformed, or a value may make
        folders.
        """
        if self.nested:
            raise LayoutError(
                f"files {files!r} has values, and in the layout {self.text!r} a value may make folders:",
                "name the values in the layout only, or leave nested and compat out.",
            )
        name = grammar.parse_file(files)
        parts = (*self.parts, *([Static("/")] if self.parts else []), *name)
        text = "/".join(part for part in (self.text.strip("/"), files) if part)
        return replace(self, text=text, parts=grammar.with_iso_years(parts), file_parts=len(name))

    def named(self, names: Mapping[str, str]) -> "Template":
        """Return the same layout with other names of partition columns, by the current ones.

        `now()` is every `now()` whose folder gives it no name. A LayoutError if there is no such column, or two would
        have one name.
        """
        known = dict.fromkeys(p.name or NOW for p in self.placeholders if not p.is_wildcard)
        for name, new in names.items():
            if name not in known:
                raise LayoutError(
                    f"the layout {self.text!r} has no column {name!r}:", f"it has {', '.join(known) or 'none'}."
                )
            if new != name and new in known and names.get(new, new) == new:
                raise LayoutError(f"the layout {self.text!r} has two columns named {new!r}:", "take another name.")
        parts = [
            replace(p, name=names.get(p.name or NOW, p.name)) if isinstance(p, Placeholder) and not p.is_wildcard else p
            for p in self.parts
        ]
        return replace(self, parts=tuple(parts))

    @cached_property
    def placeholders(self) -> tuple[Placeholder, ...]:
        """The placeholders in the order of the path."""
        return tuple(part for part in self.parts if isinstance(part, Placeholder))

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The partition columns, in the order of the path."""
        return tuple(dict.fromkeys(p.name for p in self.placeholders if p.name is not None))

    @cached_property
    def runs(self) -> tuple[tuple[slice, tuple[str, ...]], ...]:
        """The shortest runs of folders that share no column with others, in order, each with its columns.

        What a path has of a column is in the folders of one run. None at all if a value may make folders, or if the
        names of files have values.
        """
        folders = grammar.folder_parts(self.parts)
        if self.nested or self.file_parts or not all(folders):
            return ()
        named = [[p.name for p in parts if isinstance(p, Placeholder) and p.name is not None] for parts in folders]
        runs, begin = list[tuple[slice, tuple[str, ...]]](), 0
        for end in range(1, len(folders) + 1):
            columns = dict.fromkeys(chain.from_iterable(named[begin:end]))
            if columns.keys().isdisjoint(chain.from_iterable(named[end:])):
                runs.append((slice(begin, end), tuple(columns)))
                begin = end
        return tuple(runs)

    def with_empty(self, *, values: Iterable[str], nulls: Iterable[str]) -> "Template":
        """Return the same layout, but paths may have empty values of some columns, as in `region=/`.

        An empty text is a value of the columns `values`; that of the columns `nulls` is read as such, and written as
        NULL. A LayoutError if a folder would have no name.
        """
        values, either = set(values), {*values, *nulls}
        for placeholder in self.placeholders:
            if placeholder.name in values and placeholder.bare:
                column = placeholder.column
                raise LayoutError(
                    f"the layout {self.text!r} has a folder that is {{{column}}} alone:",
                    f"an empty value would leave it without a name, so write {placeholder.name}={{{column}}}.",
                )
        parts = tuple(
            replace(part, may_be_empty=part.name in either, keeps_empty=part.name in values)
            if isinstance(part, Placeholder) and part.name is not None and not part.bare
            else part
            for part in self.parts
        )
        return replace(self, parts=parts)

    def render_row(self, row: Mapping[str, object], *, now: dt.datetime | None = None) -> str:
        """Return the path of one row, without slashes at its ends.

        Args:
            row: values by column: str, int, bool, Decimal, date, datetime or None.
            now: the time of the run, with a time zone; the current time when None.

        Raises:
            LayoutError: the row does not have a column that has no default, a value has another type, or a time is
                outside the years 1 to 9999.
        """
        self._require_columns(row.keys())
        run_time = self._run_time(now)
        texts = [
            part.text
            if isinstance(part, Static)
            else self._codec.write(part, run_time if part.is_now else row.get(part.column))
            for part in self.parts
        ]
        return self._codec.clean("".join(texts))

    def render(self, rows: pa.Table | pa.RecordBatch, *, now: dt.datetime | None = None) -> pa.DictionaryArray:
        """Return the path of every row, in the rows' order, as `dictionary<int32, string>` without nulls.

        Each distinct path is rendered once.

        Args:
            rows: columns of type string, integer, boolean, decimal, date or timestamp, or dictionaries of these.
            now: the time of the run, with a time zone; the current time when None.

        Raises:
            LayoutError: a column without a default is missing, a column has another type, or a time is outside the
                years 1 to 9999.
        """
        self._require_columns(rows.schema.names)
        return render_rows(self._codec, rows, self._run_time(now))

    def source(self, name: str) -> str | None:
        """Return the column of the rows that a partition column's values come from; None for the time of the run."""
        return next((p.column for p in self.placeholders if p.name == name and not p.is_now), None)

    def folder(self, name: str) -> str | None:
        """Return the name in the folder `name=…` of a partition column's value; None if its folder has no such name."""
        for before, part in pairwise(self.parts[: len(self.parts) - self.file_parts]):
            if isinstance(before, Static) and isinstance(part, Placeholder) and part.name == name:
                folder = before.text.rpartition("/")[2]
                if folder.endswith("=") and folder.count("=") == 1:
                    return folder.removesuffix("=")
        return None

    def read_rows(self, name: str, column: pa.ChunkedArray | pa.Array) -> pa.DictionaryArray:
        """Return one partition column's value in the path of each row, as `match` returns it."""
        placeholders = [p for p in self.placeholders if p.name == name and not p.is_now]
        return read_rows(self._codec, placeholders, column)

    def match(self, path: str, *, file: bool = False) -> Mapping[str, str] | None:
        """Return the partition values of a path by partition column; None if the path does not fit the template.

        Values are encoded as `PartitionColumn.text` encodes them, and NULL is `__HIVE_DEFAULT_PARTITION__`;
        any encoding is read. The parts of a timestamp are one text, such as `2026-02-11`.

        Args:
            path: below the source root, such as `region=NW/date=2026-02-11/part-0.parquet`. Everything after the
                template's last folder is ignored. With `nested`, all folders are read, and a path that does not end in
                `/` is a file's. A layout with the names of files reads the whole path.
            file: the path is a file's, whose own name is never a value of a layout of folders.

        Raises:
            LayoutError: a value is percent-encoded, but not in UTF-8.
        """
        if not self.file_parts and (file or (self.nested and not path.endswith("/"))):
            path = path.rpartition("/")[0]
        match = self._codec.match(path.removesuffix("/"))
        if match is None:
            return None
        texts: dict[str, list[tuple[Placeholder, str]]] = {name: [] for name in self.columns}
        for placeholder, text in zip(self.placeholders, match.groups(), strict=True):
            if placeholder.name is not None:
                texts[placeholder.name].append((placeholder, text or ""))
        values = {name: value for name in texts if (value := self._codec.read(texts[name])) is not None}
        return values if len(values) == len(texts) else None

    def hides(self, folders: Sequence[str]) -> bool:
        """Return whether one of the folders of a path, from the source's root on, marks its content as no data.

        Its name begins with `_` or `.`, as of folders that Hive and Spark do not read, and is not one that the layout
        can produce.
        """
        if not is_hidden(folders):
            return False
        if self.nested:
            fits = self._codec.match("/".join(folders)) is not None
            return any(is_hidden([name]) and (not fits or is_reserved(name)) for name in folders)
        names = zip_longest(folders, self._codec.folder_patterns[: len(folders)])
        return any(is_hidden([name]) and not (form and form.fullmatch(name)) for name, form in names)

    def prefix(self, texts: Mapping[str, str], spellings: Mapping[str, str] = MappingProxyType({})) -> str:
        """Return the prefix below the source root that lists a partition's objects and as few others as possible.

        It is a folder, or empty: up to the first whose name has a column without a value, or `now()`. If the layout has
        the names of files, it may end within such a name. Listed objects of other partitions do not `match` the values.

        Args:
            texts: encoded values by partition column, as `Partition.texts` returns them; some may be left out.
            spellings: of `hive.SPELLINGS`, by partition column; Hive's for the others.

        Raises:
            LayoutError: the template has no such column, a text is not a time where the template needs one, or, with
                `compat: olake`, the path would be outside the source root.
        """
        if unknown := [name for name in texts if name not in self.columns]:
            raise LayoutError(
                f"the layout {self.text!r} has no partition column {unknown[0]!r}:",
                f"it has {', '.join(self.columns) or 'none'}.",
            )
        known = list(takewhile(lambda text: text is not None, self._texts(texts, spellings)))
        prefix = "".join(text for text in known if text is not None)
        if self.file_parts and len(known) >= len(self.parts) - self.file_parts:
            return prefix
        return self._folder(prefix if len(known) == len(self.parts) else prefix.rpartition("/")[0])

    def glob(self, texts: Mapping[str, str]) -> str:
        """Return the names of a partition's files, with `*` for what they do not have in common; see `prefix`."""
        return "".join("*" if text is None else text for text in self._texts(texts, {}))

    def _texts(self, texts: Mapping[str, str], spellings: Mapping[str, str]) -> Iterator[str | None]:
        """Yield the text of each part; None where the values do not say it."""
        for part in self.parts:
            if isinstance(part, Static):
                yield part.text
            elif part.name is None or part.name not in texts:
                yield None
            else:
                yield self.value_text(part, texts[part.name], spellings.get(part.name, SPELLINGS[0]))

    @cached_property
    def words(self) -> str:
        """The words in the names of files as a pattern: `sales_*.parquet` of `sales_{ts,,YY}-{ts,,MM}_*.parquet`."""
        name = self.parts[len(self.parts) - self.file_parts :]
        texts = (
            part.text if isinstance(part, Static) and (n in {0, len(name) - 1} or _WORD.search(part.text)) else "*"
            for n, part in enumerate(name)
        )
        return re.sub(r"\*+", "*", "".join(texts))

    def stem(self, key: str) -> str | None:
        """Return the beginning of a file's key, up to the text that follows its last value; None if it does not fit.

        The files of a stem are of one partition and follow each other in the order of keys, behind the stem.
        """
        match = self._codec.match(key)
        group, behind, _ = self._end
        return None if match is None else key[: min(match.end(group) + len(behind), len(key) - 1)]

    def of_stem(self, stem: str) -> str:
        """Return a key of the stem."""
        _, behind, rest = self._end
        return stem + (rest or behind[-1:])

    @cached_property
    def _end(self) -> tuple[int, str, str]:
        """The pattern's group of the last value, the text that follows it, and the rest of the name, if it varies."""
        last = max(n for n, part in enumerate(self.parts, 1) if isinstance(part, Placeholder) and part.name is not None)
        group = sum(isinstance(part, Placeholder) for part in self.parts[:last])
        behind, star, rest = "".join(p.text if isinstance(p, Static) else "*" for p in self.parts[last:]).partition("*")
        return group, behind, star + rest

    @cached_property
    def _codec(self) -> HiveCodec:
        codec = OlakeCodec if self.compat else HiveCodec
        return codec(self.parts, ZoneInfo(self.time_zone), self.nested, bool(self.file_parts))

    def _run_time(self, now: dt.datetime | None) -> dt.datetime:
        return dt.datetime.now(self._codec.zone) if now is None else now.astimezone(self._codec.zone)

    def _folder(self, path: str) -> str:
        path = self._codec.clean(path)
        if path.split("/")[0] == "..":
            raise LayoutError(f"the path {path!r} is outside the source:", "use another value, or leave compat out.")
        return f"{path}/" if path else ""

    def _require_columns(self, columns: Collection[str]) -> None:
        for placeholder in self.placeholders:
            if not placeholder.is_now and not placeholder.optional and placeholder.column not in columns:
                raise LayoutError(
                    f"the rows have no column {placeholder.column!r}, which the layout {self.text!r} names:",
                    f"add it, or give it a default: {{{placeholder.column},unknown}}.",
                )

    def value_text(self, placeholder: Placeholder, text: str, spelling: str = SPELLINGS[0]) -> str:
        """Return the text of a placeholder in a path, for a partition's value as `Partition.texts` returns it.

        With `compat: olake` nothing is encoded, and values have one spelling. If the placeholder is a part of a time
        and the value is not a time, that is a LayoutError.
        """
        return self._codec.write_partition(placeholder, text, spelling)


@lru_cache(1024)
def _parsed(text: str, time_zone: str, nested: bool, compat: Compat | None) -> Template:
    """See `Template.parse`; cached because many streams of a config have the same layout."""
    if compat and time_zone != "UTC":
        raise LayoutError(f"time zone {time_zone} with compat {compat}:", "leave it out. OLake's paths are in UTC.")
    try:
        ZoneInfo(time_zone)
    except (KeyError, ValueError, OSError) as error:
        raise LayoutError(f"there is no time zone {time_zone!r}:", "write it as Europe/Berlin or UTC.") from error
    parts = olake_paths.parse_olake(text) if compat else grammar.parse_template(text)
    return Template(text, parts, time_zone, nested or compat is not None, compat)

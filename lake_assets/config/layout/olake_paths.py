"""`compat: olake`: reads templates and writes paths as OLake's own Parquet writer does.

Source: `getPartitionedFilePath` of OLake's `destination/parquet/parquet.go` and `ReformatDate` of its
`utils/typeutils/reformat.go`. The year is `YYYY` there since version 0.1.0, and `YY` in OLake's documentation and in
earlier versions: both are read. The table in docs/layout.md lists the differences to templates without `compat`.
"""

import datetime as dt
import posixpath
import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from functools import cached_property

from lake_assets.config.layout.codec import HiveCodec, PlaceholderTexts, go_text, value_time
from lake_assets.config.layout.grammar import NOW, Part, Placeholder, Static, folder_parts, with_now_name, with_slashes
from lake_assets.config.layout.hive import HIVE_NULL, escape, unescape
from lake_assets.config.layout.times import DIGITS, Granularity, join_parts, part_of, read_timestamp

_PLACEHOLDER = re.compile(r"\{([^}]+)\}")
_GRANULARITIES: dict[str, Granularity] = {"YYYY": "YY", "YY": "YY", "MM": "MM", "WW": "WW", "DD": "DD", "HH": "HH"}
_DATE_LIKE = re.compile("[0-9]{1,4}-[0-9]{1,4}-[0-9]{1,4}")
_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - a clock's face in UTC
_CYCLE = dt.timedelta(days=146097)  # 400 years, after which the calendar repeats


def parse_olake(text: str) -> tuple[Part, ...]:
    """Return the parts as OLake reads them: any text is a template, and everything but placeholders is static text."""
    parts: list[Part] = []
    end = 0
    for match in _PLACEHOLDER.finditer(text):
        parts.append(Static(text[end : match.start()]))
        parts += _placeholder(match)
        end = match.end()
    parts.append(Static(text[end:].removesuffix("/")))
    return _with_now_names([part for part in parts if part != Static("")])


def _placeholder(match: re.Match[str]) -> Iterator[Placeholder]:
    fields = [field.strip("'").strip() for field in match[0].strip("{}").split(",")]
    if len(fields) < 3:
        return  # OLake leaves such a placeholder out of the path
    column, default, word = fields[:3]
    is_now = column == NOW
    yield Placeholder(
        column,
        default or f"default_{column}",
        _GRANULARITIES.get(word),
        match.start(),
        match.end(),
        is_now=is_now,
        optional=True,
        name=None if is_now else column,
    )


def _with_now_names(parts: Sequence[Part]) -> tuple[Part, ...]:
    """Name the parts with `now()` after their folder, as `dt` in `dt={now(),,YYYY}`, unless that name is taken."""
    taken = {part.name for part in parts if isinstance(part, Placeholder) and part.name}
    result: list[list[Part]] = []
    for folder in folder_parts(parts):
        named = with_now_name(folder)
        names = {part.name for part in named if isinstance(part, Placeholder) and part.is_now and part.name}
        result.append(folder if names & taken else named)
        taken |= names
    return with_slashes(result)


class OlakeCodec(HiveCodec):
    """The paths of a template as OLake writes them: nothing is encoded, so a value may be empty, or have `/` or `..`.

    A value has one spelling.
    """

    def write(self, placeholder: Placeholder, value: object, spelling: str = "") -> str:  # noqa: ARG002 - of the base
        """Return the text of a placeholder for a row's value."""
        if value is None:
            return placeholder.null
        time = _time(placeholder.column, value) if placeholder.granularity else None
        if placeholder.granularity is None or time is None:
            return go_text(placeholder.column, value)
        return _in_go(placeholder, part_of(time, placeholder.granularity, iso_year=False))

    def write_partition(self, placeholder: Placeholder, text: str, spelling: str = "") -> str:
        """Return the text of a placeholder for a partition's value."""
        if text == HIVE_NULL:
            return placeholder.null
        if not text or placeholder.granularity is None:
            return unescape(text)
        if not self._granularities(placeholder):  # another placeholder has the whole value
            return self.write(placeholder, unescape(text))
        return _in_go(placeholder, super().write_partition(placeholder, text, spelling))

    def match(self, folder: str) -> re.Match[str] | None:
        """Return the match of a path without a slash at its end, with a group for each placeholder.

        An empty value that is a folder alone leaves the folder out; its group is None then.
        """
        return self.pattern.fullmatch(f"{folder}/" if folder else "")

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The template as a regular expression, for a path with a slash at its end."""
        text = ""
        for folder in filter(None, folder_parts(self.parts)):
            is_alone = len(folder) == 1 and isinstance(folder[0], Placeholder) and folder[0].granularity is None
            text += "(?:(.+?)/)?" if is_alone else f"{''.join(map(self.group, folder))}/"
        return re.compile(text, re.DOTALL)

    def group(self, part: Part) -> str:
        """Return a part of the template as a regular expression."""
        if isinstance(part, Static):
            return re.escape(part.text)
        if part.granularity is None:
            return "(.*?)"
        digits = "[0-9]{1,4}" if part.granularity == "YY" else DIGITS[part.granularity]
        return f"({digits}|{re.escape(part.null)})"

    def read(self, texts: PlaceholderTexts) -> str | None:
        """Return the encoded value of a partition column.

        OLake's defaults may be equal to values. A whole value that is equal to the default is read as NULL; a part of
        a time, such as 2025, is read as a time.
        """
        digits: dict[Granularity, str] = {}
        for placeholder, text in texts:
            if placeholder.granularity is None:
                return HIVE_NULL if text == placeholder.null else escape(text) if text else ""
            digits[placeholder.granularity] = f"{text:0>4}" if placeholder.granularity == "YY" else text
        return join_parts(digits, iso_year=False) if all(text.isdecimal() for _, text in texts) else HIVE_NULL

    def clean(self, path: str) -> str:
        """Return the path that Go's `filepath.Join` returns, below the stream's folder; it may begin with `..`."""
        path = posixpath.normpath(f"./{path}")
        return "" if path == "." else path


def _in_go(placeholder: Placeholder, digits: str) -> str:
    return str(int(digits)) if placeholder.granularity == "YY" else digits


def _time(column: str, value: object) -> dt.datetime | None:
    if isinstance(value, str):
        if len(value) < 10 or not _DATE_LIKE.fullmatch(value[:10]):
            return None
        return read_timestamp(value, dt.UTC) or _EPOCH
    if isinstance(value, bool | float | Decimal):
        return None
    if isinstance(value, int):
        return _from_seconds(value)
    return value_time(column, value, dt.UTC)


def _from_seconds(seconds: int) -> dt.datetime:
    """Return the seconds since 1970 as a time; a year after 9999 becomes 9999, a time before year 1 1970-01-01."""
    cycles, rest = divmod(seconds, int(_CYCLE.total_seconds()))
    time = _EPOCH + dt.timedelta(seconds=rest)
    year = time.year + 400 * cycles
    if year < 1:
        return _EPOCH
    if year > 9999 and (time.month, time.day) == (2, 29):  # 9999 has no such day, and Go takes 1 March
        time += dt.timedelta(days=1)
    return time.replace(year=min(year, 9999))

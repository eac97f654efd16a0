"""What the names of folders say: columns, their types, and the layout of their paths."""

import datetime as dt
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import MappingProxyType

from lake_assets.base.errors import LayoutError
from lake_assets.config.layout.hive import HIVE_NULL, is_hidden, unescape
from lake_assets.config.layout.partition import PartitionType
from lake_assets.config.layout.template import Template
from lake_assets.config.layout.times import TIME_TYPES, TimeType
from lake_assets.wings.importers.olake import as_identifier, free

_HIVE = re.compile(r"([^=]+)=(.*)", re.DOTALL)
_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,17}")
_YEARS = range(1900, 2101)

# The parts of a time in folders of their own: the layout's granularity, the names of such folders, the form of a value.
_PARTS: tuple[tuple[str, frozenset[str], re.Pattern[str]], ...] = (
    ("YYYY", frozenset({"y", "yy", "yyyy", "yr", "year"}), re.compile(r"(?:19|20)[0-9]{2}")),
    ("MM", frozenset({"m", "mm", "mon", "month"}), re.compile(r"0[1-9]|1[0-2]")),
    ("DD", frozenset({"d", "dd", "day", "dom"}), re.compile(r"0[1-9]|[12][0-9]|3[01]")),
    ("HH", frozenset({"h", "hh", "hr", "hour"}), re.compile(r"[01][0-9]|2[0-3]")),
)
KINDS: Mapping[int, PartitionType] = MappingProxyType({1: "year", 2: "month", 3: "date", 4: "hour"})

# Times without hyphens, by the narrowest type.
_COMPACT: Mapping[PartitionType, re.Pattern[str]] = MappingProxyType(
    {KINDS[parts]: re.compile("".join(f"({form.pattern})" for _, _, form in _PARTS[:parts])) for parts in (4, 3, 2)}
)
# Weeks of ISO 8601: `2026-W07`, `2026W07`, and by the folder's name also `2026-07` and `202607`.
_WEEK = re.compile(r"((?:19|20)[0-9]{2})(-?W?)(0[1-9]|[1-4][0-9]|5[0-3])")
_OF_WEEKS = re.compile(r"(iso|year)?_?w(ee)?k(_of_year)?|y*w+")
_OF_MONTHS = re.compile(r"d(ate|t)|.*month|y*m+|period")  # names for which 202602 is a month, not a number


@dataclass(frozen=True, slots=True)
class SeenColumn:
    """A column of a layout."""

    name: str
    type: PartitionType
    layout: str  # its folders in the layout
    values: tuple[str, ...]  # those that were seen, sorted, without NULL
    levels: range  # its folders, from 0 on
    has_null: bool = False  # whether a folder of NULL was seen
    is_named: bool = True  # whether the folders have the name

    @property
    def is_time(self) -> bool:
        """Whether its values are times."""
        return self.type in TIME_TYPES

    @property
    def start(self) -> dt.date | None:
        """The date of the first value; None if the values are not times, or there are none."""
        if not self.is_time or not self.values:
            return None
        return min(TIME_TYPES[self.type].start(value) for value in self.values).date()


@dataclass(frozen=True, slots=True)
class _Level:
    """The folders of one depth."""

    name: str | None  # of `name=value`
    values: tuple[str, ...]  # decoded, without NULL
    texts: tuple[str, ...]  # as they are written
    has_null: bool

    @classmethod
    def of(cls, names: set[str]) -> "_Level":
        matches = [_HIVE.fullmatch(name) for name in names]
        keys = {match[1] for match in matches if match}
        if len(keys) == 1 and all(matches):
            texts = [match[2] for match in matches if match]
            values = {_decoded(text) for text in texts if text != HIVE_NULL}
            return cls(_decoded(keys.pop()), tuple(sorted(values)), tuple(sorted(texts)), HIVE_NULL in texts)
        return cls(None, tuple(sorted(names - {HIVE_NULL})), tuple(sorted(names)), HIVE_NULL in names)


def _decoded(text: str) -> str:
    with suppress(LayoutError):
        return unescape(text)
    return text


def are_partitions(names: Collection[str]) -> bool:
    """Return whether the names of folders are values of one column: `name=value`, times or whole numbers."""
    level = _Level.of({name for name in names if not is_hidden([name])})
    return level.name is not None or _type(level.values) != "string"


def values_among(names: Collection[str]) -> set[str]:
    """Return the folders of one level that the layout of all of them does not hide.

    A name with `_` or `.` at its beginning may be a text, and is neither `name=value`, nor a time, nor a number.
    """
    return {name for name in names if name == HIVE_NULL or not (is_hidden([name]) and are_partitions(names))}


def columns_of_paths(paths: Sequence[Sequence[str]], taken: Sequence[str] = ()) -> tuple[list[SeenColumn], str]:
    """Return the columns of a layout in the order of its path, and the layout's text.

    The paths are the folders of each object, all of one depth. Folders without a name do not get one that is taken.
    """
    levels = [_Level.of({path[depth] for path in paths}) for depth in range(len(paths[0]))]
    seen: list[SeenColumn] = []
    segments: list[str] = []
    depth = 0
    while depth < len(levels):
        names = [column.name for column in seen]
        column = (
            _week_of_year(levels, paths, depth, [*names, *taken])
            or _time_in_parts(levels, paths, depth, [*names, *taken])
            or _date_and_hour(levels, paths, depth, [*names, *taken])
            or _column(levels[depth], depth, names, taken)
        )
        if column is None:
            segments.append(levels[depth].texts[0])  # every path has it
            depth += 1
            continue
        seen.append(column)
        segments.append(column.layout)
        depth = column.levels.stop
    return seen, "/".join(segments)


def unfit_folder(paths: Sequence[Sequence[str]]) -> str | None:
    """Return the first folder whose name the layout would have and cannot have, such as `z*`; None if there is none."""
    for depth in range(len(paths[0])):
        level = _Level.of({path[depth] for path in paths})
        written = f"{level.name}=" if level.name is not None else "" if _is_column(level) else level.texts[0]
        if written and not _is_static(written):
            return "/".join(paths[0][: depth + 1])
    return None


def _is_static(text: str) -> bool:
    """Return whether a layout can have a text that is the same in all paths."""
    try:
        return not Template.parse(text).placeholders
    except LayoutError:
        return False


def _is_column(level: _Level) -> bool:
    return level.name is not None or level.has_null or len(level.texts) > 1 or _type(level.values) != "string"


def _column(level: _Level, depth: int, names: Sequence[str], taken: Sequence[str]) -> SeenColumn | None:
    kind = _type(level.values)
    if not _is_column(level):
        return None
    if kind == "integer" and _is_year(level):
        kind = "year"
    if level.name is None:
        name = free(kind if kind in TIME_TYPES else f"folder_{depth + 1}", [*names, *taken])
    else:
        name = free(as_identifier(level.name), names)
    begin = "" if level.name is None else f"{level.name}="
    pieces = f"{{{name}}}"
    values = level.values
    if (compact := _compact(level)) is not None:
        kind, values = compact
        name = name if level.name is not None else free(kind, [*names, *taken])
        pieces = "".join(pieces_of(name, kind))
    if (weeks := _weeks(level.values, level.name)) is not None:
        kind, (mark, values) = "week", weeks
        pieces = f"{{{name}}}" if mark == "-W" else mark.join(pieces_of(name, kind))
    return SeenColumn(
        name, kind, begin + pieces, values, range(depth, depth + 1), level.has_null, is_named=level.name is not None
    )


def _week_of_year(
    levels: Sequence[_Level], paths: Sequence[Sequence[str]], depth: int, taken: Sequence[str]
) -> SeenColumn | None:
    """Return the week whose year is one folder, and whose number is the next, as in `2026/W07`."""
    year, week = levels[depth], levels[depth + 1] if depth + 1 < len(levels) else None
    _, names, form = _PARTS[0]
    if week is None or year.has_null or week.has_null or (year.name is not None and year.name.lower() not in names):
        return None
    texts = {"".join(_Level.of({path[level]}).values[0] for level in (depth, depth + 1)) for path in paths}
    if not all(map(form.fullmatch, year.values)) or (weeks := _weeks(sorted(texts), week.name)) is None:
        return None
    name, (mark, values) = free("week", taken), weeks
    begins = ["" if level.name is None else f"{level.name}=" for level in (year, week)]
    layout = begins[0] + f"/{begins[1]}{mark}".join(pieces_of(name, "week"))
    return SeenColumn(name, "week", layout, values, range(depth, depth + 2), is_named=False)


def _weeks(texts: Sequence[str], name: str | None) -> tuple[str, tuple[str, ...]] | None:
    """Return what is between the year and the week in all texts, and the weeks; None if they are none.

    Without `W` in the texts, the name of the column says that they are weeks.
    """
    matches = [match for match in map(_WEEK.fullmatch, texts) if match]
    weeks = tuple(f"{match[1]}-W{match[3]}" for match in matches)
    marks = {match[2] for match in matches}
    is_week = len(marks) == 1 and ("W" in min(marks) or (name is not None and _OF_WEEKS.fullmatch(name.lower())))
    if not is_week or len(matches) < len(texts) or not all(_is_time(TIME_TYPES["week"], week) for week in weeks):
        return None
    return marks.pop(), weeks


def _time_in_parts(
    levels: Sequence[_Level], paths: Sequence[Sequence[str]], depth: int, taken: Sequence[str]
) -> SeenColumn | None:
    """Return the time whose parts are folders of their own, from this depth on."""
    pieces = []
    for (part, names, form), level in zip(_PARTS, levels[depth:], strict=False):
        is_named = level.name is None or level.name.lower() in names
        if not is_named or level.has_null or not level.values or not all(map(form.fullmatch, level.values)):
            break
        pieces.append((part, "" if level.name is None else f"{level.name}="))
    if len(pieces) < 2:
        return None
    kind = KINDS[len(pieces)]
    name = free(kind, taken)
    levels_of = range(depth, depth + len(pieces))
    values = {"-".join(_Level.of({path[level]}).values[0] for level in levels_of) for path in paths}
    layout = "/".join(f"{begin}{{{name},,{part}}}" for part, begin in pieces)
    return SeenColumn(name, kind, layout, tuple(sorted(values)), levels_of, is_named=False)


def _date_and_hour(
    levels: Sequence[_Level], paths: Sequence[Sequence[str]], depth: int, taken: Sequence[str]
) -> SeenColumn | None:
    """The hour whose date is one folder, and whose hour of the day is the next, as in `date=2026-02-11/hour=05`."""
    day, hour = levels[depth], levels[depth + 1] if depth + 1 < len(levels) else None
    _, names, form = _PARTS[3]
    if hour is None or hour.has_null or day.has_null or (hour.name is not None and hour.name.lower() not in names):
        return None
    kind, days = _compact(day) or (_type(day.values), day.values)
    if kind != "date" or not all(map(form.fullmatch, hour.values)):
        return None
    name = free("hour", taken)
    *parts, last = pieces_of(name, "hour")
    begins = ["" if level.name is None else f"{level.name}=" for level in (day, hour)]
    layout = f"{begins[0]}{('' if _compact(day) else '-').join(parts)}/{begins[1]}{last}"
    written = dict(zip(day.values, days, strict=True))
    values = {
        f"{written[_Level.of({path[depth]}).values[0]]}-{_Level.of({path[depth + 1]}).values[0]}" for path in paths
    }
    return SeenColumn(name, "hour", layout, tuple(sorted(values)), range(depth, depth + 2), is_named=False)


def _compact(level: _Level) -> tuple[PartitionType, tuple[str, ...]] | None:
    """Return the type and the values of times without hyphens; None if the folders are none."""
    for kind, form in _COMPACT.items():
        is_number = kind == "month" and level.name is not None and not _OF_MONTHS.fullmatch(level.name.lower())
        matches = [form.fullmatch(value) for value in level.values]
        if matches and not is_number and all(matches):
            return kind, tuple("-".join(match.groups()) for match in matches if match)
    return None


def pieces_of(name: str, kind: PartitionType) -> list[str]:
    """Return the parts of a time in a layout, such as `{date,,YYYY}`."""
    return [f"{{{name},,{part.replace('YY', 'YYYY')}}}" for part in TIME_TYPES[kind].parts]


def refined(layout: str, coarse: SeenColumn, fine: SeenColumn) -> str:
    """Return the layout with the parts of another time in the folders of a coarser one, such as a month's."""
    parts = "-".join(pieces_of(fine.name, coarse.type))
    text = coarse.layout.replace(f"{{{coarse.name}}}", parts).replace(f"{{{coarse.name},,", f"{{{fine.name},,")
    return layout.replace(coarse.layout, text)


def is_part_of_time(name: str) -> bool:
    """Return whether the name is that of a month, a week, a day or an hour, of which others follow in time."""
    return any(name.lower() in names for _, names, _ in _PARTS[1:]) or _OF_WEEKS.fullmatch(name.lower()) is not None


def _type(values: Sequence[str]) -> PartitionType:
    """Return the narrowest type that all values have."""
    for kind in (TIME_TYPES["hour"], TIME_TYPES["date"], TIME_TYPES["month"]):
        if values and all(_is_time(kind, value) for value in values):
            return kind.name
    if _weeks(values, None):
        return "week"
    return "integer" if values and all(map(_INTEGER.fullmatch, values)) else "string"


def _is_time(kind: TimeType, value: str) -> bool:
    try:
        return kind.text(kind.start(value)) == value
    except ValueError:
        return False


def _is_year(level: _Level) -> bool:
    is_named = level.name is None or level.name.lower() in _PARTS[0][1]
    return is_named and all(int(value) in _YEARS for value in level.values)


_TIME = re.compile(
    r"(?<![0-9])((?:19|20)[0-9]{2})([-_.]?)(0[1-9]|1[0-2])"
    r"(?:\2(0[1-9]|[12][0-9]|3[01])(?:(T|\2(?<![_.]))([01][0-9]|2[0-3])(?!-?[0-9]{2}))?)?"
    r"(?=(?:[0-9]{4}|[0-9]{6})?(?![0-9]))"  # the time of the day, to the minute or second, varies
)
_WEEK_IN_NAME = re.compile(r"(?<![0-9])((?:19|20)[0-9]{2})(-?W)(0[1-9]|[1-4][0-9]|5[0-3])(?![0-9])")
_SEPARATOR = re.compile(r"([-_. ]+)")
_WORDS = re.compile(r"[^\W\d_]+(?:[-_. ]+[^\W\d_]+)*")


@dataclass(frozen=True, slots=True)
class _Name:
    """A file's name around its time."""

    before: str
    value: str  # as the time's type writes it
    marks: tuple[str, ...]  # between the parts of the time
    behind: str


def _named(names: Sequence[str]) -> Iterator[_Name]:
    for name in names:
        if (match := _WEEK_IN_NAME.search(name)) is not None:
            yield _Name(name[: match.start()], f"{match[1]}-W{match[3]}", (match[2],), name[match.end() :])
        elif (match := _TIME.search(name)) is not None:
            parts = [part for part in match.group(1, 3, 4, 6) if part]
            value = "-".join(parts)
            with suppress(ValueError):  # 30 February
                TIME_TYPES[KINDS[len(parts)]].start(value)
                marks = match.group(2, 2, 5)[: len(parts) - 1]
                yield _Name(name[: match.start()], value, marks, name[match.end() :])


def columns_of_names(names: Sequence[str], depth: int, taken: Sequence[str]) -> tuple[list[SeenColumn], str] | None:
    """Return the columns of files' names and the pattern of the names; None if most have no time of one form.

    A part that varies is a column if it consists of words, else `*`. A part with digits behind the time is `*` too,
    because it may be the first of several.
    """
    all_named = list(_named(names))
    marks = next((form for form, _ in Counter(name.marks for name in all_named).most_common(1)), ())
    known = [name for name in all_named if name.marks == marks]
    if 2 * len(known) <= len(names):
        return None
    kind: PartitionType = "week" if "W" in "".join(marks) else KINDS[len(marks) + 1]
    seen: list[SeenColumn] = []
    text = ""
    is_behind = False
    for values in [*_parts([name.before for name in known]), None, *_parts([name.behind for name in known])]:
        is_first = not re.search("[{*]", text)
        levels = range(depth + (not is_first), depth + 1 + (not is_first))
        used = [*(column.name for column in seen), *taken]
        if values is None:
            name = free(kind, used)
            parts = pieces_of(name, kind)
            layout = "".join(f"{part}{mark}" for part, mark in zip(parts, (*marks, ""), strict=True))
            is_behind = True
            if is_first and {*marks} == {"-"} and {name.behind[:1] for name in known} in ({"_"}, {"."}):
                layout = f"{{{name}}}"
            times = tuple(sorted({name.value for name in known}))
            seen.append(SeenColumn(name, kind, layout, times, levels, is_named=False))
        elif len(set(values)) == 1 and not (is_behind and re.search("[0-9]", values[0])):
            layout = values[0]
        elif all(map(_WORDS.fullmatch, values)):
            name = free(f"name_{len(seen) + 1}", used)
            layout = f"{{{name}}}"
            seen.append(SeenColumn(name, "string", layout, tuple(sorted(set(values))), levels, is_named=False))
        else:
            layout = "*"
        text += layout
    return seen, text


def _parts(texts: Sequence[str]) -> list[Sequence[str]]:
    """Return the parts of texts, each with its text in all of them: those between separators, if all have the same."""
    split = [_SEPARATOR.split(text) for text in texts]
    if len({tuple(parts[1::2]) for parts in split}) == 1:
        return list(zip(*split, strict=True))
    head = _common_length(split)
    tail = _common_length([parts[head:][::-1] for parts in split])
    middle = ["".join(parts[head : len(parts) - tail]) for parts in split]
    ends = [parts[len(parts) - tail :] for parts in split]
    return [*zip(*(parts[:head] for parts in split), strict=True), middle, *zip(*ends, strict=True)]


def _common_length(lists: Sequence[Sequence[str]]) -> int:
    """Return how many first items are the same in all lists."""
    columns_of_names = list(zip(*lists, strict=False))
    return next((number for number, texts in enumerate(columns_of_names) if len(set(texts)) > 1), len(columns_of_names))

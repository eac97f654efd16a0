"""What the names of files say if they have a time: columns, their types, and the pattern of the names."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from lake_assets.importers.folders import KINDS, Column, free, pieces_of
from lake_assets.layout.partition import PartitionType
from lake_assets.layout.times import TIME_TYPES

_TIME = re.compile(
    r"(?<![0-9])((?:19|20)[0-9]{2})([-_.]?)(0[1-9]|1[0-2])"
    r"(?:\2(0[1-9]|[12][0-9]|3[01])(?:(T|\2(?<![_.]))([01][0-9]|2[0-3])(?!-?[0-9]{2}))?)?"
    r"(?=(?:[0-9]{4}|[0-9]{6})?(?![0-9]))"  # the time of the day, to the minute or second, varies
)
_WEEK = re.compile(r"(?<![0-9])((?:19|20)[0-9]{2})(-?W)(0[1-9]|[1-4][0-9]|5[0-3])(?![0-9])")
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
        if (match := _WEEK.search(name)) is not None:
            yield _Name(name[: match.start()], f"{match[1]}-W{match[3]}", (match[2],), name[match.end() :])
        elif (match := _TIME.search(name)) is not None:
            parts = [part for part in match.group(1, 3, 4, 6) if part]
            value = "-".join(parts)
            with suppress(ValueError):  # 30 February
                TIME_TYPES[KINDS[len(parts)]].start(value)
                marks = match.group(2, 2, 5)[: len(parts) - 1]
                yield _Name(name[: match.start()], value, marks, name[match.end() :])


def columns(names: Sequence[str], depth: int, taken: Sequence[str]) -> tuple[list[Column], str] | None:
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
    found: list[Column] = []
    text = ""
    is_behind = False
    for values in [*_parts([name.before for name in known]), None, *_parts([name.behind for name in known])]:
        is_first = not re.search("[{*]", text)
        levels = range(depth + (not is_first), depth + 1 + (not is_first))
        used = [*(column.name for column in found), *taken]
        if values is None:
            name = free(kind, used)
            parts = pieces_of(name, kind)
            layout = "".join(f"{part}{mark}" for part, mark in zip(parts, (*marks, ""), strict=True))
            is_behind = True
            if is_first and {*marks} == {"-"} and {name.behind[:1] for name in known} in ({"_"}, {"."}):
                layout = f"{{{name}}}"
            times = tuple(sorted({name.value for name in known}))
            found.append(Column(name, kind, layout, times, levels, is_named=False))
        elif len(set(values)) == 1 and not (is_behind and re.search("[0-9]", values[0])):
            layout = values[0]
        elif all(map(_WORDS.fullmatch, values)):
            name = free(f"name_{len(found) + 1}", used)
            layout = f"{{{name}}}"
            found.append(Column(name, "string", layout, tuple(sorted(set(values))), levels, is_named=False))
        else:
            layout = "*"
        text += layout
    return found, text


def _parts(texts: Sequence[str]) -> list[Sequence[str]]:
    """Return the parts of texts, each with its text in all of them: those between separators, if all have the same."""
    split = [_SEPARATOR.split(text) for text in texts]
    if len({tuple(parts[1::2]) for parts in split}) == 1:
        return list(zip(*split, strict=True))
    head = _equal(split)
    tail = _equal([parts[head:][::-1] for parts in split])
    middle = ["".join(parts[head : len(parts) - tail]) for parts in split]
    ends = [parts[len(parts) - tail :] for parts in split]
    return [*zip(*(parts[:head] for parts in split), strict=True), middle, *zip(*ends, strict=True)]


def _equal(lists: Sequence[Sequence[str]]) -> int:
    """Return how many first items are the same in all lists."""
    columns = list(zip(*lists, strict=False))
    return next((number for number, texts in enumerate(columns) if len(set(texts)) > 1), len(columns))

"""The parser of layout templates. Errors show the position with a caret.

    template     segments, separated by `/`; one `/` at either end is ignored
    segment      static texts and placeholders in any order
    placeholder  `{column}`, `{column,default}` or `{column,default,granularity}`; blanks around a field are ignored
    column       a column's name, or `now()`: the time of the run
    granularity  YY or YYYY, MM, WW, DD, HH, or nothing

A column or default with `,`, `{`, `}`, parentheses or blanks at its ends is written in single quotes, and a single
quote in it is doubled. Except for the quotes, the grammar is that of OLake's `partition_regex`.

The name of a file is a segment without `now()`; a `*` in it is text that varies. It ends in a text or `*`.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from lake_assets.base.errors import LayoutError
from lake_assets.base.texts import nearest, with_caret
from lake_assets.config.layout.hive import HIVE_NULL, escape_characters
from lake_assets.config.layout.times import GRANULARITIES, Granularity, has_iso_year

NOW = "now()"

_FIELD = re.compile(r"\s*(?:'(?P<quoted>(?:[^']|'')*)'\s*|(?P<plain>[^,{}]*))(?P<end>[,{}]|$)")
_HEXADECIMAL = "0123456789ABCDEF%"


@dataclass(frozen=True, slots=True)
class Static:
    """Text that every path has unchanged, including the slashes between segments."""

    text: str


@dataclass(frozen=True, slots=True)
class Placeholder:
    """A part of the path that is filled from a column or from the time of the run."""

    column: str  # the column's name; `now()` for the time of the run
    null: str  # the text for NULL, encoded
    granularity: Granularity | None  # the part of a timestamp; None for the whole value
    start: int
    end: int
    is_now: bool = False  # it is filled from the time of the run
    optional: bool = False  # it has a default, so rows may lack the column
    # The partition column: the column's name, or for `now()` the `name` of its segment `name={now(),…}`; None for
    # `now()` in another segment
    name: str | None = None
    separator: str = ""  # the character that follows the value; encoded in the value
    iso_year: bool = False  # the column's year is that of its week
    bare: bool = False  # its segment has no other text than dots, so a value of dots could make the folder `.` or `..`
    may_be_empty: bool = False  # the text in a path may be empty, and is then the value's text
    keeps_empty: bool = False  # an empty value is written as an empty text; otherwise as NULL

    @property
    def is_wildcard(self) -> bool:
        """Whether it is a `*` in the name of a file."""
        return self.name is None and not self.is_now


Part = Static | Placeholder


def _error(text: str, at: int, problem: str, hint: str) -> LayoutError:
    """Return the error at a position of the template, with a caret under it."""
    return LayoutError(f"the layout template is malformed: {problem}\n{with_caret(text, at)}", hint)


def parse_template(text: str) -> tuple[Part, ...]:
    """Return the parts of a template's text; the slashes between segments are static text."""
    if not text.strip("/"):
        raise _error(text, 0, "it is empty:", "name the partition columns, as in region={region}/date={date}.")
    start = 1 if text.startswith("/") else 0
    end = len(text) - 1 if text.endswith("/") else len(text)
    segments: list[list[Part]] = []
    names: dict[str, int] = {}
    while start <= end:
        parts, until = _segment(text, start, end)
        parts = _with_separators(text, with_now_name(parts))
        _check_names(text, parts, names, len(segments) + 1)
        segments.append(parts)
        start = until + 1
    return with_iso_years(with_slashes(segments))


def parse_file(text: str) -> tuple[Part, ...]:
    """Return the parts of a file's name with values, such as `sales_{date}_*.parquet`."""
    parts, end = _segment(text, 0, len(text), is_file=True)
    if end < len(text):
        raise _error(text, end, "the name of a file has no folders:", "write the folders as `layout`")
    if now := next((part for part in parts if isinstance(part, Placeholder) and part.is_now), None):
        raise _error(text, now.start, f"{NOW} is for folders:", "write * for the time in the name of a file")
    if isinstance(last := parts[-1], Placeholder) and not last.is_wildcard:
        raise _error(text, last.end, "the name ends in a value:", "write the text behind it, such as .parquet, or *")
    return tuple(_with_separators(text, parts, is_file=True))


def with_iso_years(parts: Sequence[Part]) -> tuple[Part, ...]:
    """Return the parts, those of a column's year with the year of its week if it has a week and no month."""
    granularities: dict[str | None, set[Granularity]] = {}
    for part in parts:
        if isinstance(part, Placeholder) and part.granularity:
            granularities.setdefault(part.name, set()).add(part.granularity)
    return tuple(
        replace(part, iso_year=has_iso_year(granularities.get(part.name, ())))
        if isinstance(part, Placeholder)
        else part
        for part in parts
    )


def folder_parts(parts: Iterable[Part]) -> list[list[Part]]:
    """Return the parts of each folder of a path; none for a folder without a name."""
    result: list[list[Part]] = [[]]
    for part in parts:
        if isinstance(part, Placeholder):
            result[-1].append(part)
            continue
        first, *others = part.text.split("/")
        result[-1] += [Static(first)] if first else []
        result += [[Static(name)] if name else [] for name in others]
    return result


def with_slashes(folders: Iterable[Sequence[Part]]) -> tuple[Part, ...]:
    """Return the parts of these folders with a slash between two, and neighbouring static texts joined."""
    result: list[Part] = []
    for part in [part for folder in folders for part in (Static("/"), *folder)][1:]:
        if isinstance(part, Static) and result and isinstance(result[-1], Static):
            result[-1] = Static(result[-1].text + part.text)
        else:
            result.append(part)
    return tuple(result)


def _segment(text: str, start: int, end: int, *, is_file: bool = False) -> tuple[list[Part], int]:
    """Return the parts of the segment that begins at `start`, and its end."""
    parts: list[Part] = []
    at = static = start
    while at < end and text[at] != "/":
        if text[at] == "{" or (is_file and text[at] == "*"):
            if static < at:
                parts.append(Static(text[static:at]))
            wildcard = Placeholder("*", "*", None, at, at + 1, optional=True)
            parts.append(placeholder := _placeholder(text, at) if text[at] == "{" else wildcard)
            at = static = placeholder.end
        else:
            _check_static(text, at, static if parts else at, is_file=is_file)
            at += 1
    if static < at:
        parts.append(Static(text[static:at]))
    if not parts:
        raise _error(text, at, "a folder has no name:", "write one / between two folders.")
    if len(parts) == 1 and parts[0] in (Static("."), Static("..")):
        raise _error(
            text, start, "a layout has no . and .. folders:", "write folders below the source, without . and .."
        )
    return parts, at


def _check_static(text: str, at: int, since: int, *, is_file: bool) -> None:
    """Refuse a character of static text; `since` is the end of the placeholder before it."""
    character = text[at]
    if character == "}" and text[since] == ",":
        placeholder = text[text.rindex("{", 0, since) : since - 1] + text[since : at + 1]
        raise _error(text, since - 1, "this bracket closes too early:", f"write {placeholder}")
    if character == "}":
        raise _error(text, at, "this bracket closes nothing:", "remove it, or write {column,default,granularity}")
    if character < " " or character in "\\\x7f":
        raise _error(text, at, "a path may not have this character:", "remove it, / separates folders")
    if character in "?[]" and is_file:
        raise _error(text, at, "beside values, a pattern has no ? and [ ]:", "write * for text that varies")
    if character in "*?[]":
        raise _error(text, at, "a layout is not a file pattern:", "name the column that varies, as in region={region}")


def _placeholder(text: str, start: int) -> Placeholder:
    fields: list[tuple[str, int, bool]] = []
    at = start + 1
    while True:
        match = _FIELD.match(text, at)
        assert match is not None  # noqa: S101 - the pattern fits every text
        quoted = match["quoted"] is not None
        value = match["quoted"].replace("''", "'") if quoted else match["plain"].strip()
        first = match.start("quoted") - 1 if quoted else match.start("plain")
        if not quoted and value.startswith("'"):
            raise _error(
                text, first, "this quote is not closed:", "close it before } or a comma, and write ' in it twice"
            )
        if len(fields) == 3:
            raise _error(text, at - 1, "a placeholder has three fields:", "write {column,default,granularity}")
        fields.append((value, first, quoted))
        at = match.end()
        if match["end"] == "}":
            return _from_fields(text, start, at, fields)
        if match["end"] != ",":
            raise _error(text, start, "this bracket is not closed:", "write {column,default,granularity}")


def _from_fields(text: str, start: int, end: int, fields: list[tuple[str, int, bool]]) -> Placeholder:
    column, at, quoted = fields[0]
    if not column:
        raise _error(text, at, "the column's name is missing:", "write {column} or {now(),,YY}")
    is_now = column == NOW and not quoted
    if not is_now and not quoted and (bracket := re.search(r"[()]", column)):
        position = at + bracket.start()
        raise _error(text, position, f"the only function is {NOW}:", f"write {{{NOW},,YY}}")
    granularity = _granularity(text, *fields[2]) if len(fields) == 3 else None
    if is_now and granularity is None:
        raise _error(text, at, f"{NOW} needs a granularity:", f"write {{{NOW},,YY}}, with YY, MM, WW, DD or HH")
    null = HIVE_NULL
    if len(fields) > 1:
        default = fields[1][0] or column
        null = default if default.startswith("default_") else f"default_{default}"
    return Placeholder(
        column, null, granularity, start, end, is_now=is_now, optional=len(fields) > 1, name=None if is_now else column
    )


def _granularity(text: str, word: str, at: int, quoted: bool) -> Granularity | None:
    if not word:
        return None
    for name in GRANULARITIES:
        if not quoted and (word == name or (name == "YY" and word == "YYYY")):
            return name
    near = nearest(word, [*GRANULARITIES, "YYYY"], most=1)
    hint = f"write {near[0]}" if near else "write YY, MM, WW, DD or HH, or leave it out"
    raise _error(text, at, f"there is no granularity {word!r}:", hint)


def with_now_name(parts: list[Part]) -> list[Part]:
    """Return the parts of a segment; in `name={now(),…}` the placeholders get the name."""
    match parts:
        case [Static(text), *_] if re.fullmatch("[^=]+=", text):
            if all(part.is_now for part in parts if isinstance(part, Placeholder)):
                return [replace(part, name=text[:-1]) if isinstance(part, Placeholder) else part for part in parts]
    return parts


def _check_names(text: str, parts: list[Part], names: dict[str, int], segment: int) -> None:
    """Refuse a name with two sources: a column, or the `now()` of a segment. `names` are those of earlier segments."""
    for part in parts:
        if isinstance(part, Placeholder) and part.name is not None:
            source = segment if part.is_now else 0
            if names.setdefault(part.name, source) != source:
                raise _error(text, part.start, f"two values are named {part.name!r}:", "give the folder another name")


def _with_separators(text: str, parts: list[Part], *, is_file: bool = False) -> list[Part]:
    """Return the parts of a segment, each placeholder with the character that separates it from the next one.

    In the name of a file, a value needs none if all that follows has one length: it ends where that begins.
    """
    result = list(parts)
    bare = not "".join(part.text for part in parts if isinstance(part, Static)).strip(".")
    for index, part in enumerate(parts):
        if isinstance(part, Placeholder):
            separator = _separator(text, part, parts[index + 1 : index + 3]) if part.granularity is None else ""
            if part.is_wildcard:
                continue
            behind = [following for following in parts[index + 1 :] if isinstance(following, Placeholder)]
            if is_file and all(value.granularity and not value.null[-1:].isdigit() for value in behind):
                separator = ""
            null = escape_characters(part.null, also=separator)
            result[index] = replace(part, null=null, separator=separator, bare=bare)
    return result


def _separator(text: str, part: Placeholder, following: Sequence[Part]) -> str:
    match following:
        case [Placeholder() as placeholder, *_]:
            raise _error(
                text, placeholder.start, "nothing separates these two values:", "put a text between, such as -"
            )
        case [Static() as between, Placeholder()]:
            # Not a character that an encoded character consists of.
            if separator := next((character for character in between.text if character not in _HEXADECIMAL), ""):
                return separator
            hint = "put a character between them that is not a digit, A to F or %, such as -"
            raise _error(text, part.end, "this text does not mark the end of a value:", hint)
    return ""


def quoted(name: str) -> str:
    """Return the column's name as a placeholder has it, in quotes if it needs them."""
    if name and not re.search(r"^[\s']|[,{}()]|\s$", name):
        return name
    return "'" + name.replace("'", "''") + "'"

r"""Hive's encoding of partition values in paths, as Spark reads and writes it.

Source of the rule: `ExternalCatalogUtils.escapePathName` of Spark 4 (the same characters as Hive's
`FileUtils`): control characters, ``"#%'*/:=?\{[]^`` and DEL become `%XX`; other characters are unchanged, also
non-English letters. NULL and the empty string have the same name, `__HIVE_DEFAULT_PARTITION__`.

Other writers encode other characters. All of them are read, as `SPELLINGS` lists them.
"""

import re
from functools import lru_cache
from urllib.parse import quote, unquote

from lake_assets.errors import LayoutError

HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"

_ESCAPED = r"""\x00-\x1f"#%'*/:=?\\\x7f{\[\]^"""
_UNRESERVED = re.compile("[A-Za-z0-9_.~-]*")

SPELLINGS = (
    _ESCAPED,
    r"\x00-,/:-@\[-\^`{-}\x7f-\U0010ffff",  # DuckDB, pyarrow and pandas: all but unreserved characters of URIs
    r"\x00-\x20%/:=\x7f-\U0010ffff",  # polars
    "/",  # writers that encode nothing
)
"""The characters that writers encode, each as a class of a regular expression; Hive's and Spark's first.

Read off folders that DuckDB 1.5.5, pyarrow 26, pandas 2.3 and polars 2.1 wrote, with each character of ASCII.
"""


def percent(character: str) -> str:
    """Return the character as `%XX`, one for each byte of its UTF-8 form; also letters and digits."""
    # `quote` never encodes letters, digits and `_.-~`.
    return quote(character, safe="") if not character.isascii() else f"%{ord(character):02X}"


def escape(value: str) -> str:
    """Return the value as the name of one folder, or as a part of it.

    Unlike in Spark, `.` and `..` are encoded, so that they are safe as names of folders. An empty text is written as
    NULL.
    """
    if not value:
        return HIVE_NULL
    if value in {".", ".."}:
        return value.replace(".", "%2E")
    return escape_characters(value)


def escape_characters(value: str, *, also: str = "", spelling: str = _ESCAPED) -> str:
    """Return the value with the characters of a spelling and those of `also` encoded; by default as Spark writes it."""
    return _pattern(spelling, also).sub(lambda match: percent(match[0]), value)


@lru_cache(256)
def _pattern(spelling: str, also: str) -> re.Pattern[str]:
    return re.compile(f"[{spelling}{re.escape(also)}]")


def spellings(value: str) -> tuple[str, ...]:
    """Return the `SPELLINGS` by which folders of this value differ; only Hive's if no character is encoded."""
    if _UNRESERVED.fullmatch(value):
        return SPELLINGS[:1]
    texts: dict[str, str] = {}
    for spelling in SPELLINGS:
        texts.setdefault(escape_characters(value, spelling=spelling), spelling)
    return tuple(spelling for text, spelling in texts.items() if unquote(text) == value)


def unescape(text: str) -> str:
    """Return the value that `escape` encoded; a percent sign without two hexadecimal digits is unchanged.

    Some writers encode non-English letters, in UTF-8; Spark and Hive do not. Other bytes are a LayoutError.
    """
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError as error:
        raise LayoutError(f"{text!r} is percent-encoded, but not in UTF-8:", "rename the folder.") from error

r"""Hive's encoding of partition values in paths, as Spark reads and writes it.

Source of the rule: `ExternalCatalogUtils.escapePathName` of Spark 4 (the same characters as Hive's
`FileUtils`): control characters and ``"#%'*/:=?\{[]^`` and DEL become `%XX`; all else stays, non-English
letters too. NULL and the empty string are one name, `__HIVE_DEFAULT_PARTITION__`.
"""

import re
from urllib.parse import quote, unquote

from lake_assets.errors import LayoutError

HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"

_ESCAPED = r"""\x00-\x1f"#%'*/:=?\\\x7f{\[\]^"""
_PATTERN = re.compile(f"[{_ESCAPED}]")


def percent(character: str) -> str:
    """The character as `%XX`, one for each byte of its UTF-8 form; letters and digits too."""
    # `quote` leaves letters, digits and `_.-~` as they are, whatever it is told.
    return quote(character, safe="") if not character.isascii() else f"%{ord(character):02X}"


def escape(value: str, *, also: str = "") -> str:
    """The value as it may stand in the name of one folder; no value makes a second folder, or climbs.

    `.` and `..` are encoded, which Spark does not do, so that they are safe as whole names of folders.

    Args:
        value: any text; the empty one is written as NULL is.
        also: further characters to encode, such as one that parts two values of a name.
    """
    if not value:
        return HIVE_NULL
    if value in {".", ".."}:
        return value.replace(".", "%2E")
    return escape_characters(value, also=also)


def escape_characters(value: str, *, also: str = "") -> str:
    """The value with Hive's characters and those of `also` encoded, and nothing else: what Spark writes."""
    pattern = re.compile(f"[{_ESCAPED}{re.escape(also)}]") if also else _PATTERN
    return pattern.sub(lambda match: percent(match[0]), value)


def unescape(text: str) -> str:
    """The value that `escape` encoded; a percent sign without two hexadecimal digits stands for itself.

    Writers that encode non-English letters do it in UTF-8 (Spark and Hive leave them as they are).

    Raises:
        LayoutError: the encoded bytes are not UTF-8.
    """
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError as error:
        raise LayoutError(f"{text!r} is percent-encoded, but not in UTF-8:", "rename the folder.") from error

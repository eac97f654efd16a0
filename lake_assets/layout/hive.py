r"""Hive's encoding of partition values in paths, as Spark reads and writes it.

Source of the rule: `ExternalCatalogUtils.escapePathName` of Spark 4 (the same characters as Hive's
`FileUtils`): control characters, ``"#%'*/:=?\{[]^`` and DEL become `%XX`; other characters are unchanged, also
non-English letters. NULL and the empty string have the same name, `__HIVE_DEFAULT_PARTITION__`.
"""

import re
from urllib.parse import quote, unquote

from lake_assets.errors import LayoutError

HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"

_ESCAPED = r"""\x00-\x1f"#%'*/:=?\\\x7f{\[\]^"""
_PATTERN = re.compile(f"[{_ESCAPED}]")


def percent(character: str) -> str:
    """The character as `%XX`, one for each byte of its UTF-8 form; also letters and digits."""
    # `quote` never encodes letters, digits and `_.-~`.
    return quote(character, safe="") if not character.isascii() else f"%{ord(character):02X}"


def escape(value: str, *, also: str = "") -> str:
    """The value as the name of one folder, or as a part of it.

    Unlike in Spark, `.` and `..` are encoded, so that they are safe as names of folders.

    Args:
        value: any text; the empty text is written as NULL.
        also: further characters to encode, such as the separator of two values.
    """
    if not value:
        return HIVE_NULL
    if value in {".", ".."}:
        return value.replace(".", "%2E")
    return escape_characters(value, also=also)


def escape_characters(value: str, *, also: str = "") -> str:
    """The value with Hive's characters and those of `also` encoded, as Spark writes it."""
    pattern = re.compile(f"[{_ESCAPED}{re.escape(also)}]") if also else _PATTERN
    return pattern.sub(lambda match: percent(match[0]), value)


def unescape(text: str) -> str:
    """The value that `escape` encoded; a percent sign without two hexadecimal digits is unchanged.

    Some writers encode non-English letters, in UTF-8; Spark and Hive do not.

    Raises:
        LayoutError: the encoded bytes are not UTF-8.
    """
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError as error:
        raise LayoutError(f"{text!r} is percent-encoded, but not in UTF-8:", "rename the folder.") from error

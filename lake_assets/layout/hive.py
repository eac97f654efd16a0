"""Hive's encoding of partition values in paths, as Spark reads and writes it.

Source of the rule: `ExternalCatalogUtils.escapePathName` of Spark 4 (the same characters as Hive's
`FileUtils`): control characters and ``"#%'*/:=?\\{[]^`` and DEL become `%XX`; all else stays, non-English
letters too. NULL and the empty string are one name, `__HIVE_DEFAULT_PARTITION__`.
"""

import re
from urllib.parse import unquote

from lake_assets.errors import LayoutError

HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"

_ESCAPED = re.compile(r"""[\x00-\x1f"#%'*/:=?\\\x7f{\[\]^]""")


def escape(value: str) -> str:
    """The value as a folder name may carry it; `.` and `..` are encoded too, so that no value climbs."""
    if value in {".", ".."}:
        return value.replace(".", "%2E")
    return _ESCAPED.sub(lambda m: f"%{ord(m[0]):02X}", value)


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

r"""Hive's encoding of partition values in paths, as Spark reads and writes it.

Source of the rule: `ExternalCatalogUtils.escapePathName` of Spark 4 (the same characters as Hive's
`FileUtils`): control characters, ``"#%'*/:=?\{[]^`` and DEL become `%XX`; other characters are unchanged, also
non-English letters. NULL and the empty string have the same name, `__HIVE_DEFAULT_PARTITION__`.

Other writers encode other characters. All of them are read, as `SPELLINGS` lists them.
"""

import fnmatch
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from urllib.parse import quote, unquote

from lake_assets.base.errors import LayoutError
from lake_assets.base.texts import is_unicode

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


# Folders in which engines, and dead letters of this package, keep what is not data, also where a value is a whole name.
RESERVED = re.compile(
    r"_temporary|_delta_log|_spark_metadata|_dead_letters|_change_data|__magic|\.hoodie|\.hive-staging.*"
    r"|\.spark-staging.*",
    re.DOTALL,
)

# Folders that a file system has at its root, which may be that of a landing zone; most refuse to be read.
_OF_THE_SYSTEM = {"lost+found", "System Volume Information", "$RECYCLE.BIN"}
_ODD = {"", ".", ".."}
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")

# Folders with the log of a table of another format, in the table's own folder.
LOGS = ("_delta_log/", ".hoodie/", "metadata/")
_LOG = re.compile(
    r"((?:[^/]+/)*?)(?:(?P<Delta>_delta_log)/[0-9]{20}\..+|(?P<Hudi>\.hoodie)/hoodie\.properties"
    r"|(?P<Iceberg>metadata)/[^/]+\.metadata\.json(?:\.gz)?)",
    re.DOTALL,
)

# Suffixes that tools add to a name: of an unfinished upload or download, of a backup, of a checksum; and of an object
# that Hadoop and EMR write as the marker of a folder.
_TRAILING = re.compile(
    r".+?(~|_\$folder\$|\.(?:filepart|part|partial|tmp|temp|crdownload|opdownload|download|upload|uploading|inprogress|in-progress"
    r"|incomplete|writing|_copying_|lock|swp|bak|backup|orig|old|md5|sha1|sha256|sha512|crc|crc32|sfv|asc|sig))",
    re.DOTALL | re.IGNORECASE,
)


def side_suffix(name: str, files: str) -> str:
    """Return the suffix by which a file is unfinished, a backup or a checksum; empty if it has none, or `files` has."""
    match = _TRAILING.fullmatch(name)
    return "" if match is None or files.lower().endswith(match[1].lower()) else match[1]


def logged_table(key: str) -> tuple[str, str] | None:
    """Return the folder (ending in a slash, empty for the root) and the format of the table whose log has this key."""
    match = _LOG.fullmatch(key)
    return match and (match[1], match.lastgroup or "")


def is_odd(key: str) -> bool:
    """Return whether no client reads an object of this name.

    A part of it is empty, `.` or `..`, or it has a control character or bytes that are not UTF-8.
    """
    parts = key.split("/")
    return not _ODD.isdisjoint(parts) or _CONTROL.search(key) is not None or not is_unicode(key)


def is_reserved(name: str) -> bool:
    """Return whether a folder of this name is never a value; such a value is written with a character encoded."""
    return RESERVED.fullmatch(name) is not None


def is_hidden(names: Iterable[str]) -> bool:
    """Return whether one of these names begins as those that Hive and Spark do not read, or is the file system's."""
    return any((name.startswith(("_", ".")) and "=" not in name) or name in _OF_THE_SYSTEM for name in names)


def is_data(below: Sequence[str], files: str) -> bool:
    """Return whether an object fits the pattern, and is not hidden, by the parts of its key below the listed folder."""
    return not is_hidden(below) and fits(below, files)


def fits(below: Sequence[str], files: str) -> bool:
    """Return whether an object fits the pattern of its file name; with a slash, all parts of its key below."""
    return _fits(below, files.lstrip("/").split("/")) if "/" in files else fnmatch.fnmatchcase(below[-1], files)


def _fits(names: Sequence[str], patterns: Sequence[str]) -> bool:
    """Return whether a path matches a pattern; both are split at slashes."""
    if not names or not patterns:
        return not names and not patterns
    if patterns[0] == "**":
        return _fits(names, patterns[1:]) or _fits(names[1:], patterns)
    return fnmatch.fnmatchcase(names[0], patterns[0]) and _fits(names[1:], patterns[1:])

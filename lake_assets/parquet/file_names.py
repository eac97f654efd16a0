"""The names of data files. A name says of which landed objects the file's rows were made.

So the catalog's list of live files tells the fingerprint of a partition's rows, and no ledger is read for it.
"""

import re
import secrets

_OF_DUCKLAKE = "ducklake-"  # with which the names begin that DuckLake gives
_MOST = 255  # bytes of a file name on most file systems

MARK = "held"  # in place of the fingerprint of a partition that refreshes leave alone; the ledger has its fingerprint

# No name that this package or DuckLake gave before ends like this: `fp` contains a letter that no hexadecimal has.
_FINGERPRINT = re.compile(r"-fp([0-9a-f]{64})\.parquet\Z")


def new_name(prefix: str, fingerprint: str | None) -> str:
    """Return a name that no other attempt of a task can have.

    The fingerprint of the landed objects, or `MARK`, is left out if it is None or the name is too long.
    """
    stem = f"{prefix}{secrets.token_hex(8)}"
    name = stem if fingerprint is None else f"{stem}-{MARK}" if fingerprint == MARK else f"{stem}-fp{fingerprint}"
    return f"{name if len(f'{name}.parquet'.encode()) <= _MOST else stem}.parquet"


def is_marked(path: str) -> bool:
    """Return whether a data file was written for a partition that was held then."""
    return path.endswith(f"-{MARK}.parquet")


def may_be_marked(path: str) -> bool:
    """Return whether a file may have rows of a partition that was held: DuckLake names files of updated rows itself."""
    return is_marked(path) or path.rpartition("/")[2].startswith(_OF_DUCKLAKE)


def named_fingerprint(path: str) -> str | None:
    """Return the fingerprint in the name of a data file; None if there is none."""
    match = _FINGERPRINT.search(path)
    return match.group(1) if match else None

"""What DuckDB, and so every reader of a DuckLake, takes from the path of a registered file."""

import re
from collections.abc import Sequence

from lake_assets.errors import LakeAssetsError
from lake_assets.layout.hive import HIVE_NULL
from lake_assets.layout.partition import PartitionColumn, PartitionValue

# DuckDB ends a value at these, or takes the folder for none of `name=value`.
_ENDS = re.compile(r"[=\\?\n]")


def says(folders: Sequence[str], column: PartitionColumn, value: PartitionValue, name: str | None = None) -> bool:
    """Whether a reader finds this value of the column in the path, as Hive writes it.

    Args:
        folders: all of the file's URI, those of the storage's root too, as they stand in it.
        column: which.
        value: what the layout reads from the same path.
        name: of the folder; the column's own when None.
    """
    wanted = name or column.name
    texts = [text for name, equals, text in (folder.partition("=") for folder in folders) if name == wanted and equals]
    if len(texts) != 1 or _ENDS.search(texts[0]):
        return False
    (text,) = texts
    if text == HIVE_NULL or value is None:
        return text == HIVE_NULL and value is None
    if text.lower() == "null":  # DuckDB reads it as NULL
        return False
    try:
        return column.parse(text) == value
    except LakeAssetsError:
        return False

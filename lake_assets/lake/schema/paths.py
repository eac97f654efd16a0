"""The values that DuckDB, and so every reader of a DuckLake, reads from the path of a registered file."""

import re
from collections.abc import Sequence

from lake_assets.errors import LakeAssetsError
from lake_assets.layout.hive import HIVE_NULL
from lake_assets.layout.partition import PartitionColumn, PartitionValue

# DuckDB ends a value at one of these, or does not read the folder as `name=value`.
_ENDS = re.compile(r"[=\\?\n]")


def is_in_path(folders: Sequence[str], column: PartitionColumn, value: PartitionValue, name: str) -> bool:
    """Whether readers find this value of the column in a folder of this name, as Hive writes it.

    Args:
        folders: all folders of the file's URI, with those of the storage's root, as written.
        column: the partition column.
        value: the value that the layout reads from the same path.
        name: of the folder.
    """
    pairs = [folder.partition("=") for folder in folders]
    texts = [text for folder_name, equals, text in pairs if folder_name == name and equals]
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

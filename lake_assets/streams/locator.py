"""The partition of an object, by its path, or the reason why it has none."""

from collections.abc import Mapping
from functools import lru_cache
from itertools import product

from lake_assets.config.streams import Stream
from lake_assets.errors import LakeAssetsError, LayoutError, PartitionError
from lake_assets.layout.hive import HIVE_NULL
from lake_assets.layout.partition import Partition
from lake_assets.layout.template import Template
from lake_assets.layout.texts import is_unicode
from lake_assets.streams.calendar import Calendar

_REMEMBERED = 65_536  # folders; a landing writer may run for months


def folder_prefixes(template: Template, path_part: Partition) -> list[str]:
    """The folders with the objects of a `Partition.path_part`, the canonical one first.

    NULL may have a second folder, with an empty value.
    """
    texts = [
        [text, ""] if value is None and column.empty == "null" else [text]
        for column, value, text in zip(path_part.columns, path_part.values, path_part.texts().values(), strict=True)
    ]
    names = [column.name for column in path_part.columns]
    return [template.prefix(dict(zip(names, combination, strict=True))) for combination in product(*texts)]


def _is_canonical(path_part: Partition, texts: Mapping[str, str]) -> bool:
    """Whether a path has its values in the form that they are written in. NULL may also be an empty text."""
    return all(
        texts[column.name] == text or (not texts[column.name] and value is None and column.empty == "null")
        for column, value, text in zip(path_part.columns, path_part.values, path_part.texts().values(), strict=True)
    )


class PartitionLocator:
    """Finds the partition of an object by its path, and refuses one outside of the calendar, if that is given.

    Each folder is parsed once.
    """

    def __init__(self, stream: Stream, calendar: Calendar | None = None) -> None:
        self._calendar = calendar
        self._template = stream.template
        self._stream_columns = stream.columns
        self._columns = tuple(column for column in stream.columns if not column.in_rows)
        self._lenient = self._template.with_empty(values=(), nulls=self._template.columns)
        self._in_folder = lru_cache(_REMEMBERED)(self._partition_or_error)

    def of(self, key: str) -> Partition:
        """The partition of a key, with the columns of the path; see `Partition.path_part`.

        Raises:
            LayoutError: the key does not fit the layout.
            PartitionError: a value is not of its column's type, or the folder is not the partition's own.
            OutsidePartitionError: the calendar does not have the partition.
        """
        partition = self.find(key)
        if isinstance(partition, LakeAssetsError):
            raise partition
        return partition

    def at(self, path: str) -> Partition:
        """The partition with this path; see `Partition.at`.

        Raises:
            PartitionError: the path does not have the stream's columns.
        """
        return Partition.at(self._stream_columns, path)

    def find(self, key: str) -> Partition | LakeAssetsError:
        """As `of`, but returns the error."""
        if not is_unicode(key):
            return LayoutError("the name is not UTF-8:", "rename the folder or the file.")
        folder = key.rpartition("/")[0]
        return self._in_folder(f"{folder}/file" if folder else "file")

    def _partition_or_error(self, key: str) -> Partition | LakeAssetsError:
        try:
            return self._partition(key)
        except (LayoutError, PartitionError) as error:
            return error

    def _empty(self, key: str) -> list[str]:
        """The columns with an empty value in a path that fits the layout otherwise."""
        texts = self._lenient.match(key, file=True) or {}
        return [name for name, text in texts.items() if not text]

    def _partition(self, key: str) -> Partition:
        texts = self._template.match(key, file=True)
        if texts is None and (empty := self._empty(key)):
            folders = "; ".join(f"{name}={HIVE_NULL} for NULL" for name in empty)
            raise PartitionError(
                f"the path has an empty value of {', '.join(empty)}:",
                f"set `empty: value` or `empty: null` for the column in the config, or rename the folder ({folders}).",
            )
        if texts is None:
            raise LayoutError(
                f"the path is not of the layout {self._template.text!r}:", "move the object, or correct `layout`."
            )
        partition = Partition.of(self._columns, {column.name: texts[column.name] for column in self._columns})
        prefix, *others = folder_prefixes(self._template, partition)
        if not (key.startswith((prefix, *others)) and _is_canonical(partition, texts)):
            # 07 is 7, and %2f is %2F, but a run lists only the folder that it would write itself.
            raise PartitionError(
                f"the path has the values of partition {partition}, but is not in its folder {prefix}:",
                "move the object there.",
            )
        if self._calendar is not None and (error := self._calendar.outside(partition)) is not None:
            raise error
        return partition

"""The partition of an object, by its path, or the reason why it has none."""

from collections.abc import Mapping
from functools import lru_cache
from itertools import product

from lake_assets.base.errors import (
    HiddenError,
    LakeAssetsError,
    LayoutError,
    NotDataError,
    OddNameError,
    PartitionError,
    SpellingError,
)
from lake_assets.config.formats import format_by_name
from lake_assets.config.layout.hive import (
    HIVE_NULL,
    SPELLINGS,
    fits,
    is_hidden,
    is_odd,
    is_reserved,
    side_suffix,
    spellings,
    unescape,
)
from lake_assets.config.layout.partition import Partition, PartitionColumn, PartitionValue
from lake_assets.config.layout.template import Template
from lake_assets.config.streams import StreamConfig
from lake_assets.streams.calendar import Calendar

_HIDDEN = HiddenError(
    "a name that begins with _ or . is hidden:", "rename the file, or the folder if the layout cannot produce it."
)
_ODD = OddNameError(
    "no client reads an object with such a name (an empty part as in a//b, a part . or .., a control character, or "
    "bytes that are not UTF-8):",
    "rename it.",
)
_REMEMBERED = 65_536  # folders; a landing writer may run for months


def folder_prefixes(template: Template, path_part: Partition) -> list[str]:
    """Return the prefixes of the objects of a `Partition.path_part`: folders or names, the canonical one first.

    NULL may have a second folder, with an empty value. A value with characters that some writers encode and others do
    not has a folder for each spelling, and one whose letters may be decomposed for each form.
    """
    columns = path_part.columns
    choices = [
        [
            (text, spelling)
            for text in _texts(column, value)
            for spelling in (SPELLINGS[:1] if template.compat or not text else spellings(unescape(text)))
        ]
        for column, value in zip(columns, path_part.values, strict=True)
    ]
    names = [column.name for column in columns]
    prefixes = (
        template.prefix(
            {name: text for name, (text, _) in zip(names, chosen, strict=True)},
            {name: spelling for name, (_, spelling) in zip(names, chosen, strict=True)},
        )
        for chosen in product(*choices)
    )
    return list(dict.fromkeys(prefixes))


def _is_canonical(path_part: Partition, texts: Mapping[str, str]) -> bool:
    """Return whether a path has its values in the form that they are written in."""
    pairs = zip(path_part.columns, path_part.values, strict=True)
    return all(texts[column.name] in _texts(column, value) for column, value in pairs)


def _texts(column: PartitionColumn, value: PartitionValue) -> list[str]:
    """Return the texts of a value in folders, the canonical one first."""
    texts = [column.text(form) for form in column.forms(value)]
    return [*texts, ""] if value is None and column.empty == "null" else texts


class PartitionLocator:
    """Finds the partition of an object by its path, or the reason why no refresh reads it.

    This is the one place that decides so, for listings, sensors and the writer of `land`. A partition outside of the
    calendar is refused, if that is given. Each folder is parsed once, and the value in the name of a folder too.
    """

    def __init__(self, stream: StreamConfig, calendar: Calendar | None = None) -> None:
        self._calendar = calendar
        self._template = stream.template
        self._files = self._template.words or stream.files
        self._not_data = NotDataError(
            f"the name does not fit `files: {stream.files}`:", "correct `files`, or move the object away."
        )
        # The pattern of these formats ends in `*`, for the suffixes of compressions.
        self._names_format = stream.format.may_be_compressed and stream.files == stream.format.files
        self._stream_columns = stream.partition_columns
        self._columns = tuple(column for column in stream.partition_columns if not column.in_rows)
        self._lenient = self._template.with_empty(values=(), nulls=self._template.columns)
        self._in_folder = lru_cache(_REMEMBERED)(self._partition_or_error)
        # The values in the names of a run of folders, by the columns' names; of canonical paths only
        self._values: dict[tuple[int, tuple[str, ...]], dict[str, PartitionValue]] = {}

    def at(self, path: str) -> Partition:
        """Return the partition with this path; see `Partition.at`."""
        return Partition.at(self._stream_columns, path)

    def find(self, key: str) -> Partition | LakeAssetsError:
        """Return the partition of a key, with the columns of the path (see `Partition.path_part`), or why it has none.

        The reason is a `HiddenError` (its name, or that of a folder which the layout cannot produce, begins with `_` or
        `.`), `OddNameError`, `NotDataError` (its name does not fit `files`, or ends as that of an unfinished upload),
        `OutsidePartitionError` (the calendar does not have the partition), `SpellingError` (the folder is not one of
        the partition's own), or a LayoutError or PartitionError (the path does not fit the layout, or a value is not of
        its column's type).
        """
        names = key.split("/")
        if is_hidden(names[-1:]):
            return _HIDDEN
        if is_odd(key):
            return _ODD
        if not fits(names, self._files):
            return _HIDDEN if any(map(is_reserved, names[:-1])) else self._not_data
        if suffix := side_suffix(names[-1], self._files):
            return NotDataError(
                f"the name ends in {suffix}, as those of unfinished uploads, backups, checksums and markers do:",
                f"rename the object when it is complete, or set `files: '*{suffix}'` to read such objects.",
            )
        if self._names_format and format_by_name(names[-1]) is None:
            return self._not_data
        return self._in_folder(tuple(names[:-1]), names[-1] if self._template.file_parts else "file")

    @property
    def template(self) -> Template:
        """The layout."""
        return self._template

    def find_of_folder(self, folder: str) -> Partition | LakeAssetsError:
        """Find what `find` does, for any data file of a folder, or of a stem if the layout has the names of files.

        A slash at the folder's end makes no difference.
        """
        if self._template.file_parts:
            return self.find(self._template.of_stem(folder))
        return self._in_folder(tuple(folder.rstrip("/").split("/")) if folder else (), "file")

    def _partition_or_error(self, folders: tuple[str, ...], name: str) -> Partition | LakeAssetsError:
        if (known := self._of_known_names(folders)) is not None:
            return (self._calendar.outside(known) if self._calendar is not None else None) or known
        if self._template.hides(folders):
            return _HIDDEN
        if is_odd(key := "/".join([*folders, name])):
            return _ODD
        try:
            partition = self._partition(key)
        except (LayoutError, PartitionError) as error:
            return error
        if key.startswith(self._template.prefix(partition.texts())):
            self._remember(folders, partition)
        return partition

    def _remember(self, folders: tuple[str, ...], partition: Partition) -> None:
        """Remember the values in the names of a canonical path."""
        values = dict(zip((column.name for column in partition.columns), partition.values, strict=True))
        if len(self._values) >= _REMEMBERED:
            self._values.clear()
        for span, names in self._template.runs:
            self._values[span.start, folders[span]] = {name: values[name] for name in names if name in values}

    def _of_known_names(self, folders: tuple[str, ...]) -> Partition | None:
        """Return the partition of a canonical path of whose folders all names are known; None of another path."""
        runs = self._template.runs
        if not runs or len(folders) != runs[-1][0].stop:
            return None
        values: dict[str, PartitionValue] = {}
        for span, _ in runs:
            known = self._values.get((span.start, folders[span]))
            if known is None:
                return None
            values |= known
        return Partition(self._columns, tuple(values[column.name] for column in self._columns))

    def _empty(self, key: str) -> list[str]:
        """Return the columns with an empty value in a path that fits the layout otherwise."""
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
        is_file = self._template.file_parts > 0
        if texts is None:
            fix = "rename the object, or correct `files`" if is_file else "move the object, or correct `layout`"
            raise LayoutError(f"the path is not of the layout {self._template.text!r}:", f"{fix}.")
        partition = Partition.of(self._columns, {column.name: texts[column.name] for column in self._columns})
        canonical = partition.texts()
        prefix = self._template.prefix(canonical)
        if not (texts == canonical and key.startswith(prefix)) and not (
            key.startswith(tuple(folder_prefixes(self._template, partition))) and _is_canonical(partition, texts)
        ):
            # 07 is 7, and %61 is a, but a run lists only the folders that writers make.
            where = "does not begin with" if is_file else "is not in its folder"
            raise SpellingError(
                f"the path has the values of partition {partition}, but {where} {prefix}:",
                "rename the object." if is_file else "move the object there.",
            )
        if self._calendar is not None and (error := self._calendar.outside(partition)) is not None:
            raise error
        return partition

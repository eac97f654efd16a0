"""The objects of a landing zone that no refresh reads, each in one class."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from lake_assets.base.errors import (
    HiddenError,
    LakeAssetsError,
    NotDataError,
    OddNameError,
    OutsidePartitionError,
    SpellingError,
    StorageError,
)
from lake_assets.base.json_dataclasses import AsText, Documented, NotInJson, in_json
from lake_assets.base.texts import count, storable, visible_name
from lake_assets.config.layout.hive import logged_table
from lake_assets.config.layout.partition import Partition
from lake_assets.storage.manifest import LandedObject

LeftOutClass = Literal["unmatched", "spelling", "outside", "odd", "not_data", "hidden"]
"""The class of an object that no refresh reads."""

# By the reasons that `PartitionLocator.find` gives; of the classes that fit one, the last is meant.
_CLASSES: dict[LeftOutClass, tuple[type[LakeAssetsError], str]] = {
    "unmatched": (LakeAssetsError, "in no partition"),
    "spelling": (SpellingError, "in another spelling of a partition's folder"),
    "outside": (OutsidePartitionError, "outside the config"),
    "odd": (OddNameError, "with odd names"),
    "not_data": (NotDataError, "not data files"),
    "hidden": (HiddenError, "hidden by their names"),
}


def refuse_tables(root: str, read: Iterable[str], others: Iterable[str]) -> None:
    """Refuse to read in the folder of a table of Delta, Hudi or Iceberg: its log may have removed some of the files.

    `read` are keys of objects to read, or their folders, and `others` those of other objects, with those of logs.
    """
    tables = dict(table for key in others if (table := logged_table(key)) is not None)
    for folder, kind in tables.items():
        if any(key.startswith(folder) for key in read):
            raise StorageError(
                f"{root}/{folder} is the folder of a table of {kind}, whose log may have removed some of its files:",
                "read the table by its own reader, and land the rows in another folder. If it is such a table no more, "
                "remove the folder of its log.",
            )


def class_of(why: LakeAssetsError) -> LeftOutClass:
    """Return the class of an object, by the reason that `PartitionLocator.find` gives."""
    return next(name for name, (error, _) in reversed(_CLASSES.items()) if isinstance(why, error))


def class_counts(classes: Iterable[LeftOutClass]) -> dict[LeftOutClass, int]:
    """Return the number of objects of each class, for every class."""
    counts = Counter(classes)
    return {name: counts[name] for name in _CLASSES}


def left_out_text(classes: Iterable[LeftOutClass]) -> str:
    """Return such as `3 objects left out: 1 in no partition, 2 not data files`, by the class of each object."""
    counts = class_counts(classes)
    parts = [f"{counts[name]:,} {text}" for name, (_, text) in _CLASSES.items() if counts[name]]
    return f"{count(sum(counts.values()), 'object')} left out" + (f": {', '.join(parts)}" if parts else "")


@dataclass(frozen=True, slots=True)
class LeftOutObject(Documented):
    """An object below a source that no refresh reads."""

    landed: Annotated[LandedObject, NotInJson]
    why: Annotated[LakeAssetsError, AsText]
    """The reason, and the fix."""

    @in_json
    def key(self) -> str:
        """Its path below the source."""
        return storable(self.landed.key)

    @in_json
    def uri(self) -> str:
        """Its path or URI."""
        return storable(self.landed.uri)

    @in_json
    def kind(self) -> LeftOutClass:
        """Its class."""
        return class_of(self.why)


@dataclass(frozen=True, slots=True)
class UnmatchedFolder(Documented):
    """A folder of the landing zone with objects in no partition."""

    folder: str
    """Its path below the source; empty for the source itself."""
    objects: int
    """The number of these objects."""
    why: Annotated[LakeAssetsError, AsText]
    """Why they are in no partition, and the fix."""

    def __str__(self) -> str:
        folder = f"{visible_name(self.folder)}/" if self.folder else "the source's own folder"
        return f"{folder} ({count(self.objects, 'object')}): {self.why}"


@dataclass(frozen=True, slots=True)
class LeftOut(Documented):
    """What one listing of a whole source found that no refresh reads: each object once, in one class.

    `unmatched` are in no partition: the path does not fit the layout, or a value its column's type. `spelling` are in a
    folder with the values of a partition in a spelling that no writer has, and `outside` in a partition that the config
    does not have. `odd` have odd names, `not_data` are no data files by `files`, and `hidden` are hidden by the name,
    or by that of a folder.
    """

    objects: Annotated[tuple[LeftOutObject, ...], NotInJson] = ()
    listed: int = 0
    """The number of all objects; those that are not counted here are in partitions of the config."""

    @property
    def unmatched(self) -> tuple[LeftOutObject, ...]:
        """Those whose path is not of a partition, as a folder in another spelling and an odd name are not."""
        return tuple(item for item in self.objects if item.kind in ("unmatched", "spelling", "odd"))

    @in_json
    def unmatched_folders(self) -> list[UnmatchedFolder]:
        """Where the objects are that are in no partition: `unmatched`, `spelling` and `odd`."""
        unmatched = self.unmatched
        counts = Counter((item.key.rpartition("/")[0], str(item.why)) for item in unmatched)
        reasons = {str(item.why): item.why for item in unmatched}
        return [UnmatchedFolder(path, number, reasons[text]) for (path, text), number in sorted(counts.items())]

    @in_json
    def counts(self) -> dict[LeftOutClass, int]:
        """The number of objects of each class, for every class."""
        return class_counts(item.kind for item in self.objects)

    @property
    def is_usual(self) -> bool:
        """Whether only hidden objects are left out, as writers leave them in every landing zone."""
        return all(item.kind == "hidden" for item in self.objects)

    def taking(self, *, outside: bool) -> "LeftOut":
        """Return what is left out if a refresh takes the partitions outside the config too, or does not."""
        others = tuple(item for item in self.objects if item.kind != "outside")
        return replace(self, objects=others) if outside else self

    def __str__(self) -> str:
        return left_out_text(item.kind for item in self.objects)


@dataclass(frozen=True, slots=True)
class NotRegistered(Documented):
    """A partition outside the config with new objects, which are not registered."""

    partition: Annotated[Partition, AsText]
    """As a path, such as `region=NW/date=2026-02-11`."""
    new: int
    """The number of its new objects."""
    why: Annotated[OutsidePartitionError, AsText]
    """Why the config does not have it."""

    def __str__(self) -> str:
        return f"{self.partition} ({count(self.new, 'new object')}): {self.why}"

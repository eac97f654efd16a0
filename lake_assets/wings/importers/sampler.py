"""A look at a landing zone by a bounded number of requests: folders, first objects and footers."""

import datetime as dt
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from lake_assets.base.errors import KeyOrderError, SchemaError, SourceChangedError, SourceError
from lake_assets.config.formats import PARQUET, LandedFormat, format_by_name
from lake_assets.config.layout.hive import is_hidden, is_reserved, logged_table, side_suffix
from lake_assets.config.storages import AnyStorage
from lake_assets.schema.partition_values import Box, ValueSpan
from lake_assets.storage.formats.any_format import LandingZone
from lake_assets.storage.formats.parquet_files import opened_object, read_spans
from lake_assets.storage.formats.text_files import decompressed
from lake_assets.storage.manifest import LandedObject
from lake_assets.storage.store import Store
from lake_assets.wings.importers.csv_dialect import sniffed

MOST_LISTINGS = 200
MOST_FOOTERS = 60
MOST_FOLDERS = 60  # of one folder, each by a listing of its own

_SNIFFED = 2**18  # bytes of a text that tell its dialect
_PAGE = 1000  # the most objects of one listing
WORD = re.compile(r"[^\W\d_]+")


@dataclass
class SeenFolder:
    """What was seen below a folder."""

    path: str  # below the storage's root, with a slash at its end; empty for the root
    # The first objects of each folder in it, by the folder's name
    folders: dict[str, list[LandedObject]] = field(default_factory=dict)
    files: list[LandedObject] = field(default_factory=list)  # the first objects that are right in it
    is_complete: bool = False  # whether all folders in it were seen
    has_more: bool = False  # whether there are objects below it that were not seen
    word: str = ""  # that the names of its files begin with, if others are of other tables

    @property
    def objects(self) -> list[LandedObject]:
        """All objects that were seen below it."""
        return [*self.files, *(landed for objects in self.folders.values() for landed in objects)]


class Sampler:
    """Listings and footers of one storage, within the limits; objects that no layout reads are left out."""

    def __init__(self, storage: AnyStorage, listed: Callable[[int], object] = lambda _: None) -> None:
        self.storage = storage  # of the landing zone; not a web server, which has no listing
        self._listed = listed  # called with the number of objects of each listing
        self.listings = 0  # the number of listings so far, each of up to 1,000 objects
        self.footers = 0  # the number of footers so far
        self.seen: set[str] = set()
        self.tables: dict[str, str] = {}  # the formats of the tables with a log, by their folders; see `logged_table`
        self._store = Store(storage)
        self.doubts: dict[str, list[str]] = {}  # what is not certain of the dialect of an object, by its key
        self._is_tree = False
        self._schemas: dict[str, pa.Schema | None] = {}
        self._forms: dict[str, LandedFormat] = {}

    def folder(self, path: str) -> SeenFolder:
        """The folders and objects of a folder: a listing for the first 1,000 objects, and one for each folder after.

        If there are files only, it is a listing for each word that their names begin with.
        """
        folder, after = SeenFolder(path), ""
        words: set[str] = set()
        while len(folder.folders) + len(words) < MOST_FOLDERS and self.listings < MOST_LISTINGS:
            page = self._page(path, after)
            self._add(folder, page)
            if len(page) < _PAGE:
                folder.is_complete = True
                return folder
            folder.has_more = True
            name, slash, _ = page[-1].key.removeprefix(path).partition("/")
            if not slash and not folder.folders:
                if (word := WORD.match(name)) is None or word[0] in words:
                    return folder  # a folder with many files, and as it seems without folders
                words.add(word[0])
                after = f"{path}{word[0]}\U0010ffff"  # files whose names begin with another word, as with a region
                continue
            # The text sorts behind all that is in the folder: 0 is the character after the slash.
            after = f"{path}{name}0" if slash else page[-1].key
        return folder

    def schema(self, landed: LandedObject) -> pa.Schema | None:
        """Return the object's columns by its footer, or the begin of a text; None if damaged, or beyond the limit."""
        if landed.key not in self._schemas and self.footers < MOST_FOOTERS:
            self.footers += 1
            self._schemas[landed.key] = None
            with suppress(SourceError, SourceChangedError, SchemaError):
                self._schemas[landed.key] = self._schema(landed)
        return self._schemas.get(landed.key)

    def _schema(self, landed: LandedObject) -> pa.Schema:
        form = self.form(landed)
        if (dialect := form.dialect) is not None:
            with opened_object(self._store, landed.key, form.title) as file:
                begin = decompressed(file).read(_SNIFFED)
            form, self.doubts[landed.key] = sniffed(begin, dialect)
            self._forms[landed.key] = form
        _, schema = LandingZone(self.storage, form).footer(landed.key)
        return schema

    def form(self, landed: LandedObject) -> LandedFormat:
        """Return the object's format by its name, and after `schema` by what it has."""
        return self._forms.get(landed.key) or format_by_name(landed.key) or PARQUET

    def days(self, objects: Sequence[LandedObject], name: str) -> tuple[list[dt.date], bool]:
        """Return the first and last days of a date or timestamp in objects, by the statistics of their row groups.

        The days are unsorted, and with them is whether the column's bounds are known for all objects: the limit of
        footers was not reached, and every footer has them.
        """
        read = objects[: max(MOST_FOOTERS - self.footers, 0)]
        self.footers += len(read)
        ends: list[Any] = []
        for landed in read:
            boxes: set[Box] = {(ValueSpan(),)}
            with suppress(SourceError), opened_object(self._store, landed.key) as file:
                boxes = read_spans(file, [name.lower()]) or boxes
            ends += [end for (span,) in boxes for end in (span.least, span.greatest)]
        days = [end.date() if isinstance(end, dt.datetime) else end for end in ends if end is not None]
        return days, len(read) == len(objects) and None not in ends

    def _add(self, folder: SeenFolder, page: tuple[LandedObject, ...]) -> None:
        for landed in page:
            names = landed.key.removeprefix(folder.path).split("/")
            if (table := logged_table(landed.key)) is not None:
                self.tables[table[0]] = table[1]
            is_no_data = not names[-1] or is_hidden(names[-1:]) or side_suffix(names[-1], "")
            if is_no_data or any(map(is_reserved, names[:-1])):
                continue
            self.seen.add(landed.uri)
            (folder.files if len(names) == 1 else folder.folders.setdefault(names[0], [])).append(landed)

    def _page(self, path: str, after: str) -> tuple[LandedObject, ...]:
        self.listings += 1
        try:
            page = next(self._pages(path, after), ())
        except KeyOrderError:
            self._is_tree = True
            page = next(self._pages(path, after), ())
        self._listed(len(page))
        return page

    def _pages(self, path: str, after: str) -> Iterator[tuple[LandedObject, ...]]:
        return self._store.pages(path, after, tree=self._is_tree)

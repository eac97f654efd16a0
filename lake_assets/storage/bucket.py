"""A bucket by obstore's client: its listing in the order of its keys, from any key on.

S3 sorts whole keys: `a-b/c` comes before `a/b`, because `-` sorts before `/`. Some servers (SeaweedFS) list folder by
folder, `a/b` first: tree order. If a listing begins after the name of a folder, S3 continues within that folder, and
these servers behind it.
"""

# ruff: noqa: D102 - `Backend` says what the methods do

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar, TypeVar

import obstore
from obstore.exceptions import BaseError as ObstoreError
from obstore.exceptions import NotFoundError

from lake_assets.base.errors import KeyOrderError, StorageError
from lake_assets.base.retrying import Result, Transient
from lake_assets.base.texts import visible_name
from lake_assets.config.layout.hive import is_odd
from lake_assets.config.secrets import mask_error
from lake_assets.config.storages import AzureStorage, GcsStorage, R2Storage, S3Storage, WebStorage
from lake_assets.storage import patience
from lake_assets.storage.backend import Backend, Client, Hides
from lake_assets.storage.overlapping import listing_position
from lake_assets.storage.server_answers import request_may_pass
from lake_assets.storage.storage_errors import access_fix, location, reason

if TYPE_CHECKING:
    from obstore import ObjectMeta

Remote = TypeVar("Remote", bound=S3Storage | R2Storage | GcsStorage | AzureStorage | WebStorage)

PAGE = 1000  # the most objects that S3 lists by one request


class Bucket(Backend[Remote]):
    """A bucket, or container, of any vendor."""

    begins_anywhere: ClassVar[bool] = True  # a listing, without those before

    @cached_property
    def client(self) -> Client:
        try:
            return type(self)(patience.once(self.storage)).as_obstore()
        except ObstoreError as error:
            mask_error(error, self.storage)
            problem = f"{location(self.storage)} cannot be used: {reason(error)}:"
            raise StorageError(problem, access_fix(self.storage)) from error

    def retried(self, transient: Transient, work: Callable[[], Result]) -> Result:
        return patience.requests_retried(self.storage.requests, transient, work)

    def _request(self, work: Callable[[], Result]) -> Result:
        return self.retried(lambda error: isinstance(error, ObstoreError) and request_may_pass(error), work)

    def pages(self, prefix: str, after: str, *, tree: bool) -> Iterator[Sequence["ObjectMeta"]]:
        folder, _, name = prefix.rpartition("/")
        last, begin = "", listing_position(after, tree=tree)
        for page in self._pages(folder, _below(max(after, prefix if name else ""))):
            keys = [listing_position(meta["path"], tree=tree) for meta in page]
            if any(key > following for key, following in pairwise([last, *keys])):
                error = StorageError if tree else KeyOrderError
                raise error(
                    f"{self.storage.root} does not list its objects in the order of their names:",
                    "use a general purpose bucket, or refresh the partitions with a schedule, not with a sensor.",
                )
            last = keys[-1]
            listed = zip(page, keys, strict=True)
            if below := [meta for meta, key in listed if key > begin and (not name or meta["path"].startswith(prefix))]:
                yield below
            if name and last > listing_position(prefix, tree=tree) and not page[-1]["path"].startswith(prefix):
                return

    def pages_once(self, folder: str, after: str) -> Iterator[Sequence["ObjectMeta"]]:
        """Yield the objects below a folder from a text on, in the store's order, by requests that are not repeated."""
        self.client  # noqa: B018 - the copy has it too
        impatient = copy(self)
        impatient.storage = patience.once(self.storage)
        return impatient._pages(folder, _below(after) if self.begins_anywhere else None)  # noqa: SLF001 - of this class

    def unordered_pages(self, prefix: str, hides: Hides | None = None) -> Iterator[Sequence["ObjectMeta"]]:  # noqa: ARG002 - a bucket refuses no folder
        return self._pages(prefix)

    def _pages(self, prefix: str, after: str | None = None) -> Iterator[Sequence["ObjectMeta"]]:
        """Yield the objects in the store's order, none of them twice, and without markers of folders.

        Some stores begin a page with the key that ended the last one. A marker has no bytes and a name that ends in a
        slash, which obstore takes away: it is out of order then, or before the objects of its folder; else see
        `_is_marker`.
        """
        last, noted, number, times = "", "", 0, 1
        for page in self._exact_pages(prefix, after):
            keys = [meta["path"] for meta in page]
            around = zip(page, [last, *keys], [*keys[1:], ""], strict=False)
            last = keys[-1]
            objects = []
            for meta, before, following in around:
                key, number = meta["path"], number + 1
                times = times + 1 if key == before else 1
                if times == 2 or (meta["size"] == 0 and self._is_marker(key, before, following)):
                    continue
                if key == noted or times > 2:
                    raise self.endless(key)
                if number & (number - 1) == 0:  # at each power of two, so that any circle is noticed
                    noted = key
                objects.append(meta)
            if objects:
                yield objects

    def _is_marker(self, key: str, before: str, following: str) -> bool:
        """Return whether an object without bytes has a slash at the end of its name; it may take a request."""
        if not key or key.endswith("/") or following.startswith(f"{key}/"):
            return True
        if key >= before:
            return False
        try:
            self._request(lambda: obstore.head(self.client, key))
        except (NotFoundError, FileNotFoundError):
            return True
        return False

    def endless(self, key: str) -> StorageError:
        """Return the error for a store that lists what it has listed already."""
        return StorageError(
            f"{self.storage.root} lists {visible_name(key)} again and again, so that its listing has no end:",
            "let the store's operator correct the pages of its listings, and run it again.",
        )

    def _exact_pages(self, prefix: str, after: str | None) -> Iterator[Sequence["ObjectMeta"]]:
        """Yield obstore's pages; a name that it refuses is an InvalidPathError."""
        listing: Iterator[Sequence[ObjectMeta]] | None = None

        def following() -> Sequence["ObjectMeta"] | None:
            nonlocal listing, after
            try:
                listing = listing or obstore.list(self.client, prefix=prefix or None, offset=after, chunk_size=PAGE)
                page = next(listing, None)
            except ObstoreError:
                listing = None  # the next one begins after the last page
                raise
            if page is not None:
                after = page[-1]["path"]
            return page

        while (page := self._request(following)) is not None:
            yield page

    def folders(self, prefix: str) -> Sequence[str]:
        return [name for name in self._folder_names(prefix) if not is_odd(name)]

    def _folder_names(self, prefix: str) -> Sequence[str]:
        listed = self._request(lambda: obstore.list_with_delimiter(self.client, prefix=prefix or None))
        return listed["common_prefixes"]

    def create(self, key: str, body: bytes) -> bool:
        obstore.put(self.client, key, body, mode="create", use_multipart=False)
        return True


def _below(after: str) -> str | None:
    """Return a text that sorts a little before this one and is the name of no folder.

    After such a text all servers continue alike. The client removes a slash at the end of a text, which would turn the
    beginning of a folder into its name.
    """
    text = after.rstrip("/")
    if not text:
        return None
    number = ord(text[-1]) - 1
    if number <= ord(" ") or 0xD800 <= number <= 0xDFFF:
        return text[:-1]
    return f"{text[:-1]}{chr(number)}~~~"

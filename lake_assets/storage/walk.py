"""Listing a store's objects in the order of their keys, from any key on; also of local folders.

S3 sorts whole keys: `a-b/c` comes before `a/b`, because `-` sorts before `/`. Some servers (SeaweedFS) list folder by
folder, `a/b` first: tree order. If a listing begins after the name of a folder, S3 continues within that folder, and
these servers behind it.
"""

import datetime as dt
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from itertools import islice, pairwise
from typing import TYPE_CHECKING

import obstore
from obstore.exceptions import BaseError as ObstoreError
from obstore.exceptions import InvalidPathError, NotFoundError

from lake_assets.base.errors import KeyOrderError, StorageError
from lake_assets.base.retrying import Result
from lake_assets.config.layout.hive import is_hidden, is_odd
from lake_assets.config.storages import AnyStorage, LocalStorage, R2Storage, S3Storage
from lake_assets.storage import s3
from lake_assets.storage.clients import Client
from lake_assets.storage.retry_window import retried
from lake_assets.storage.server_answers import may_pass

if TYPE_CHECKING:
    from obstore import ObjectMeta

Hides = Callable[[Sequence[str]], bool]
"""Whether a folder is hidden, by its names from the storage's root on."""

_PAGE = 1000  # the most objects that S3 lists by one request

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def position(text: str, *, tree: bool) -> str:
    """Return a text that sorts as the key, or its beginning, in a store of this order."""
    return text.replace("/", "\0") if tree else text


def pages(
    store: Client, storage: AnyStorage, prefix: str, after: str, *, tree: bool
) -> Iterator[Sequence["ObjectMeta"]]:
    """Yield the objects below a folder whose keys sort after a text, in the keys' order.

    A prefix without a slash at its end is the beginning of names: the listing begins and ends with these. Azure, which
    begins no listing within a folder, lists those before too.

    Raises:
        KeyOrderError: the store lists in tree order, and the order of whole keys was expected.
        StorageError: the store lists in neither order, as directory buckets of S3 do.
    """
    folder, _, name = prefix.rpartition("/")
    if isinstance(storage, LocalStorage):
        all_files = _files(storage.root, folder, after, begin=prefix)
        while files := list(islice(all_files, _PAGE)):
            yield files
        return
    last, begin = "", position(after, tree=tree)
    for page in _bucket_pages(store, storage, folder, _below(max(after, prefix if name else ""))):
        keys = [position(meta["path"], tree=tree) for meta in page]
        if any(key > following for key, following in pairwise([last, *keys])):
            error = StorageError if tree else KeyOrderError
            raise error(
                f"{storage.root} does not list its objects in the order of their names:",
                "use a general purpose bucket, or refresh the partitions with a schedule, not with a sensor.",
            )
        last = keys[-1]
        listed = zip(page, keys, strict=True)
        if wanted := [meta for meta, key in listed if key > begin and (not name or meta["path"].startswith(prefix))]:
            yield wanted
        if name and last > position(prefix, tree=tree) and not page[-1]["path"].startswith(prefix):
            return


def named_pages(store: Client, storage: AnyStorage, prefix: str, hides: Hides) -> Iterator[Sequence["ObjectMeta"]]:
    """Yield the objects whose keys begin with a text, by a listing that begins and ends with them if possible."""
    try:
        yield from list(pages(store, storage, prefix, "", tree=False))
    except KeyOrderError:
        for page in unordered_pages(store, storage, prefix.rpartition("/")[0], hides):
            yield [meta for meta in page if meta["path"].startswith(prefix)]


def unordered_pages(
    store: Client, storage: AnyStorage, prefix: str, hides: Hides | None = None
) -> Iterator[Sequence["ObjectMeta"]]:
    """Yield the objects below a folder in any order.

    Of a local folder hidden files are yielded only if it is known which folders the layout hides. A byte of a name that
    is not UTF-8 is a surrogate in the key, as in Python's names of files. Without `hides`, hidden folders are not
    opened; one that it hides may refuse to be read.
    """
    if not isinstance(storage, LocalStorage):
        yield from _bucket_pages(store, storage, prefix)
        return
    # The client fails at a name that is not UTF-8, and omits files that it may not read.
    files = _files(storage.root, prefix.rstrip("/"), "", with_hidden=hides is not None, hides=hides)
    while page := list(islice(files, _PAGE)):
        yield page


def _bucket_pages(
    store: Client, storage: AnyStorage, prefix: str, after: str | None = None
) -> Iterator[Sequence["ObjectMeta"]]:
    """Yield the objects of a bucket in the store's order, none of them twice, and without markers of folders.

    Some stores begin a page with the key that ended the last one. A marker has no bytes and a name that ends in a
    slash, which obstore takes away: it is out of order then, or before the objects of its folder; else see
    `_is_marker`.
    """
    last, noted, number, times = "", "", 0, 1
    for page in _exact_pages(store, storage, prefix, after):
        keys = [meta["path"] for meta in page]
        around = zip(page, [last, *keys], [*keys[1:], ""], strict=False)
        last = keys[-1]
        wanted = []
        for meta, before, following in around:
            key, number = meta["path"], number + 1
            times = times + 1 if key == before else 1
            if times == 2 or (meta["size"] == 0 and _is_marker(store, storage, key, before, following)):
                continue
            if key == noted or times > 2:
                raise s3.endless(storage, key)
            if number & (number - 1) == 0:  # at each power of two, so that any circle is noticed
                noted = key
            wanted.append(meta)
        if wanted:
            yield wanted


def _is_marker(store: Client, storage: AnyStorage, key: str, before: str, following: str) -> bool:
    """Return whether an object without bytes has a slash at the end of its name; it may take a request."""
    if not key or key.endswith("/") or following.startswith(f"{key}/"):
        return True
    if key >= before:
        return False
    try:
        _retried(storage, lambda: obstore.head(store, key))
    except (NotFoundError, FileNotFoundError):
        return True
    return False


def _retried(storage: AnyStorage, work: Callable[[], Result]) -> Result:
    """Return the result of a request of obstore's, with the storage's retries and pauses."""
    assert not isinstance(storage, LocalStorage)  # noqa: S101 - folders take no requests
    return retried(storage, lambda error: isinstance(error, ObstoreError) and may_pass(error), work)


def _exact_pages(
    store: Client, storage: AnyStorage, prefix: str, after: str | None
) -> Iterator[Sequence["ObjectMeta"]]:
    """Yield obstore's pages; of S3, boto3 lists a page with a name that obstore refuses, in ten times the time."""
    listing: Iterator[Sequence[ObjectMeta]] | None = None

    def following() -> Sequence["ObjectMeta"] | None:
        nonlocal listing
        try:
            listing = listing or obstore.list(store, prefix=prefix or None, offset=after, chunk_size=_PAGE)
            return next(listing, None)
        except ObstoreError:
            listing = None  # the next one begins after the last page
            raise

    number = 0  # of objects that obstore has listed
    while True:
        try:
            page = _retried(storage, following)
        except InvalidPathError:
            if not isinstance(storage, S3Storage | R2Storage):
                raise
        else:
            if page is not None:
                yield page
                after, number = page[-1]["path"], number + len(page)
                continue
            # Some stores, as older ones of Ceph, say that more follows without the token by which obstore asks for it,
            # and it takes the page of a proxy or console for a listing without objects.
            is_ended = number % _PAGE or not (number or after is None)
            if is_ended or not isinstance(storage, S3Storage | R2Storage):
                return
        listing, number, is_more, is_next_odd = None, 0, True, True
        while is_more and is_next_odd:
            exact, is_more = s3.page(storage, prefix, after or "")
            if exact:
                yield exact
                after = exact[-1]["path"]
                is_next_odd = is_odd(after)
        if not is_more:
            return


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


def folders(store: Client, storage: AnyStorage, prefix: str) -> tuple[str, ...]:
    """Return the folders right below a folder, sorted, without slashes at their ends."""
    prefix = prefix.rstrip("/")
    if isinstance(storage, LocalStorage):
        return tuple(sorted(key.rstrip("/") for key, entry in _entries(storage.root, prefix) if entry.is_dir()))
    if isinstance(storage, S3Storage | R2Storage):
        names: Sequence[str] = s3.folders(storage, prefix)
    else:
        listed = _retried(storage, lambda: obstore.list_with_delimiter(store, prefix=prefix or None))
        names = listed["common_prefixes"]
    return tuple(sorted(name for name in names if not is_odd(name)))


def _files(
    root: str, folder: str, after: str, *, with_hidden: bool = True, hides: Hides | None = None, begin: str = ""
) -> Iterator["ObjectMeta"]:
    """Yield files in the order of object stores: a folder sorts by its name with a slash; earlier ones stay closed.

    Right in the folder, those are left out whose keys do not begin with `begin`.
    """
    try:
        entries = _entries(root, folder)
    except PermissionError:
        if not (hides or is_hidden)(folder.split("/")):
            raise
        return
    for key, entry in sorted(entries, key=lambda item: item[0]):
        if not key.startswith(begin) or (not with_hidden and is_hidden((entry.name,))):
            continue
        if key.endswith("/"):
            if key > after or after.startswith(key):
                yield from _files(root, key.rstrip("/"), after, with_hidden=with_hidden, hides=hides)
        elif key > after:
            try:
                status = entry.stat()
            except FileNotFoundError:
                if not entry.is_symlink():  # removed or renamed since the folder was read
                    continue
                status = entry.stat(follow_symlinks=False)  # of a link to no file, which is a bad object
            if not (stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode)):  # a pipe would be read without end
                continue
            microseconds = status.st_mtime_ns // 1000  # as the client has them, also in the ETag of a single object
            time = _EPOCH + dt.timedelta(microseconds=microseconds)
            etag = f"{status.st_ino:x}-{max(microseconds, 0):x}-{status.st_size:x}"  # before 1970 it is that of 1970
            yield {"path": key, "last_modified": time, "size": status.st_size, "e_tag": etag, "version": None}


def _entries(root: str, folder: str) -> list[tuple[str, "os.DirEntry[str]"]]:
    """Return the entries of a folder by key; keys of folders end in a slash. A folder that does not exist has none."""
    path = os.path.join(root, *folder.split("/")) if folder else root  # noqa: PTH118 - a path of bytes that are not text
    start = f"{folder}/" if folder else ""
    try:
        with os.scandir(path) as entries:
            return [(f"{start}{e.name}/" if e.is_dir() else f"{start}{e.name}", e) for e in entries]
    except FileNotFoundError:
        return []

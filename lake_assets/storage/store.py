"""The driver's access to one object store: listing with ETags, reading, writing, deleting; for folders and buckets."""

import hashlib
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import obstore
from obstore.exceptions import AlreadyExistsError, NotFoundError, PreconditionError
from obstore.exceptions import BaseError as ObstoreError
from obstore.store import HTTPStore

from lake_assets.config.secrets import mask_error
from lake_assets.config.storages import AnyStorage, LocalStorage, R2Storage, S3Storage, WebStorage
from lake_assets.errors import AbsentStorageError, LakeAssetsError, SourceError, StorageError, StorageUnreachableError
from lake_assets.layout.names import is_data
from lake_assets.retrying import Result
from lake_assets.storage import local, s3, walk, web
from lake_assets.storage.clients import Client, as_obstore
from lake_assets.storage.manifest import LandedObject, digest_of, landed_object
from lake_assets.storage.retry_window import once, quick, retried, using
from lake_assets.storage.storage_errors import (
    Operation,
    access_fix,
    changed_object,
    location,
    odd_name,
    reason,
    storage_error,
)
from lake_assets.storage.vendor_errors import Meaning, find, meaning_of

if TYPE_CHECKING:
    from obstore import GetOptions, ObjectMeta

_PART = 5 * 2**20  # bytes of a landed file, above which it is uploaded in parts
_DELETIONS = 16  # at a time; a deletion is mostly latency


class Store:
    """The objects below a storage's root, addressed by keys relative to it.

    Keys are exactly those of the store; a percent sign in a key has no meaning. No connection is made at first.
    """

    def __init__(self, storage: AnyStorage) -> None:
        self.storage = storage
        self._client: Client | None = None
        self._once: Client | None = None  # sends each request once

    @cached_property
    def root(self) -> str:
        """The root as a URI without a trailing slash: an absolute path, or of the form `s3://bucket/prefix`."""
        return self.storage.root

    def uri(self, key: str) -> str:
        """Return the key as a URI that DuckDB, Spark and people understand."""
        return f"{self.root}/{key}"

    def probe(self) -> LandedObject | None:
        """Return an object below the root, hidden or not, by one request; None if there is none."""
        with self._errors("list"):
            page = next(iter(obstore.list(self._open(), chunk_size=1)), ())
        return landed_object(self.root, page[0]) if page else None

    @property
    def is_listable(self) -> bool:
        """Whether objects can be listed; a web server has no listing."""
        return not isinstance(self.storage, WebStorage)

    def list(
        self, prefix: str = "", files: str = "*", listed: Callable[[int], object] = lambda _: None
    ) -> tuple[LandedObject, ...]:
        """Return the objects below a folder, sorted by key; nothing outside the folder is listed.

        Names that begin with `_` or `.` are left out, as Hive and Spark do with `_SUCCESS` and unfinished files, and so
        are folder markers. `listed` is called with a number of objects each time that so many more have been listed.

        `files` is a pattern that the last part of the key must match. One with a slash matches the whole key below the
        folder: `*` is within a name, and `**` is any number of folders. For a store that is not listable, it is the
        name of one object.
        """
        with self._errors("list", folder=prefix):
            client = self._open()
            if isinstance(client, HTTPStore):
                meta = web.find(client, f"{prefix}{files.lstrip('/')}")
                return () if meta is None else (landed_object(self.root, meta),)
        metas = self._listed(lambda: list(self._metas(client, prefix, listed)), prefix)
        root = prefix.rstrip("/").count("/") + 1 if prefix else 0
        objects = (landed_object(self.root, meta) for meta in metas if is_data(meta["path"].split("/")[root:], files))
        return tuple(sorted(objects, key=lambda landed: landed.key))

    def all(
        self, prefix: str = "", listed: Callable[[int], object] = lambda _: None, *, hides: walk.Hides
    ) -> tuple[LandedObject, ...]:
        """Return the objects below a folder, sorted by key, also hidden ones; nothing outside the folder is listed.

        `prefix` is a folder or the beginning of names; see `walk.pages`. A local folder that `hides` knows may refuse
        to be read.
        """
        with self._errors("list", folder=prefix):
            client = self._open()
        metas = self._listed(lambda: list(self._metas(client, prefix, listed, hides)), prefix)
        return tuple(sorted((landed_object(self.root, meta) for meta in metas), key=lambda landed: landed.key))

    def _metas(
        self, client: Client, prefix: str, listed: Callable[[int], object], hides: walk.Hides | None = None
    ) -> "Iterator[ObjectMeta]":
        if hides is not None and prefix and not prefix.endswith("/"):
            pages = walk.named_pages(client, self.storage, prefix, hides)
        else:
            pages = walk.unordered_pages(client, self.storage, prefix, hides)
        for page in pages:
            listed(len(page))
            yield from page

    def pages(self, prefix: str = "", after: str = "", *, tree: bool = False) -> Iterator[tuple[LandedObject, ...]]:
        """Yield all objects below a folder in the order of their keys, hidden ones too, up to 1,000 at a time.

        In stores that can begin a listing after a key (S3, R2 and GCS), objects before it cost nothing. `prefix` is a
        folder or the beginning of names; see `walk.pages`. Raises KeyOrderError if the store lists folder by folder and
        `tree` is False, and StorageError if it lists keys in no order.
        """
        with self._errors("list", folder=prefix):
            pages = walk.pages(self._open(), self.storage, prefix, after, tree=tree)
            yield from (tuple(landed_object(self.root, meta) for meta in page) for page in pages)

    def folders(self, prefix: str = "") -> tuple[str, ...]:
        """Return the folders right below a folder, sorted, each from the root on and without a slash at its end."""
        return self._listed(lambda: walk.folders(self._open(), self.storage, prefix), prefix)

    def answers(self) -> bool:
        """Return whether the store answers, also by a refusal; True for folders, without a request."""
        with suppress(StorageError):
            try:
                if not isinstance(self.storage, LocalStorage):
                    self.probe() if self.is_listable else self.find("")
            except StorageUnreachableError:
                return False
        return True

    def get(self, key: str, etag: str) -> obstore.Bytes:
        """Return the bytes of a whole object, by one request; SourceChangedError if it is gone, or has another ETag."""
        with self._errors("read", key):
            try:
                client = self._open()
                if isinstance(client, HTTPStore):
                    return self._get_from_web(client, key, etag)
                return obstore.get(client, key, options={"if_match": f'"{etag}"'}).bytes()
            except (NotFoundError, FileNotFoundError, PreconditionError) as error:
                raise self.changed(key) from error

    def get_range(self, key: str, etag: str, start: int, end: int) -> obstore.Bytes:
        """Return the bytes of an object from `start` up to `end`, by one request; not of a web server.

        Raises SourceChangedError as `get`.
        """
        with self._errors("read", key):
            try:
                options: GetOptions = {"if_match": f'"{etag}"', "range": (start, end)}
                return obstore.get(self._open(), key, options=options).bytes()
            except (NotFoundError, FileNotFoundError, PreconditionError) as error:
                raise self.changed(key) from error

    def digest(self, key: str, etag: str) -> str:
        """Return the SHA-256 of an object's content, in hexadecimal digits; it is read in pieces.

        Raises SourceChangedError as `get`.
        """
        client, digest = self._open(), hashlib.sha256()
        if isinstance(client, HTTPStore):
            return digest_of(self.get(key, etag))
        with self._errors("read", key):
            try:
                if isinstance(self.storage, LocalStorage):  # the client reads a file in small pieces
                    with Path(self.root, key).open("rb") as file:
                        digest = hashlib.file_digest(file, "sha256")
                else:
                    for piece in obstore.get(client, key, options={"if_match": f'"{etag}"'}):
                        digest.update(piece)
            except (NotFoundError, FileNotFoundError, PreconditionError) as error:
                raise self.changed(key) from error
        if isinstance(self.storage, LocalStorage) and ((found := self.find(key)) is None or found.etag != etag):
            raise self.changed(key)
        return digest.hexdigest()

    def checksum(self, key: str, etag: str) -> str:
        """Return what S3 or R2 keeps of an object's content, which is not read; see `s3.checksum`. Others keep none."""
        return s3.checksum(self.storage, key, etag) if isinstance(self.storage, S3Storage | R2Storage) else ""

    def _get_from_web(self, client: HTTPStore, key: str, etag: str) -> obstore.Bytes:
        """Get an object as `get` does; the ETag is compared afterwards, as `If-Match` never matches a weak one."""
        answer = obstore.get(client, key)
        body = answer.bytes()
        if web.version(client, answer.meta).strip('"') != etag:
            raise self.changed(key)
        return body

    def refusal(self, key: str) -> LakeAssetsError | None:
        """Return why S3 does not give an object, which no HEAD and no error of Arrow says; None if it does."""
        if not isinstance(self.storage, S3Storage | R2Storage):
            return None
        try:
            with self._errors("read", key):
                obstore.get(_made(once(self.storage)), key, options={"range": (0, 1)}).bytes()
        except LakeAssetsError as error:
            return error
        return None

    def changed(self, key: str) -> SourceError:
        """Return the error for an object that is gone, or has another ETag than in its listing."""
        return changed_object(self.uri(key))

    def put_new(self, key: str, body: bytes, *, multipart_above: int | None = None) -> bool:
        """Write an object, unless the key is taken; no reader sees a part of it.

        Up to the threshold it is one conditional request (`If-None-Match: *`), so the first of several writers wins.
        Larger objects are uploaded in parts. For these, and in a folder, the key is checked first, so the last of
        several writers at the same moment wins: use it only for keys whose writers all have the same bytes.

        `multipart_above` is in bytes, also the size of a part; that of the storage's requests, or 5 MiB, when None.
        Returns False if an object of this key and size was there; one of another size is a StorageError.
        """
        with self._errors("write", key):
            if isinstance(self.storage, LocalStorage):
                self._open()  # the root itself is not made
                if local.create(Path(self.root, key), body):
                    return True
            elif len(body) > (part := multipart_above or self.storage.requests.multipart_threshold or _PART):
                if self._size(key) is None:
                    obstore.put(self._open(), key, body, use_multipart=True, chunk_size=part)
                    return True
            else:
                with suppress(AlreadyExistsError):
                    obstore.put(self._open(), key, body, mode="create", use_multipart=False)
                    return True
            if (size := self._size(key)) != len(body):
                raise StorageError(
                    f"{self.uri(key)} exists with {size} bytes, and another object of {len(body)} bytes was to be "
                    "written there:",
                    "move it away, and run it again. Nothing was overwritten.",
                )
        return False

    def put_page(self, key: str, body: bytes) -> None:
        """Write an HTML page, and replace an earlier one; no reader sees a part of it.

        In a bucket it has the content type by which browsers show it. A local folder is made.
        """
        with self._errors("write", key):
            if isinstance(self.storage, LocalStorage):
                Path(self.root).mkdir(parents=True, exist_ok=True)
                obstore.put(self._open(), key, body, use_multipart=False)
            else:
                obstore.put(self._open(), key, body, attributes={"Content-Type": "text/html; charset=utf-8"})

    def put_own(self, key: str, body: bytes, *, multipart_above: int) -> None:
        """Write an object under a key that no other writer has, by one request or in parts.

        Without a condition, a request may be sent again after any error, so the client retries it. `multipart_above` is
        in bytes, also the size of a part.
        """
        with self._errors("write", key):
            in_parts = len(body) > multipart_above
            obstore.put(self._open(), key, body, use_multipart=in_parts, chunk_size=multipart_above)

    def find(self, key: str) -> LandedObject | None:
        """Return the object of this key as it is now, by one request; None if there is none."""
        with self._errors("read", key):
            try:
                return landed_object(self.root, obstore.head(self._open(), key))
            except (NotFoundError, FileNotFoundError):
                return None

    def is_marker(self, landed: LandedObject) -> bool:
        """Return whether a listed object is the marker of a folder, such as `region=NW/`; an empty one is asked for."""
        if landed.size or isinstance(self.storage, LocalStorage):
            return False
        with self._errors("read", landed.key):
            return walk.is_marker(self._open(), landed.key)

    def _size(self, key: str) -> int | None:
        """Return the bytes of an object; None if there is none."""
        landed = self.find(key)
        return None if landed is None else landed.size

    def delete(self, keys: tuple[str, ...]) -> None:
        """Remove objects; one that does not exist is not an error.

        S3 and R2 remove up to 1,000 objects by one request, Azure up to 256. Other stores take a request an object. If
        one request does not remove all of them, each is removed by its own request, so that the error names the object.
        If the store refuses to remove one of them, the others are removed; if it is unreachable, any of them may be
        left.
        """
        if len(keys) > 1 and self._delete_together(keys):
            return
        with ThreadPoolExecutor(_DELETIONS) as pool:
            list(pool.map(self._delete_one, keys))

    def _delete_together(self, keys: tuple[str, ...]) -> bool:
        """Return whether all of them were removed: none was gone already, and none was refused."""
        try:
            self._retried("delete", lambda client: obstore.delete(client, keys))
        except StorageUnreachableError:
            raise
        except StorageError:
            return False
        return True

    def _delete_one(self, key: str) -> None:
        def delete(client: Client) -> None:
            with suppress(NotFoundError, FileNotFoundError):
                obstore.delete(client, key)

        self._retried("delete", delete, key)

    def delete_unchanged(self, key: str, etag: str, size: int) -> bool:
        """Remove an object if it has not changed; False if another object has the key, which stays.

        It is compared first. In S3 and R2 the deletion also has the ETag as its condition. In other stores, and on
        servers without that condition, an object that is written between the two requests is lost.
        """
        landed = self.find(key)
        if landed is None:
            return True
        if (landed.etag, landed.size) != (etag, size):
            return False
        if not isinstance(self.storage, S3Storage | R2Storage):
            self.delete((key,))
            return True
        with self._errors("delete", key):
            is_gone = s3.delete_if_match(self.storage, key, etag)
        if is_gone is None:
            self.delete((key,))
            return True
        # Some servers refuse the condition if the object is gone, as it is after a first answer that was lost.
        return is_gone or self.find(key) is None

    def tag_unchanged(self, key: str, etag: str, size: int, name: str, value: str) -> bool:
        """Add a tag to an object in S3, beside those that it has, if it has not changed; it is compared first.

        Returns whether it is unchanged, and has the tag now.
        """
        assert isinstance(self.storage, S3Storage)  # noqa: S101 - the config requires it
        landed = self.find(key)
        if landed is None or (landed.etag, landed.size) != (etag, size):
            return False
        with self._errors("write", key):
            s3.tag(self.storage, key, name, value)
        return True

    def _listed(self, work: Callable[[], Result], prefix: str) -> Result:
        """Return the result of a listing, repeated if an answer breaks off; obstore's client does not retry that."""

        def attempt() -> Result:
            with self._errors("list", folder=prefix):
                return work()

        if isinstance(self.storage, LocalStorage):
            return attempt()
        return retried(self.storage, _has_broken_off, attempt)

    def _retried(self, operation: Operation, work: Callable[[Client], object], key: str | None = None) -> None:
        """Do what may be done twice, with the storage's retries and pauses.

        obstore's client sends a deletion once if the connection breaks, because the object may be gone then.
        """
        if isinstance(self.storage, LocalStorage):
            with self._errors(operation, key):
                work(self._open())
            return
        if self._once is None:
            with self._errors(operation, key):
                self._once = _made(once(self.storage))
        opened = self._once

        def attempt() -> None:
            with self._errors(operation, key):
                work(opened)

        retried(self.storage, StorageUnreachableError, attempt)

    def _open(self) -> Client:
        if self._client is None:
            if isinstance(self.storage, LocalStorage) and not Path(self.storage.path).is_dir():
                path = Path(self.storage.path)
                of_link = f", and {path} is a link to it" if path.is_symlink() else ""
                mount = "mount its disk, " if of_link else ""
                raise AbsentStorageError(
                    f"the folder {os.path.realpath(path) if of_link else path} does not exist{of_link}:",
                    f"{mount}create it, or correct it in the config (`source` of a stream).",
                )
            if isinstance(self.storage, S3Storage | R2Storage) and (self.storage.access.endpoint or "")[:5] == "https":
                _check_trust(self.storage)
            self._client = _made(self.storage)
        return self._client

    @contextmanager
    def _errors(self, operation: Operation, key: str | None = None, folder: str = "") -> Iterator[None]:
        """Raise the store's errors as ours, with the object of the key or the folder."""
        try:
            with using(self.storage):
                yield
        except (ObstoreError, OSError, ValueError) as error:
            mask_error(error, self.storage)
            if (odd := odd_name(error, self.root, None if key is None else self.uri(key))) is not None:
                raise odd from error
            if isinstance(error, ValueError) and not isinstance(error, ObstoreError):
                raise
            uri = None if key is None else self.uri(key)
            is_silent = key is not None and "performing HEAD" in str(error)  # the answer to it has no body
            ours = self.refusal(key) if key is not None and is_silent else None
            raise (
                ours or storage_error(error, self.storage, operation, uri, lambda: self._refusing(folder))
            ) from error

    def _refusing(self, folder: str) -> str:
        """Return the URI that cannot be listed: this folder alone, or the whole store, for one error of all folders."""
        if folder:
            with suppress(StorageError):
                self.probe()
                return self.uri(folder)
        return self.root


def _made(storage: AnyStorage) -> Client:
    try:
        return as_obstore(storage)
    except ObstoreError as error:
        mask_error(error, storage)
        raise StorageError(f"{location(storage)} cannot be used: {reason(error)}:", access_fix(storage)) from error


@lru_cache(maxsize=8)
def _check_trust(storage: S3Storage | R2Storage) -> None:
    """Raise the error for a certificate that is not trusted, after which obstore would ask again for seconds."""
    try:
        obstore.head(_made(quick(storage, 5)), "_")
    except (ObstoreError, OSError) as error:
        if meaning_of(error) is Meaning.UNTRUSTED:
            raise storage_error(error, storage, "read") from error


def _has_broken_off(error: BaseException) -> bool:
    return isinstance(error, StorageUnreachableError) and find(error, Meaning.BROKEN_OFF) is not None

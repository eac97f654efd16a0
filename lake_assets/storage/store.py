"""One object store, for driver and tasks: listing with ETags, reading, writing, deleting; of folders and buckets."""

import hashlib
import posixpath
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import obstore
import pyarrow as pa
from obstore.exceptions import AlreadyExistsError, NotFoundError, NotSupportedError, PreconditionError
from obstore.exceptions import BaseError as ObstoreError
from pyarrow import fs

from lake_assets.base.errors import (
    KeyOrderError,
    LakeAssetsError,
    SourceChangedError,
    SourceError,
    StorageError,
    StorageUnreachableError,
)
from lake_assets.base.retrying import Result
from lake_assets.config.layout.hive import is_data
from lake_assets.config.secrets import mask_error, masking
from lake_assets.config.storages import AnyStorage
from lake_assets.storage.backend import Client, Hides
from lake_assets.storage.bucket import Bucket
from lake_assets.storage.manifest import TIME, LandedObject, etag_of, landed_object
from lake_assets.storage.object_files import ARROWS_PART, BufferedUpload, RangeFile, copied
from lake_assets.storage.overlapping import listing_position, neighbours, passed, requested
from lake_assets.storage.server_answers import Meaning, is_absent, meaning_of, request_may_pass
from lake_assets.storage.storage_errors import (
    Operation,
    StorageRequest,
    changed_object,
    location,
    no_answer,
    odd_name,
    storage_error,
    write_errors,
)
from lake_assets.storage.storage_kinds import backend_of

if TYPE_CHECKING:
    from obstore import Attributes, GetOptions, ObjectMeta

_BUFFER = 2**20  # bytes of a new object
_PART = 5 * 2**20  # bytes of a landed file, above which it is uploaded in parts
CHUNK = 16 * 2**20  # bytes of a copy at a time
_AHEAD = 2  # chunks that are fetched while one is written
_GONE = (NotFoundError, FileNotFoundError, PreconditionError)


class Store:
    """The objects below a storage's root, addressed by keys relative to it.

    Keys are exactly those of the store; a percent sign in a key has no meaning. No connection is made at first.
    """

    def __init__(self, storage: AnyStorage) -> None:
        self.storage = storage
        self.backend = backend_of(storage)

    @cached_property
    def root(self) -> str:
        """The root as a URI without a trailing slash: an absolute path, or of the form `s3://bucket/prefix`."""
        return self.storage.root

    def uri(self, key: str) -> str:
        """Return the key as a URI that DuckDB, Spark and people understand."""
        return f"{self.root}/{key}"

    def probe(self) -> LandedObject | None:
        """Return an object below the root, hidden or not, by one request; None if there is none."""
        page = self._request("list", lambda client: next(iter(obstore.list(client, chunk_size=1)), ()))
        return landed_object(self.root, page[0]) if page else None

    @property
    def is_listable(self) -> bool:
        """Whether objects can be listed; a web server has no listing."""
        return self.storage.is_listable

    def list(self, prefix: str = "", files: str = "*") -> tuple[LandedObject, ...]:
        """Return the objects below a folder, sorted by key; nothing outside the folder is listed.

        Names that begin with `_` or `.` are left out, as Hive and Spark do with `_SUCCESS` and unfinished files, and so
        are folder markers.

        `files` is a pattern that the last part of the key must match. One with a slash matches the whole key below the
        folder: `*` is within a name, and `**` is any number of folders. For a store that is not listable, it is the
        name of one object.
        """
        if not self.is_listable:
            landed = self.find(f"{prefix}{files.lstrip('/')}")
            return () if landed is None else (landed,)
        with self._errors("list", folder=prefix):
            metas = [meta for page in self.backend.unordered_pages(prefix) for meta in page]
        root = prefix.rstrip("/").count("/") + 1 if prefix else 0
        objects = (landed_object(self.root, meta) for meta in metas if is_data(meta["path"].split("/")[root:], files))
        return tuple(sorted(objects, key=lambda landed: landed.key))

    def together(self, prefixes: Collection[str]) -> dict[str, tuple[LandedObject, ...]]:
        """Return the objects below those of the prefixes that a few requests list, each sorted by key.

        The others are to be listed by `all`: they are few, among too many other objects, or the store has refused the
        folder around them.
        """
        bucket, result = self.backend, dict[str, tuple[LandedObject, ...]]()
        if not (isinstance(bucket, Bucket) and self.is_listable):
            return result

        def listed(near: Sequence[str]) -> Mapping[str, Sequence["ObjectMeta"]]:
            folder = posixpath.commonpath(near)
            is_first = near[0] == min(near, key=partial(listing_position, tree=True))
            with suppress(StorageError), self._errors("list", folder=folder):
                return passed(bucket.pages_once(folder, near[0] if is_first else ""), near)
            return {}

        for of_near in requested(self.storage, listed, neighbours(prefixes)):
            for prefix, metas in of_near.items():
                objects = (landed_object(self.root, meta) for meta in metas)
                result[prefix] = tuple(sorted(objects, key=lambda landed: landed.key))
        return result

    def all(
        self, prefix: str = "", listed: Callable[[int], object] = lambda _: None, *, hides: Hides
    ) -> tuple[LandedObject, ...]:
        """Return the objects below a folder, sorted by key, also hidden ones; nothing outside the folder is listed.

        `prefix` is a folder or the beginning of names; see `Backend.pages`. A local folder that `hides` knows may
        refuse to be read. `listed` is called with the number of objects each time that so many more have been listed.
        """
        objects: list[LandedObject] = []
        with self._errors("list", folder=prefix):
            is_name = prefix and not prefix.endswith("/")
            for page in (self._named_pages if is_name else self.backend.unordered_pages)(prefix, hides):
                listed(len(page))
                objects += (landed_object(self.root, meta) for meta in page)
        return tuple(sorted(objects, key=lambda landed: landed.key))

    def _named_pages(self, prefix: str, hides: Hides) -> "Iterator[Sequence[ObjectMeta]]":
        """Yield the objects whose keys begin with a text, by a listing that begins and ends with them if possible."""
        try:
            yield from list(self.backend.pages(prefix, "", tree=False))
        except KeyOrderError:
            for page in self.backend.unordered_pages(prefix.rpartition("/")[0], hides):
                yield [meta for meta in page if meta["path"].startswith(prefix)]

    def pages(self, prefix: str = "", after: str = "", *, tree: bool = False) -> Iterator[tuple[LandedObject, ...]]:
        """Yield all objects below a folder in the order of their keys, hidden ones too, up to 1,000 at a time.

        In stores that can begin a listing after a key (S3, R2 and GCS), objects before it cost nothing. `prefix` is a
        folder or the beginning of names; see `Backend.pages`, which has the errors.
        """
        with self._errors("list", folder=prefix):
            pages = self.backend.pages(prefix, after, tree=tree)
            yield from (tuple(landed_object(self.root, meta) for meta in page) for page in pages)

    def folders(self, prefix: str = "") -> tuple[str, ...]:
        """Return the folders right below a folder, sorted, each from the root on and without a slash at its end."""
        with self._errors("list", folder=prefix):
            return tuple(sorted(self.backend.folders(prefix.rstrip("/"))))

    def is_reachable(self) -> bool:
        """Return whether the store answers, also by a refusal; True for folders, without a request."""
        with suppress(StorageError):
            try:
                if not self.storage.is_local:
                    self.probe() if self.is_listable else self.find("")
            except StorageUnreachableError:
                return False
        return True

    def get(self, key: str, etag: str) -> bytes | obstore.Bytes:
        """Return the bytes of a whole object, by one request; SourceChangedError if it is gone, or has another ETag."""

        def got(client: Client) -> bytes | obstore.Bytes:
            content = self.backend.content(key, etag)
            return self._answer(client, key, etag).bytes() if content is None else content

        return self._request("read", got, key)

    def get_range(self, key: str, etag: str, start: int, end: int) -> obstore.Bytes:
        """Return the bytes of an object from `start` up to `end`, by one request; not of a web server.

        Raises SourceChangedError as `get`.
        """
        return self._request("read", lambda client: self._answer(client, key, etag, (start, end)).bytes(), key)

    def _answer(self, client: Client, key: str, etag: str, span: tuple[int, int] | None = None) -> "obstore.GetResult":
        """Get an object under its ETag, which is compared afterwards where it is a time, or weak as a web server's."""
        options: GetOptions = {} if span is None else {"range": span}
        is_time = etag.startswith(TIME)
        if self.backend.has_conditions and not is_time:
            options["if_match"] = f'"{etag}"'
        answer = obstore.get(client, key, options=options)
        if "if_match" not in options:
            now = etag_of(answer.meta, is_time=True) if is_time else self.backend.etag(answer.meta)
            if now != etag:
                raise self.changed(key)
        return answer

    @cached_property
    def _arrow(self) -> fs.FileSystem | None:
        with masking(self.storage):
            return self.backend.as_arrow()

    def _arrows_path(self, key: str) -> str:
        """Return a key as Arrow has it: behind the bucket, where there is one."""
        return f"{self.root.split('://', 1)[-1]}/{key}"

    def open(self, key: str) -> pa.NativeFile:
        """Return an object for random access. Arrow's own errors are OSError.

        An error of an open file may hold a signed URL of Azure, so callers read and write inside `masking`.
        """
        with masking(self.storage), _arrow_errors_as_os_errors():
            return self._arrow.open_input_file(self._arrows_path(key)) if self._arrow else self._by_ranges(key)

    def _by_ranges(self, key: str) -> pa.NativeFile:
        """Return an object for random access: by ranges, or from a temporary copy if the server has no ranges."""

        def looked(client: Client) -> tuple[int, IO[bytes] | None]:
            size = obstore.head(client, key)["size"]
            with suppress(NotSupportedError):
                obstore.get_range(client, key, start=0, length=1)
                return size, None
            return size, copied(obstore.get(client, key))

        def fetched(start: int, end: int) -> bytes:
            return self._request(
                "read", lambda client: obstore.get_range(client, key, start=start, end=end), key
            ).to_bytes()

        size, copy = self._request("read", looked, key)
        return pa.PythonFile(copy or RangeFile(size, fetched), "r")

    def redirection_error(self, key: str) -> StorageError | None:
        """Return the error for an object whose size Arrow's client takes from a redirection; None if it is right."""
        if not isinstance(self._arrow, fs.S3FileSystem) or (landed := self.find(key)) is None:
            return None
        if self._arrow.get_file_info(self._arrows_path(key)).size == landed.size:
            return None
        return StorageError(
            f"{location(self.storage)} sends requests on to another server, which Arrow's client does not follow:",
            "correct `endpoint` to the server that answers.",
        )

    def create(self, key: str) -> pa.NativeFile:
        """Return a new object; it is visible only when the stream is closed, except in a local folder.

        Errors are as of `open`; to close a small object may raise StorageError too.
        """
        if self.storage.requests is None:
            Path(self.root, key).parent.mkdir(parents=True, exist_ok=True)
            return self.stream(key)
        part = self.storage.requests.multipart_threshold or ARROWS_PART
        put = partial(self.put_own, key, multipart_above=part)
        upload = pa.PythonFile(BufferedUpload(partial(self.stream, key), put, part), mode="w")
        return pa.BufferedOutputStream(upload, _BUFFER)  # Parquet has many small pieces, each a call of Python

    def stream(self, key: str) -> Any:  # noqa: ANN401 - a file of Arrow's, or of obstore's
        """Create an object as `create` does, by the client of the store; the object's folder exists."""
        with masking(self.storage), _arrow_errors_as_os_errors():
            if self._arrow is None:
                return obstore.open_writer(self.backend.as_obstore(), key)
            return self._arrow.open_output_stream(self._arrows_path(key), compression=None)

    def digest(self, key: str, etag: str) -> str:
        """Return the SHA-256 of an object's content, in hexadecimal digits; it is read in pieces.

        Raises SourceChangedError as `get`.
        """

        def digested(client: Client) -> str:
            if self.storage.is_local:  # the client reads a file in small pieces
                with Path(self.root, key).open("rb") as file:
                    return hashlib.file_digest(file, "sha256").hexdigest()
            digest = hashlib.sha256()
            for piece in self._answer(client, key, etag):
                digest.update(piece)
            return digest.hexdigest()

        digest = self._request("read", digested, key)
        if self.storage.is_local and ((landed := self.find(key)) is None or landed.etag != etag):
            raise self.changed(key)
        return digest

    def checksum(self, key: str, etag: str) -> str:
        """Return what S3 or R2 keeps of an object's content, which is not read. Others keep none."""
        return self.backend.checksum(key, etag)

    def refusal(self, key: str) -> LakeAssetsError | None:
        """Return why a store does not give an object, which no HEAD or error of Arrow says; None if it does by both."""
        if self.storage.is_local:
            return None
        try:
            with self._errors("read", key), suppress(NotSupportedError):
                obstore.get(self.backend.client, key, options={"range": (0, 1)}).bytes()
        except LakeAssetsError as error:
            return None if isinstance(error, SourceChangedError) else error
        if not self.storage.is_listable:  # a web server's own words are for any refusal
            return None
        try:
            obstore.head(self.backend.client, key)
        except ObstoreError as error:
            if meaning_of(error) in (Meaning.REFUSED, Meaning.WRONG_REQUEST):
                return StorageError(
                    f"{location(self.storage)} gives {self.uri(key)} by GET, and refuses its HEAD:",
                    "let the proxy before it permit requests of HEAD as of GET.",
                )
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

        def created(_: Client) -> bool:
            try:
                return self.backend.create(key, body)
            except AlreadyExistsError as error:
                if self._size(key) is None:  # a refusal while another request is at work on the key, which may pass
                    raise no_answer(error, self.storage, f"{self.uri(key)} was not written") from error
                return False

        requests = self.storage.requests
        part = multipart_above or (requests and requests.multipart_threshold) or _PART
        if requests is None or len(body) <= part:
            is_new = self._request("write", created, key)
        elif is_new := self.find(key) is None:
            self.put_own(key, body, multipart_above=part)
        if not is_new and (size := self._size(key)) != len(body):
            raise StorageError(
                f"{self.uri(key)} exists with {size} bytes, and another object of {len(body)} bytes was to be written "
                "there:",
                "move it away, and run it again. Nothing was overwritten.",
            )
        return is_new

    def put_page(self, key: str, body: bytes) -> None:
        """Write an HTML page, and replace an earlier one; no reader sees a part of it.

        In a bucket it has the content type by which browsers show it. A local folder is made.
        """
        kind: Attributes | None = {"Content-Type": "text/html; charset=utf-8"}
        if self.storage.is_local:
            kind = None
            with self._errors("write", key):
                Path(self.root).mkdir(parents=True, exist_ok=True)
        self._request("write", lambda client: obstore.put(client, key, body, use_multipart=False, attributes=kind), key)

    def put_own(self, key: str, body: bytes, *, multipart_above: int) -> None:
        """Write an object under a key that no other writer has, by one request or in parts.

        `multipart_above` is in bytes, also the size of a part.
        """
        in_parts = len(body) > multipart_above
        self._request(
            "write",
            lambda client: obstore.put(client, key, body, use_multipart=in_parts, chunk_size=multipart_above),
            key,
        )

    def find(self, key: str) -> LandedObject | None:
        """Return the object of this key as it is now, by one request; None if there is none."""

        def looked(client: Client) -> LandedObject | None:
            try:
                meta = obstore.head(client, key)
            except (NotFoundError, FileNotFoundError):
                return None
            return landed_object(self.root, {**meta, "e_tag": self.backend.etag(meta)})

        return self._request("read", looked, key)

    def is_marker(self, landed: LandedObject) -> bool:
        """Return whether a listed object is the marker of a folder, such as `region=NW/`; an empty one is asked for."""
        return not landed.size and not self.storage.is_local and self.find(landed.key) is None

    def _size(self, key: str) -> int | None:
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
        refusals = [error for error in requested(self.storage, self._delete_one, keys) if error is not None]
        if refusals:
            raise refusals[0]

    def _delete_together(self, keys: tuple[str, ...]) -> bool:
        """Return whether all of them were removed: none was gone already, and none was refused."""
        try:
            self._request("delete", lambda client: obstore.delete(client, keys))
        except StorageUnreachableError:
            raise
        except StorageError:
            return False
        return True

    def _delete_one(self, key: str) -> StorageError | None:
        """Remove an object; returns the error if the store refuses to, and raises that of a store out of reach."""

        def delete(client: Client) -> None:
            with suppress(NotFoundError, FileNotFoundError):
                obstore.delete(client, key)

        try:
            self._request("delete", delete, key)
        except StorageUnreachableError:
            raise
        except StorageError as error:
            return error
        return None

    def delete_unchanged(self, landed: LandedObject) -> bool:
        """Remove an object if it has not changed; False if another object has the key, which stays.

        It is compared first. In S3 and R2 the deletion also has the ETag as its condition. In other stores, and on
        servers without that condition, an object that is written between the two requests is lost.
        """
        key, now = landed.key, self.find(landed.key)
        if now is None:
            return True
        if (now.etag, now.size) != (landed.etag, landed.size):
            return False
        with self._errors("delete", key):
            is_gone = self.backend.delete_if_match(key, landed.etag)
        if is_gone is None:
            self.delete((key,))
            return True
        # Some servers refuse the condition if the object is gone, as it is after a first answer that was lost.
        return is_gone or self.find(key) is None

    def tag_unchanged(self, landed: LandedObject, name: str, value: str) -> bool:
        """Add a tag to an object in S3, beside those that it has, if it has not changed; it is compared first.

        Returns whether it is unchanged, and has the tag now.
        """
        now = self.find(landed.key)
        if now is None or (now.etag, now.size) != (landed.etag, landed.size):
            return False
        with self._errors("write", landed.key):
            self.backend.tag(landed.key, name, value)
        return True

    def copy(self, source: AnyStorage, original: LandedObject, key: str, *, may_link: bool = False) -> None:
        """Copy an object to a key that is free, with the content that the listing of its source saw and no other.

        Between buckets of one server, S3 and R2 copy it under the ETag as a condition. In folders, the copy shares the
        blocks of the original, or is a hard link to it, where the file system can. Otherwise the bytes pass through
        this process. Metadata, tags and storage class of the original are not copied. The source is not a web server.

        `may_link`: files of the source never change in place, so that a hard link is as good as a copy. Raises
        SourceChangedError if the original is gone or has changed; the copy may exist then, and is not valid.
        """
        if not self.backend.copied_from(source, original, key, may_link=may_link):
            self._copy_bytes(Store(source), original, key)
        elif not self.storage.is_local:
            return  # whole, by the ETag
        if (size := self._size(key)) != original.size:
            raise StorageError(
                f"the copy {self.uri(key)} has {size} bytes, and {source.root}/{original.key} has {original.size}:",
                "run it again.",
            )

    def _copy_bytes(self, source: "Store", original: LandedObject, key: str) -> None:
        with (
            masking(source.storage, self.storage),
            ThreadPoolExecutor(_AHEAD) as pool,
            write_errors(self.storage, self.uri(key)),
            self.create(key) as sink,
        ):
            for chunk in source.chunks(original, pool):
                sink.write(memoryview(chunk))

    def chunks(self, original: LandedObject, pool: ThreadPoolExecutor) -> Iterator[obstore.Bytes]:
        """Yield the bytes of an object in order; the next ones are fetched while some are written."""
        fetched: deque[Future[obstore.Bytes]] = deque()
        for start in range(0, original.size, CHUNK):
            end = min(start + CHUNK, original.size)
            fetched.append(pool.submit(self.get_range, original.key, original.etag, start, end))
            if len(fetched) > _AHEAD:
                yield fetched.popleft().result()
        while fetched:
            yield fetched.popleft().result()

    def abort_uploads(self, prefix: str) -> None:
        """Abort the uploads to keys with this prefix; see `Backend.abort_uploads`."""
        self.backend.abort_uploads(prefix)

    def _request(self, operation: Operation, work: Callable[[Client], Result], key: str | None = None) -> Result:
        """Return the result of requests, which are sent again after errors that may pass.

        The client sends each of them once: it would repeat each answer of 500 and above, and a deletion never.
        """

        def attempt() -> Result:
            with self._errors(operation, key):
                return work(self.backend.client)

        return self.backend.retried(StorageUnreachableError, attempt)

    @contextmanager
    def _errors(self, operation: Operation, key: str | None = None, folder: str = "") -> Iterator[None]:
        """Raise the store's errors as ours, with the object of the key or the folder."""
        try:
            yield
        except (ObstoreError, OSError, ValueError) as error:
            mask_error(error, self.storage)
            if operation == "read" and key is not None and isinstance(error, _GONE) and not is_absent(error):
                raise self.changed(key) from error
            if (odd := odd_name(error, self.root, None if key is None else self.uri(key))) is not None:
                raise odd from error
            if isinstance(error, ValueError) and not isinstance(error, ObstoreError):
                raise
            is_silent = "performing HEAD" in str(error) and not request_may_pass(error)  # the answer to it has no body
            ours = self.refusal(key) if key is not None and is_silent else None
            uri = None if key is None else self.uri(key)
            request = StorageRequest(self.storage, operation, uri, lambda: self._refusing(folder))
            raise (ours or storage_error(error, request)) from error

    def _refusing(self, folder: str) -> str:
        """Return the URI that cannot be listed: this folder alone, or the whole store, for one error of all folders."""
        if folder:
            with suppress(StorageError):
                self.probe()
                return self.uri(folder)
        return self.root


@contextmanager
def _arrow_errors_as_os_errors() -> Iterator[None]:
    """Raise an error that Arrow does not know, such as Azure's of a chain without credentials, as an OSError."""
    try:
        yield
    except pa.ArrowException as error:
        if type(error) is not pa.ArrowException:
            raise
        raise OSError(str(error)) from error


@lru_cache(maxsize=8)
def kept_store(storage: AnyStorage) -> Store:
    """Return the store that a worker keeps: the clients of a bucket take as long to make as some requests."""
    return Store(storage)

"""Copies of landed objects: by the store itself where it can, else through this process; never of changed content."""

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

from obstore import Bytes

from lake_assets.base.errors import StorageError
from lake_assets.config.secrets import masking
from lake_assets.config.storages import AnyStorage
from lake_assets.storage.backends import backend_of
from lake_assets.storage.manifest import LandedObject
from lake_assets.storage.storage_errors import storage_errors
from lake_assets.storage.store import Store

CHUNK = 16 * 2**20  # bytes at a time
_AHEAD = 2  # chunks that are fetched while one is written


def copy_object(
    source: AnyStorage, original: LandedObject, target: AnyStorage, key: str, *, may_link: bool = False
) -> None:
    """Copy an object under a new key, with the content that the listing saw and no other.

    Between buckets of one server, S3 and R2 copy it under the ETag as a condition. In folders, the copy shares the
    blocks of the original, or is a hard link to it, where the file system can. Otherwise the bytes pass through this
    process. Metadata, tags and storage class of the original are not copied. The source is not a web server, and the
    key is free.

    `may_link`: files of the source never change in place, so that a hard link is as good as a copy. Raises
    SourceChangedError if the original is gone or has changed; the copy may exist then, and is not valid.
    """
    if not backend_of(target).copied_from(source, original, key, may_link=may_link):
        _copy_bytes(Store(source), original, Store(target), key)
    elif not target.is_local:
        return  # whole, by the ETag
    copy = Store(target).find(key)
    if copy is None or copy.size != original.size:
        size = None if copy is None else copy.size
        raise StorageError(
            f"the copy {target.root}/{key} has {size} bytes, and {source.root}/{original.key} has {original.size}:",
            "run it again.",
        )


def _copy_bytes(source: Store, original: LandedObject, target: Store, key: str) -> None:
    with (
        masking(source.storage, target.storage),
        ThreadPoolExecutor(_AHEAD) as pool,
        storage_errors(target.storage, target.uri(key), "write"),
        target.create(key) as sink,
    ):
        for chunk in _chunks(source, original, pool):
            sink.write(memoryview(chunk))


def _chunks(source: Store, original: LandedObject, pool: ThreadPoolExecutor) -> Iterator[Bytes]:
    """Yield the bytes of an object in order; the next ones are fetched while some are written."""
    fetched: deque[Future[Bytes]] = deque()
    for start in range(0, original.size, CHUNK):
        end = min(start + CHUNK, original.size)
        fetched.append(pool.submit(source.get_range, original.key, original.etag, start, end))
        if len(fetched) > _AHEAD:
            yield fetched.popleft().result()
    while fetched:
        yield fetched.popleft().result()

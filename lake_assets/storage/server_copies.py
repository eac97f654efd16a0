"""Copies of landed objects: by the store itself where it can, else through this process; never of changed content."""

import errno
import fcntl
import os
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from obstore import Bytes

from lake_assets.base.errors import StorageError
from lake_assets.config.secrets import masking
from lake_assets.config.storages import AnyStorage, LocalStorage, R2Storage, S3Storage
from lake_assets.storage.arrow import ArrowStore
from lake_assets.storage.manifest import Original
from lake_assets.storage.s3 import copy_in_s3
from lake_assets.storage.storage_errors import storage_errors
from lake_assets.storage.store import Store

CHUNK = 16 * 2**20  # bytes at a time
_AHEAD = 2  # chunks that are fetched while one is written
_NOT_IN_KERNEL = {errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM}
_FICLONE = 0x40049409  # of Linux: the new file shares the blocks of the other one until one of them changes


def copy_object(
    source: AnyStorage, original: Original, target: AnyStorage, key: str, *, may_link: bool = False
) -> None:
    """Copy an object under a new key, with the content that the listing saw and no other.

    Between buckets of one server, S3 and R2 copy it under the ETag as a condition. In folders, the copy shares the
    blocks of the original, or is a hard link to it, where the file system can. Otherwise the bytes pass through this
    process. Metadata, tags and storage class of the original are not copied. The source is not a web server, and the
    key is free.

    `may_link`: files of the source never change in place, so that a hard link is as good as a copy. Raises
    SourceChangedError if the original is gone or has changed; the copy may exist then, and is not valid.
    """
    is_local = isinstance(source, LocalStorage) and isinstance(target, LocalStorage)
    if is_local:
        with storage_errors(target, f"{target.root}/{key}", "write"):
            _copy_file(Store(source), original, Path(target.root, key), may_link=may_link)
    elif _copied_by_store(source, original, target, key):
        return  # whole, by the ETag
    else:
        _copy_bytes(Store(source), original, ArrowStore(target), key)
    copied = Path(target.root, key).stat().st_size if is_local else _size(target, key)
    if copied != original.size:
        raise StorageError(
            f"the copy {target.root}/{key} has {copied} bytes, and {source.root}/{original.key} has {original.size}:",
            "run it again.",
        )


def _copied_by_store(source: AnyStorage, original: Original, target: AnyStorage, key: str) -> bool:
    """Return whether the store made the copy; it may be unable, or refuse the target's credentials the original."""
    if not isinstance(source, S3Storage | R2Storage) or not isinstance(target, S3Storage | R2Storage):
        return False
    return source.access.endpoint == target.access.endpoint and copy_in_s3(source, original, target, key)


def _size(target: AnyStorage, key: str) -> int | None:
    found = Store(target).find(key)
    return None if found is None else found.size


def _copy_bytes(source: Store, original: Original, target: ArrowStore, key: str) -> None:
    with (
        masking(source.storage, target.storage),
        ThreadPoolExecutor(_AHEAD) as pool,
        storage_errors(target.storage, target.uri(key), "write"),
        target.create(key) as sink,
    ):
        for chunk in _chunks(source, original, pool):
            sink.write(memoryview(chunk))


def _chunks(source: Store, original: Original, pool: ThreadPoolExecutor) -> Iterator[Bytes]:
    """Yield the bytes of an object in order; the next ones are fetched while some are written."""
    fetched: deque[Future[Bytes]] = deque()
    for start in range(0, original.size, CHUNK):
        end = min(start + CHUNK, original.size)
        fetched.append(pool.submit(source.get_range, original.key, original.etag, start, end))
        if len(fetched) > _AHEAD:
            yield fetched.popleft().result()
    while fetched:
        yield fetched.popleft().result()


def _copy_file(source: Store, original: Original, path: Path, *, may_link: bool) -> None:
    """Copy a file of this machine: by reflink, by hard link, or within the kernel."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        file = os.open(Path(source.root, original.key), os.O_RDONLY)
    except FileNotFoundError as error:
        raise source.changed(original.key) from error
    try:
        _refuse_changed(source, original, file)
        if not (may_link and _links(file, Path(source.root, original.key), path)):
            target = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
            try:
                fill(file, target, original.size)
            finally:
                os.close(target)
        _refuse_changed(source, original, file)
    finally:
        os.close(file)


def fill(file: int, target: int, size: int) -> None:
    """Copy `size` bytes of an open file to an empty one, by reflink where the file system can."""
    with suppress(OSError):  # another file system, or one without reflinks
        fcntl.ioctl(target, _FICLONE, file)
        return
    done = 0
    while done < size:
        try:
            count = os.copy_file_range(file, target, size - done, done)
        except OSError as error:
            if error.errno not in _NOT_IN_KERNEL:
                raise
            count = os.sendfile(target, file, done, size - done)
        if not count:
            return  # the original is shorter now, which the caller finds
        done += count


def _links(file: int, path: Path, link: Path) -> bool:
    """Return whether the link is a hard link to the open file."""
    try:
        link.hardlink_to(path)
    except OSError:  # another file system, or one without hard links
        return False
    if link.stat().st_ino == os.fstat(file).st_ino:
        return True
    link.unlink()  # the name has another file now
    return False


def _refuse_changed(source: Store, original: Original, file: int) -> None:
    status = os.fstat(file)
    # As the client has it in the ETag of a file.
    etag = f"{status.st_ino:x}-{status.st_mtime_ns // 1000:x}-{status.st_size:x}"
    if etag != original.etag:
        raise source.changed(original.key)

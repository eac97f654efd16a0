"""Folders as storages: listed in the order of object stores, written whole under free names, copied by the system."""

# ruff: noqa: D102 - `Backend` says what the methods do

import datetime as dt
import errno
import fcntl
import os
import secrets
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from obstore.store import LocalStore
from pyarrow import fs

from lake_assets.base.errors import AbsentStorageError
from lake_assets.base.retrying import Result, Transient
from lake_assets.config.layout.hive import is_hidden
from lake_assets.config.storages import AnyStorage, LocalStorage
from lake_assets.storage.backend import Backend, Hides
from lake_assets.storage.manifest import LandedObject
from lake_assets.storage.storage_errors import changed_object, write_errors

if TYPE_CHECKING:
    from obstore import ObjectMeta

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_PAGE = 1000  # files, as of a bucket
_NOT_IN_KERNEL = {errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM}
_FICLONE = 0x40049409  # of Linux: the new file shares the blocks of the other one until one of them changes


class Folder(Backend[LocalStorage]):
    """A folder. A byte of a name that is not UTF-8 is a surrogate in the key, as in Python's names of files."""

    def as_obstore(self) -> LocalStore:
        return LocalStore(self.storage.path)

    def as_arrow(self) -> fs.FileSystem:
        return fs.LocalFileSystem()

    @cached_property
    def client(self) -> LocalStore:
        path = Path(self.storage.path)
        if not path.is_dir():
            of_link = f", and {path} is a link to it" if path.is_symlink() else ""
            mount = "mount its disk, " if of_link else ""
            raise AbsentStorageError(
                f"the folder {os.path.realpath(path) if of_link else path} does not exist{of_link}:",
                f"{mount}create it, or correct it in the config (`source` of a stream).",
            )
        return self.as_obstore()

    @property
    def _root(self) -> str:
        """The path; AbsentStorageError if the folder does not exist."""
        _ = self.client
        return self.storage.root

    def retried(self, transient: Transient, work: Callable[[], Result]) -> Result:  # noqa: ARG002 - the system retries
        return work()

    def pages(self, prefix: str, after: str, *, tree: bool) -> Iterator[Sequence["ObjectMeta"]]:  # noqa: ARG002 - it has both orders
        return _in_pages(_files(self._root, prefix.rpartition("/")[0], after, begin=prefix))

    def unordered_pages(self, prefix: str, hides: Hides | None = None) -> Iterator[Sequence["ObjectMeta"]]:
        # obstore fails at a name that is not UTF-8, and omits files that it may not read.
        return _in_pages(_files(self._root, prefix.rstrip("/"), "", with_hidden=hides is not None, hides=hides))

    def folders(self, prefix: str) -> Sequence[str]:
        return [key.rstrip("/") for key, entry in _entries(self._root, prefix) if entry.is_dir()]

    def content(self, key: str, etag: str) -> bytes:
        path = f"{self._root}/{key}"  # a text, as the name may be bytes that are not UTF-8
        file = os.open(path, os.O_RDONLY)
        with os.fdopen(file, "rb", buffering=0) as opened:
            _refuse_changed(path, etag, file)
            data = opened.read()
            _refuse_changed(path, etag, file)  # while it was read
        return data

    def create(self, key: str, body: bytes) -> bool:
        return create(Path(self.storage.root, key), body)

    def copied_from(self, source: AnyStorage, original: LandedObject, key: str, *, may_link: bool) -> bool:
        if not source.is_local:
            return False
        with write_errors(self.storage, f"{self.storage.root}/{key}"):
            _copy_file(Path(source.root, original.key), original, Path(self.storage.root, key), may_link=may_link)
        return True


def create(path: Path, body: bytes) -> bool:
    """Write a new file of which no reader sees a part; its folders are made. Returns False if the name is taken.

    It is not forced to disk, so a loss of power may lose it. The last of several writers at the same moment wins. (With
    a hard link instead of the rename the first would win, and it takes three times as long.) Until the file is complete
    it has a name that begins with a dot and so is never data. An OSError leaves no part of it.
    """
    # With texts and descriptors: Path and file objects would double the time for a file of some kilobytes.
    name = str(path)
    if os.path.exists(name):  # noqa: PTH110
        return False
    folder, last = os.path.split(name)
    writing = f"{folder}/.{last}.{secrets.token_hex(4)}"
    try:
        file = os.open(writing, _NEW, 0o666)
    except FileNotFoundError:
        Path(folder).mkdir(parents=True, exist_ok=True)
        file = os.open(writing, _NEW, 0o666)
    try:
        try:
            view = memoryview(body)
            while view:
                view = view[os.write(file, view) :]
        finally:
            os.close(file)
        Path(writing).rename(path)
    except BaseException:
        Path(writing).unlink(missing_ok=True)
        raise
    return True


def _in_pages(files: Iterator["ObjectMeta"]) -> Iterator[Sequence["ObjectMeta"]]:
    while page := list(islice(files, _PAGE)):
        yield page


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
            time = _EPOCH + dt.timedelta(microseconds=status.st_mtime_ns // 1000)  # as the client of a single object
            size, etag = status.st_size, _etag(status)
            yield {"path": key, "last_modified": time, "size": size, "e_tag": etag, "version": None}


def _etag(status: os.stat_result) -> str:
    """Return the ETag of a file, as obstore has it; a time before 1970 is that of 1970."""
    return f"{status.st_ino:x}-{max(status.st_mtime_ns // 1000, 0):x}-{status.st_size:x}"


def _entries(root: str, folder: str) -> list[tuple[str, "os.DirEntry[str]"]]:
    """Return the entries of a folder by key; keys of folders end in a slash. A folder that does not exist has none."""
    path = os.path.join(root, *folder.split("/")) if folder else root  # noqa: PTH118 - a path of bytes that are not text
    start = f"{folder}/" if folder else ""
    try:
        with os.scandir(path) as entries:
            return [(f"{start}{e.name}/" if e.is_dir() else f"{start}{e.name}", e) for e in entries]
    except FileNotFoundError:
        return []


def _copy_file(path: Path, original: LandedObject, copy: Path, *, may_link: bool) -> None:
    """Copy a file: by reflink, by hard link, or within the kernel."""
    copy.parent.mkdir(parents=True, exist_ok=True)
    try:
        file = os.open(path, os.O_RDONLY)
    except FileNotFoundError as error:
        raise changed_object(str(path)) from error
    try:
        _refuse_changed(path, original.etag, file)
        if not (may_link and _links(file, path, copy)):
            target = os.open(copy, _NEW, 0o666)
            try:
                fill(file, target, original.size)
            finally:
                os.close(target)
        _refuse_changed(path, original.etag, file)
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


def _refuse_changed(path: Path | str, etag: str, file: int) -> None:
    if _etag(os.fstat(file)) != etag:
        raise changed_object(str(path))

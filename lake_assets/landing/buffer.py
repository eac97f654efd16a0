"""The buffer: a folder of this machine where batches are safe until, and some days after, they reach the outputs.

    <path>/<stream>/kept/<key>                  every batch, until its retention has ended
                    pending/<output>/<key>      the same file by a hard link, for each output it has not reached yet
                    writing/                    what is being written, and what a crash left unfinished
                    schema.arrow                the columns, where they were inferred

A file is complete and on disk (fsync) before it gets a name in `kept` or `pending`, and the names are on disk before
the batch counts as taken. Taking a pending name away is all that "it has arrived" means, so any number of processes may
drain one buffer, and what is pending is never deleted but by arriving: not even when its retention has ended. A file
loses its name in `writing` when it has all others, so that `adopt` finds those that a crash left with some of them.
"""

import contextlib
import errno
import hashlib
import os
import re
import time
import uuid
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.ipc

from lake_assets.errors import LandingError
from lake_assets.landing.names import second_of

_DAY = 86_400.0
_BROKEN_OFF = 60.0  # seconds after which nobody is still giving a file its names


@dataclass(frozen=True, slots=True)
class Pending:
    """A batch that has not reached an output yet."""

    output: str  # as `output_name` gives it
    key: str
    path: Path
    size: int  # bytes
    age: float  # seconds


def output_name(root: str) -> str:
    """The folder below `pending` for an output: readable, and different for different roots."""
    return f"{re.sub(r'[^A-Za-z0-9.]+', '-', root).strip('-.')[-60:]}-{hashlib.sha256(root.encode()).hexdigest()[:8]}"


class Buffer:
    """One stream's buffer; made where it is not there yet.

    Args:
        root: its folder.
        retention: seconds for which a batch that has arrived is kept.
        clock: seconds since 1970.

    Raises:
        LandingError: the folder cannot be made.
    """

    def __init__(self, root: Path, retention: float, *, clock: Callable[[], float] = time.time) -> None:
        self.root = root
        self.retention = retention
        self._clock = clock
        self._known: set[Path] = set()
        with self._errors():
            self._folder(root / "writing")

    def put(self, key: str, body: pa.Buffer | bytes, outputs: Collection[str]) -> None:
        """Take a batch for these outputs; when this returns, a loss of power does not lose it.

        Raises:
            LandingError: the disk is full, or the folder cannot be written; nothing is left of the batch.
        """
        writing = self.root / "writing" / uuid.uuid4().hex
        kept = self.root / "kept" / key
        names = [self.root / "pending" / output / key for output in outputs]
        made: list[Path] = []
        with self._errors():
            try:
                _write_through(writing, body)
                self._link(kept, writing)
                made.append(kept)
                # A pending name may be uploaded at once, so it comes when nearly nothing can go wrong any more.
                for name in names:
                    self._link(name, kept)
                    made.append(name)
                for folder in {name.parent for name in made}:
                    _sync_folder(folder)
                writing.unlink(missing_ok=True)
            except BaseException:
                for name in (*reversed(made), writing):
                    name.unlink(missing_ok=True)
                raise

    def adopt(self, outputs: Collection[str]) -> None:
        """Let batches be pending for these outputs that were whole in `kept` when a crash broke off their `put`.

        One that has arrived at some of them already is found there when it is uploaded again.

        Raises:
            LandingError: the folder cannot be written.
        """
        before = self._clock() - _BROKEN_OFF
        with self._errors():
            left = {
                status.st_ino: path
                for path, status in _files(self.root / "writing")
                if status.st_nlink > 1 and status.st_mtime < before
            }
            for kept, status in _files(self.root / "kept") if left else ():
                if status.st_ino not in left:
                    continue
                key = kept.relative_to(self.root / "kept")
                names = [self.root / "pending" / output / key for output in outputs]
                for name in names:
                    self._link(name, kept)
                for folder in {name.parent for name in (kept, *names)}:
                    _sync_folder(folder)
                left[status.st_ino].unlink(missing_ok=True)

    def pending(self, output: str) -> list[Pending]:
        """What has not reached an output yet, oldest name first."""
        now = self._clock()
        folder = self.root / "pending" / output
        found = []
        for path, status in _files(folder):
            key = path.relative_to(folder).as_posix()
            found.append(Pending(output, key, path, status.st_size, now - status.st_mtime))
        return sorted(found, key=lambda batch: (batch.path.name, batch.key))

    def outputs(self) -> list[str]:
        """The outputs that anything is or was pending for, also those that the config no longer has."""
        folder = self.root / "pending"
        return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []

    def arrived(self, batch: Pending) -> None:
        """Note that a batch has reached its output; another process may have noted it already.

        Raises:
            LandingError: the folder cannot be written.
        """
        with self._errors():
            batch.path.unlink(missing_ok=True)

    def is_expired(self, batch: Pending) -> bool:
        """Whether the retention ended before the batch arrived."""
        return batch.age > self.retention

    def expire(self) -> int:
        """Delete the batches that have arrived everywhere and whose retention has ended; returns how many.

        Raises:
            LandingError: the folder cannot be written.
        """
        before = self._clock() - self.retention
        deleted = 0
        with self._errors():
            for path, status in _files(self.root / "kept"):
                # One link is this name itself; another is a pending one, or that of an unfinished `put`.
                if status.st_mtime < before and status.st_nlink == 1:
                    path.unlink(missing_ok=True)
                    deleted += 1
            for path, status in _files(self.root / "writing"):
                # A crash left it; what is whole has another link.
                if status.st_mtime < self._clock() - max(self.retention, _DAY) and status.st_nlink == 1:
                    path.unlink(missing_ok=True)
            for tree in ("kept", "pending"):
                _remove_empty(self.root / tree, before)
        return deleted

    def last_second(self) -> int:
        """The greatest second in the name of a batch that is still here; 0 without any."""
        return max((second_of(name) for _, _, names in os.walk(self.root / "kept") for name in names), default=0)

    @property
    def schema_file(self) -> Path:
        """Where the columns are, once they are fixed."""
        return self.root / "schema.arrow"

    def schema(self) -> pa.Schema | None:
        """The schema that was fixed here; None where none was.

        Raises:
            LandingError: the folder cannot be read.
        """
        with self._errors():
            try:
                return pa.ipc.read_schema(pa.BufferReader(self.schema_file.read_bytes()))
            except FileNotFoundError:
                return None

    def fix_schema(self, schema: pa.Schema) -> pa.Schema:
        """Fix the schema of all records to come, unless another process was faster; returns the one that is fixed.

        Raises:
            LandingError: the folder cannot be written.
        """
        writing = self.root / "writing" / uuid.uuid4().hex
        with self._errors():
            try:
                _write_through(writing, schema.serialize())
                with contextlib.suppress(FileExistsError):
                    self.schema_file.hardlink_to(writing)
            finally:
                writing.unlink(missing_ok=True)
            _sync_folder(self.root)
        return self.schema() or schema

    def _link(self, name: Path, file: Path) -> None:
        """Give a file one more name, in a folder that another process may be removing because it is empty."""
        self._folder(name.parent)
        try:
            name.hardlink_to(file)
        except FileNotFoundError:
            self._known.clear()
            self._folder(name.parent)
            name.hardlink_to(file)
        except FileExistsError:  # the name was given before a crash
            if not name.samefile(file):
                raise

    def _folder(self, folder: Path) -> None:
        """Make a folder that stays after a loss of power."""
        if folder in self._known:
            return
        missing = [folder, *folder.parents]
        missing = missing[: next(i for i, path in enumerate(missing) if path.is_dir())]
        folder.mkdir(parents=True, exist_ok=True)
        for path in missing:
            _sync_folder(path.parent)
        self._known.add(folder)

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if error.errno in {errno.ENOSPC, errno.EDQUOT}:
                problem, hint = "has no space left", "free some, or let it drain: `lake-assets land … --drain`."
            else:
                problem = f"cannot be written: {error.strerror or error}"
                hint = "check the folder, its owner, and that its file system is writable and has hard links."
            raise LandingError(f"the buffer {self.root} {problem}:", hint) from error


def _write_through(path: Path, body: pa.Buffer | bytes) -> None:
    """Write a new file whose bytes are on disk when this returns."""
    with path.open("xb", buffering=0) as file:
        view = memoryview(body)
        while view:
            view = view[file.write(view) :]
        os.fsync(file.fileno())


def _remove_empty(tree: Path, before: float) -> None:
    """Remove the empty folders below one that nothing has come into or gone out of since."""
    for parent, _, _ in os.walk(tree, topdown=False):
        # One that is not empty stays, and says so by an error.
        with contextlib.suppress(OSError):
            if Path(parent) != tree and Path(parent).stat().st_mtime < before:
                Path(parent).rmdir()


def _sync_folder(folder: Path) -> None:
    """See that the names in a folder are on disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _files(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """All files below a folder; one that goes away meanwhile is left out."""
    for parent, _, names in os.walk(folder):
        for name in names:
            path = Path(parent) / name
            with contextlib.suppress(FileNotFoundError):
                yield path, path.stat()

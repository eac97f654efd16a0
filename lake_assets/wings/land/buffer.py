"""The buffer: a folder of this machine that holds batches until they reach the outputs, and some days longer.

    <path>/<stream>/kept/<key>                  every batch, until its retention has ended
                    pending/<output>/<key>      the same file by a hard link, for each output it has not reached yet
                    writing/                    files that are being written, and unfinished ones of a crash
                    schema.arrow                the columns, where they were inferred

A file is complete and on disk (fsync) before it gets a name in `kept` or `pending`, and `put` returns when the names
are on disk. A batch has arrived when its pending name is removed, so any number of processes may drain one buffer. A
pending batch is never deleted before it arrives, not even when its retention has ended. The name in `writing` is
removed last, so `adopt` finds files that a crash left without some of the other names.
"""

import contextlib
import errno
import hashlib
import os
import re
import time
import uuid
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.ipc

from lake_assets.base.errors import LandingError
from lake_assets.wings.land.batches import second_of

_DAY = 86_400.0
_BROKEN_OFF = 60.0  # seconds after which a file without all its names was left by a crash


@dataclass(frozen=True, slots=True)
class Pending:
    """A batch that has not reached an output yet."""

    output: str  # as `output_name` gives it
    key: str
    path: Path
    size: int  # bytes
    age: float  # seconds


def output_name(root: str) -> str:
    """Return the folder below `pending` for an output: readable, and different for different roots."""
    return f"{re.sub(r'[^A-Za-z0-9.]+', '-', root).strip('-.')[-60:]}-{hashlib.sha256(root.encode()).hexdigest()[:8]}"


class Buffer:
    """One stream's buffer; its folder is made if it does not exist.

    A batch that has arrived is kept for `retention` seconds.
    """

    def __init__(self, root: Path, retention: float) -> None:
        self.root = root
        self.retention = retention
        self._known: set[Path] = set()
        with self._errors():
            self._folder(root / "writing")

    def put(self, key: str, body: pa.Buffer | bytes, outputs: Collection[str]) -> None:
        """Store a batch for these outputs. When this returns, it survives a loss of power.

        A LandingError leaves nothing of the batch.
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
                # Another process may upload a pending batch at once, so these names come last.
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
        """Make batches pending for these outputs if a crash interrupted their `put` when they were whole in `kept`.

        An output that has such a batch already keeps it when it is uploaded again.
        """
        before = time.time() - _BROKEN_OFF
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
        """Return the batches that have not reached an output yet, oldest name first."""
        now = time.time()
        folder = self.root / "pending" / output
        batches = [
            Pending(output, path.relative_to(folder).as_posix(), path, status.st_size, now - status.st_mtime)
            for path, status in _files(folder)
        ]
        return sorted(batches, key=lambda batch: (batch.path.name, batch.key))

    def outputs(self) -> list[str]:
        """Return the outputs that a batch is or was pending for, also those that the config no longer has."""
        folder = self.root / "pending"
        return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []

    def arrived(self, batch: Pending) -> None:
        """Record that a batch has reached its output; another process may have recorded it already."""
        with self._errors():
            batch.path.unlink(missing_ok=True)

    def is_expired(self, batch: Pending) -> bool:
        """Return whether the retention ended before the batch arrived."""
        return batch.age > self.retention

    def expire(self) -> int:
        """Delete the batches that have arrived at all outputs and whose retention has ended; returns how many."""
        before = time.time() - self.retention
        deleted = 0
        with self._errors():
            for path, status in _files(self.root / "kept"):
                # The first link is this name; another is a pending name, or that of an unfinished `put`.
                if status.st_mtime < before and status.st_nlink == 1:
                    path.unlink(missing_ok=True)
                    deleted += 1
            for path, status in _files(self.root / "writing"):
                # A crash left it; a whole file has another link.
                if status.st_mtime < time.time() - max(self.retention, _DAY) and status.st_nlink == 1:
                    path.unlink(missing_ok=True)
            for tree in ("kept", "pending"):
                _remove_empty(self.root / tree, before)
        return deleted

    def last_second(self) -> int:
        """Return the greatest second in the name of a batch in the buffer; 0 if there is none."""
        return max((second_of(name) for _, _, names in os.walk(self.root / "kept") for name in names), default=0)

    @property
    def schema_file(self) -> Path:
        """The file of the columns, once they are fixed."""
        return self.root / "schema.arrow"

    def schema(self) -> pa.Schema | None:
        """Return the schema that was fixed here; None if none was."""
        with self._errors():
            try:
                return pa.ipc.read_schema(pa.BufferReader(self.schema_file.read_bytes()))
            except FileNotFoundError:
                return None

    def fix_schema(self, schema: pa.Schema) -> pa.Schema:
        """Fix the schema of all later records, unless another process has; returns the one that is fixed."""
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
        """Give a file one more name. Another process may be removing the empty folder."""
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
        """Make a folder that survives a loss of power."""
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
                raise LandingError(
                    f"the buffer {self.root} has no space left:",
                    "free some space, or set landing.buffer.retention_days: 0 and run `lake-assets land "
                    f"{self.root.name} --drain`, which deletes what has arrived.",
                ) from error
            raise LandingError(
                f"the buffer {self.root} cannot be written: {error.strerror or error}:",
                "let landing.buffer.path be a folder that this user may write to, of a file system with hard links.",
            ) from error


def _write_through(path: Path, body: pa.Buffer | bytes) -> None:
    """Write a new file whose bytes are on disk when this returns."""
    with path.open("xb", buffering=0) as file:
        view = memoryview(body)
        while view:
            view = view[file.write(view) :]
        os.fsync(file.fileno())


def _remove_empty(tree: Path, before: float) -> None:
    """Remove the empty folders below one that have not changed since a time."""
    for parent, _, _ in os.walk(tree, topdown=False):
        # A folder that is not empty raises an error, and stays.
        with contextlib.suppress(OSError):
            if Path(parent) != tree and Path(parent).stat().st_mtime < before:
                Path(parent).rmdir()


def _sync_folder(folder: Path) -> None:
    """Force the names in a folder to disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _files(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Yield all files below a folder; one that is removed meanwhile is left out."""
    for parent, _, names in os.walk(folder):
        for name in names:
            path = Path(parent) / name
            with contextlib.suppress(FileNotFoundError):
                yield path, path.stat()

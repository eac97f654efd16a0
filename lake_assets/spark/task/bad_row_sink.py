"""The sink of bad rows: those that are left out of the lake one by one become Parquet files, dead letters.

A commit makes a file visible. It has the columns of its object as they were read, the reason of each row, and where it
was landed.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.parquet as pq

from lake_assets.config.layout.partition import Partition
from lake_assets.config.secrets import masking
from lake_assets.config.sections import LETTER_COLUMNS
from lake_assets.schema.arrow_types import dictionary_decoded, without_views
from lake_assets.schema.bad_rows import ROW_NUMBER, BadRows, with_escaped_bytes
from lake_assets.spark.task.job import Job, LetterFile, LetterRules, discard, discard_unfinished
from lake_assets.storage.storage_errors import write_errors
from lake_assets.storage.store import Store

REASON, OBJECT, _, RUN = LETTER_COLUMNS  # and NUMBER

_HELD_ROWS = 100_000  # in memory before they are written
_HELD_BYTES = 16 * 2**20

Sink = Callable[[BadRows], None]


class BadRowSink:
    """Where the rows go that the rules of a job split off; this one drops them."""

    files: Sequence[LetterFile] = ()

    @contextmanager
    def of(self, landed: str) -> Iterator[Sink]:  # noqa: ARG002 - for letters
        """Take the bad rows of a share of one object, by its URI; they are complete when the block ends."""
        yield lambda _: None

    def discard(self) -> None:
        """Remove the complete files, because no commit will make them visible."""


DROPPED = BadRowSink()


def sink_of(job: Job, partition: Partition) -> BadRowSink:
    """Return where the bad rows of a partition go, by the job."""
    return DROPPED if job.letters is None else _DeadLetters(job, job.letters, partition)


class _DeadLetters(BadRowSink):
    """A file for each share that has such rows."""

    def __init__(self, job: Job, rules: LetterRules, partition: Partition) -> None:
        self._job = job
        self._rules = rules
        self._partition = partition
        self._store = Store(rules.storage)
        self.files: list[LetterFile] = []

    @contextmanager
    def of(self, landed: str) -> Iterator[Sink]:
        letter = _Letter(self._job, self._store, self._job.letter_key(self._rules, self._partition), landed)
        try:
            yield letter.add
            file = letter.close()
        except BaseException as error:
            letter.abandon(error)
            raise
        if file is not None:
            self.files.append(file)

    def discard(self) -> None:
        discard(self._rules.storage, [file.uri for file in self.files])
        self.files.clear()


class _Letter:
    """One file, which is created with its first rows."""

    def __init__(self, job: Job, store: Store, key: str, landed: str) -> None:
        self._job = job
        self._store = store
        self._key = key
        self._landed = landed
        self._held: list[pa.RecordBatch] = []
        self._held_rows = self._held_bytes = 0
        self._rows = 0
        self._reason = ""
        self._sink: pa.NativeFile | None = None
        self._writer: pq.ParquetWriter | None = None

    def add(self, bad: BadRows) -> None:
        """Add rows; they are written when there are many."""
        if not self._rows:
            self._reason = bad.reasons[0]
        self._rows += len(bad.reasons)
        self._held.append(batch := _with_meta(bad, self._landed, self._job.run_id))
        self._held_rows += batch.num_rows
        self._held_bytes += batch.nbytes
        if self._held_rows >= _HELD_ROWS or self._held_bytes >= _HELD_BYTES:
            self._write()

    def close(self) -> LetterFile | None:
        """Complete the file; None if there are no rows."""
        if not self._rows:
            return None
        self._write()
        assert self._sink is not None  # noqa: S101 - rows were written
        assert self._writer is not None  # noqa: S101
        with self._errors():
            self._writer.close()
            size = self._sink.tell()
            self._sink.close()
        return LetterFile(self._landed, self._store.uri(self._key), self._rows, size, self._reason)

    def abandon(self, error: BaseException) -> None:
        """Remove what was written."""
        if self._sink is not None:
            self._writer = self._sink = None
            discard_unfinished(self._store.storage, [self._store.uri(self._key)], error)

    def _write(self) -> None:
        if not self._held:  # all rows are written
            return
        table = pa.Table.from_batches(self._held)
        self._held.clear()
        self._held_rows = self._held_bytes = 0
        with self._errors():
            if self._writer is None:
                self._sink = self._store.create(self._key)
                self._writer = pq.ParquetWriter(self._sink, table.schema, compression="zstd", version="2.6")
            self._writer.write_table(table)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        with masking(self._store.storage), write_errors(self._store.storage, self._store.uri(self._key)):
            yield


def _with_meta(bad: BadRows, landed: str, run_id: str) -> pa.RecordBatch:
    """Return the rows with the dead letters' own columns last, and without dictionaries."""
    rows = without_views(bad.rows)
    numbers = rows.column(ROW_NUMBER)
    names = [name for name in rows.schema.names if name != ROW_NUMBER]
    columns = {name: with_escaped_bytes(dictionary_decoded(rows.column(name))) for name in names}
    columns |= {
        REASON: pa.array(bad.reasons, pa.string()),
        OBJECT: pa.repeat(pa.scalar(landed), rows.num_rows),
        ROW_NUMBER: numbers,
        RUN: pa.repeat(pa.scalar(run_id), rows.num_rows),
    }
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))

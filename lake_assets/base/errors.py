"""Every error that lake_assets raises on purpose: what is wrong, where, and how to fix it."""

import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, Self

from lake_assets.base.texts import visible

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa


Outside = Literal["not_in_values", "before_start", "after_end", "in_the_future", "null_time"]
"""Why a partition is outside the config."""


_in_terms: Callable[[str], str] = str  # of what the user has written: a config, or variables


def word_errors(by: Callable[[str], str]) -> None:
    """Let `by` replace the names of config keys in the texts of all errors from now on."""
    global _in_terms  # noqa: PLW0603 - an error is made where no config is at hand
    _in_terms = by


class LakeAssetsError(Exception):
    """Base of all errors whose text is meant for users; the command line prints it without a traceback.

    Args:
        problem: one sentence that names the field or the object and what is wrong with it.
        hint: what to do about it, one sentence.
    """

    def __init__(self, problem: str, hint: str = "") -> None:
        # Names of objects and texts of servers are among them.
        self.problem = visible(problem)
        self.hint = visible(hint)
        super().__init__(self.problem, self.hint)

    @property
    def fix(self) -> str:
        """The hint, as `str` of the error has it."""
        return _in_terms(self.hint)

    def __str__(self) -> str:
        return _in_terms(f"{self.problem} {self.hint}".rstrip())


class ConfigError(LakeAssetsError):
    """The configuration cannot be read or is not valid; nothing has run."""


class LayoutError(LakeAssetsError):
    """A path template is malformed, or a path does not fit it."""


class PartitionError(LakeAssetsError):
    """A partition or one of its values is not one that the stream can have."""


class OutsidePartitionError(PartitionError):
    """The config of the stream does not have this partition."""

    def __init__(self, problem: str, hint: str = "", reason: "Outside | None" = None) -> None:
        super().__init__(problem, hint)
        self.reason = reason  # one word for programs; None for several partitions with different reasons


class FuturePartitionError(OutsidePartitionError):
    """The time of a partition has not come yet."""


class SpellingError(PartitionError):
    """A folder has the values of a partition, in a spelling that no writer of the partition uses."""


class HiddenError(LakeAssetsError):
    """An object is hidden by its name, or by that of a folder which the layout cannot produce."""


class OddNameError(LakeAssetsError):
    """Clients of stores cannot ask for an object by its name, or tables cannot hold it; see `is_odd`."""


class NotDataError(LakeAssetsError):
    """An object does not fit the pattern of the stream's files."""


class NotificationError(LakeAssetsError):
    """A message is not a notification of an object store."""


class QueueError(LakeAssetsError):
    """A queue refuses access, is unreachable, or does not exist."""


class StorageError(LakeAssetsError):
    """An object store refuses access, is unreachable, or lacks the bucket or object."""


class KeyOrderError(StorageError):
    """An object store lists its objects folder by folder, not in the order of their whole keys."""


class StorageUnreachableError(StorageError):
    """A storage did not answer, or answered that it failed; a retry may succeed."""


class ObjectRefusedError(StorageError):
    """A storage refuses access to one object; access to others may be allowed."""


class WholeStorageError(StorageError):
    """A storage accepts no request: its key, clock, region or certificate is wrong, it is full, or does not exist."""


class AbsentStorageError(WholeStorageError):
    """The folder, bucket or container of a storage does not exist."""


class LandingError(LakeAssetsError):
    """Records cannot be landed: the input cannot be read, or the buffer is full."""


class SourceError(LakeAssetsError):
    """The landed objects of a partition cannot be ingested as they are."""


class HeldBackError(SourceError):
    """Another stream of the release group failed for the partition, so none of them was committed."""


class EmptySourceError(SourceError):
    """The source partition has no objects and the stream says `on_empty: fail`."""


class SourceChangedError(SourceError):
    """The landed objects of a partition changed while they were being read."""


class PlanMovedError(SourceError):
    """The landed objects of a partition are not those of the plan that is applied; nothing of it was changed."""


class SchemaError(SourceError):
    """A file's or a result's columns do not fit the destination table."""


class SchemaDriftError(SchemaError):
    """Landed columns that the table lacks, or that its types cannot hold; the stream lets the table evolve."""

    def __init__(self, problem: str, hint: str = "", schemas: "Sequence[tuple[str, pa.Schema]]" = ()) -> None:
        super().__init__(problem, hint)
        self.schemas = list(schemas)  # the objects with such columns and their schemas, each schema once

    def with_more(self, schemas: "Sequence[tuple[str, pa.Schema]]") -> Self:
        """Return the same error, with those of these schemas that it does not have yet."""
        for origin, schema in schemas:
            if not any(schema.equals(known) for _, known in self.schemas):
                self.schemas.append((origin, schema))
        return self


class SchemaChangedError(SourceError):
    """The destination table's columns changed while a partition was being written for it."""


class TransformError(LakeAssetsError):
    """The stream's transform cannot be loaded, fails, or returns an invalid result."""


class CatalogError(LakeAssetsError):
    """The DuckLake catalog is unreachable or refuses a statement."""


class LakeUnreachableError(CatalogError, StorageUnreachableError):
    """A storage did not answer DuckDB, or failed, while DuckDB read or wrote the lake; a retry may succeed."""


class CatalogUnreachableError(CatalogError):
    """The catalog's server does not answer, or ended the connection; a retry may succeed."""


class NoLakeError(CatalogError):
    """The configured catalog does not exist yet; the first ingest creates it."""


class SpecificationError(CatalogError):
    """The catalog has a version of DuckLake's specification that this package does not know."""


class CommitConflictError(CatalogError):
    """Other writers committed first until the limit of retries was reached."""


class CatalogLockedError(CommitConflictError):
    """Another process has held the catalog's file or a lock on it for too long; a retry may succeed."""


class PartitionMovedError(CatalogError):
    """Another writer committed a partition after it was read to be rewritten."""


class PartitionHeldError(CatalogError):
    """A partition was held while a refresh of it was running."""


class TaskLostError(LakeAssetsError):
    """A process that ran a Spark task was killed or ran out of memory, also when the task was retried."""


class SparkUnavailableError(LakeAssetsError):
    """No usable Java or Spark session is available."""


class SparkUnreachableError(SparkUnavailableError):
    """A Spark Connect server does not answer, or a cluster ended or gives no executor; a retry may succeed."""


class SessionLostError(SparkUnreachableError):
    """A Spark Connect server has closed or forgotten this process's session; a new one can be started."""


class WorkerError(SparkUnavailableError):
    """A worker of a cluster has another version of this package, or lacks a package that the tasks need."""


class LauncherError(LakeAssetsError):
    """The driver of a run could not be started."""


class DriverLostError(LauncherError):
    """The driver of a run ended before its partitions did; a retry may succeed."""


class MissingExtraError(LakeAssetsError):
    """A package of an extra of lake-assets is not installed."""


TRANSIENT = (
    StorageUnreachableError,
    CatalogUnreachableError,
    CommitConflictError,
    DriverLostError,
    SparkUnreachableError,
)
"""Errors after which a retry may succeed, though nothing else has changed."""


def failure_may_pass(text: str) -> bool:
    """Return whether a failure may pass while its objects stay as they are, by the text that the ledger has of it.

    Then its cause is outside of the partition: a storage, the catalog, Spark, another writer, or another stream.
    """
    kind = globals().get(text.partition(":")[0])
    of_systems = (*TRANSIENT, StorageError, SparkUnavailableError, LauncherError)
    of_writers = (PartitionMovedError, SourceChangedError, SchemaChangedError, HeldBackError)
    if not isinstance(kind, type) or issubclass(kind, ObjectRefusedError):
        return False
    return issubclass(kind, (*of_systems, *of_writers))


def install(extra: str) -> str:
    """Return how to install an extra, for the hint of an error. No package index has lake-assets."""
    return f"run `pip install '.[{extra}]'` in the clone of lake-assets"


def is_interrupt(error: BaseException | None) -> bool:
    """Return whether an error means that the run is cancelled, by Ctrl-C or Dagster's *Terminate*.

    These are not subclasses of `Exception`. DuckDB wraps one that reaches it in its own error, with it as the cause.
    """
    while error is not None:
        if not isinstance(error, Exception):
            return True
        error = error.__cause__ or error.__context__
    return False


def release_frames(error: BaseException) -> None:
    """Close at once what only the frames of an error and of its causes keep open: files, and locks of a `with`.

    An interrupt can come after a context manager has taken a lock and before its `with` has begun: nothing but the
    traceback knows it then.
    """
    seen: BaseException | None = error
    while seen is not None:
        traceback.clear_frames(seen.__traceback__)
        seen = seen.__cause__ or seen.__context__


def text_of(error: Exception) -> str:
    """Return the printed text of an error, with its notes."""
    notes = " ".join(getattr(error, "__notes__", ()))
    text = str(error) if isinstance(error, LakeAssetsError) else _unexpected(error)
    return f"{text} {notes}".rstrip()


def _unexpected(error: Exception) -> str:
    if isinstance(error, ImportError):
        file = traceback.extract_tb(error.__traceback__)[-1].filename
        return f"Python cannot import {error.name or 'a module'} as it is in {file}: {error}: correct PYTHONPATH."
    lines = str(error).strip().splitlines()
    description = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
    return f"{description} (this is a bug of lake-assets: run `lake-assets --debug …` to see where, and report it)"

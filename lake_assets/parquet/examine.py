"""The work of a task that looks for landed objects which are damaged, or do not fit; it writes nothing."""

from collections.abc import Iterable, Iterator

import pyarrow as pa

from lake_assets.errors import (
    LakeAssetsError,
    SchemaDriftError,
    SourceChangedError,
    SourceError,
    StorageUnreachableError,
)
from lake_assets.parquet.job import Job
from lake_assets.parquet.shares import Reader
from lake_assets.parquet.task import Bin, Refusal, Report


def examine(job: Job, schema: pa.Schema, bins: Iterable[Bin], *, refuses_drift: bool) -> Iterator[Report]:
    """Read each share of the bins as the job does, and report the objects that cannot be read.

    Args:
        job: the job of the task.
        schema: in which the rows are read.
        bins: what the task reads.
        refuses_drift: report objects whose columns the table does not have yet, too.

    Raises:
        StorageUnreachableError: a storage failed; another try of the task may succeed.
    """
    pa.set_cpu_count(1)
    reader = Reader(job, schema, checksums=job.copies is not None)
    for item in bins:
        for share in item.shares:
            try:
                for _ in reader.read((share,), item.partition):
                    pass
            except (StorageUnreachableError, SchemaDriftError) as error:
                if isinstance(error, StorageUnreachableError):
                    raise
                if refuses_drift:
                    yield Report(item.index, refusal=Refusal(share.key, str(error)))
            except SourceChangedError as error:
                yield Report(item.index, error=error)
            except SourceError as error:
                yield Report(item.index, refusal=Refusal(share.key, str(error)))
            except LakeAssetsError as error:
                yield Report(item.index, error=error)

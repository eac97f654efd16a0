"""Removal of a partition from the ledger that never existed, such as a typo."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated

from lake_assets.base.documented import AsText, Documented
from lake_assets.base.errors import NoLakeError, PartitionError
from lake_assets.config.layout.partition import Partition
from lake_assets.lake.catalog.past import LIVE, past_table
from lake_assets.lake.ledger.read import recorded_commits
from lake_assets.lake.ledger.tables import LEDGER, OF_RUNS
from lake_assets.lake.retry import under_lock
from lake_assets.lake.session import LakeSession
from lake_assets.streams.landing_zone import list_landed_in
from lake_assets.streams.stream import OpenStream

_OF_PARTITION = "list_contains(?, stream) AND load_partition = ?"


@dataclass(frozen=True, slots=True)
class Forgotten(Documented):
    """A partition that was removed from the ledger; with `--dry-run`, that would be."""

    partition: Annotated[Partition, AsText]
    """As a path, such as `region=NW/date=2026-02-11`."""
    ledger_rows: int
    """Its rows of the ledger."""


def forget(stream: OpenStream, partitions: Iterable[Partition], *, dry_run: bool = False) -> list[Forgotten]:
    """Delete all rows of the stream's partitions from ledger and manifest, in one transaction.

    A partition with rows in the lake or with landed objects exists and is refused, and so is one that a restore holds;
    nothing is deleted then. If a partition column is in the rows, landed objects do not prove that. Dagster keeps its
    dynamic partitions.
    """
    wanted = list(dict.fromkeys(partitions))
    landed = {} if stream.config.selects_rows else list_landed_in(stream, wanted)
    for partition, manifest in landed.items():
        if manifest.objects:
            objects = f"{len(manifest.objects):,} landed objects at {stream.source_glob(partition)}"
            raise PartitionError(f"partition {partition} has {objects}:", "remove them first.")
    try:
        with stream.lake.open(read_only=dry_run) as lake:
            if not lake.exists(LEDGER.name(lake.config)):
                raise _unknown(wanted[0])
            if dry_run:
                return _count_rows(lake, stream, wanted)
            return under_lock(lake, lambda: _delete(lake, stream, wanted), "the removal of ledger rows")
    except NoLakeError:
        raise _unknown(wanted[0]) from None


def _removal(stream: OpenStream) -> str:
    """Return how the rows of a partition are removed, by its stream's mode."""
    if stream.config.mode.registers:
        return f"run `lake-assets index {stream.name} --repair` first, which removes rows whose object is gone."
    if stream.config.mode.reads_new:
        return f"remove them first by SQL, such as DELETE FROM {stream.table} WHERE …"  # noqa: S608 - is printed
    return "`on_empty: clear` removes rows whose source is empty."


def _count_rows(lake: LakeSession, stream: OpenStream, partitions: Sequence[Partition]) -> list[Forgotten]:
    """Return the ledger rows of each partition; refuses one that exists, or that the ledger does not have."""
    forgotten = []
    known = past_table(lake, stream.partitioned_table, partitions, LIVE) if lake.exists(stream.table) else None
    counts = {} if known is None else known.live_rows(partitions)
    for partition in partitions:
        if rows := counts.get(partition, 0):
            problem = f"partition {partition} has {rows:,} rows in {stream.table}, and one with rows is not forgotten:"
            raise PartitionError(problem, _removal(stream))
        last = recorded_commits(lake, stream.table, [partition]).get(partition.path)
        if last is not None and last.is_held:
            raise PartitionError(
                f"partition {partition} is held since a restore:",
                f"release it first with `lake-assets restore {stream.name} --partition {partition.option} --release`.",
            )
        ((ledger_rows,),) = lake.rows(
            f"SELECT count(*) FROM {LEDGER.name(lake.config).sql} WHERE {_OF_PARTITION}",  # noqa: S608
            [list(stream.names), partition.path],
        )
        if not ledger_rows:
            raise _unknown(partition)
        forgotten.append(Forgotten(partition, ledger_rows))
    return forgotten


def _delete(lake: LakeSession, stream: OpenStream, partitions: Sequence[Partition]) -> list[Forgotten]:
    forgotten = _count_rows(lake, stream, partitions)  # in the transaction, the table would be read
    with lake.transaction():
        for partition in partitions:
            for own in (LEDGER, *OF_RUNS):
                lake.rows(
                    f"DELETE FROM {own.name(lake.config).sql} WHERE {_OF_PARTITION}",  # noqa: S608
                    [list(stream.names), partition.path],
                )
    return forgotten


def _unknown(partition: Partition) -> PartitionError:
    return PartitionError(f"the ledger has no row of partition {partition}:", "there is nothing to forget.")

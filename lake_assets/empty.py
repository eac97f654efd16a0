"""What it means that a partition has no rows to load: the stream's `on_empty`."""

from typing import Literal

from lake_assets.errors import EmptySourceError
from lake_assets.lake.ducklake import LakeSession
from lake_assets.lake.history import partitions_in_ledger
from lake_assets.lake.replacement import where
from lake_assets.passage import Passage
from lake_assets.stream import OpenStream
from lake_assets.unknown import UnknownPartitions


class EmptyPartitions:
    """Decides what becomes of the partitions of one run that have no rows.

    Args:
        stream: whose partitions they are.
        landed_only: leave out partitions of which nothing has landed, for any `on_empty`.
    """

    def __init__(self, stream: OpenStream, *, landed_only: bool) -> None:
        self._stream = stream
        self._landed_only = landed_only
        self._unknown: UnknownPartitions | None = None

    def decide(self, lake: LakeSession, passage: Passage, *, exists: bool) -> Literal["leave out", "skip", "clear"]:
        """What to do with a partition that has no objects, or none with rows of it.

        The ledger gets no row of a partition that has no objects and that it does not know: it is probably a typo.

        Args:
            lake: an open session.
            passage: of the partition; its row and note are filled in.
            exists: the destination is there.

        Raises:
            EmptySourceError: the stream says `on_empty: fail`.
        """
        policy, selects = self._stream.config.on_empty, self._stream.config.selects_rows
        if self._landed_only and selects and not (exists and self._has_rows(lake, passage)):
            # That there are objects does not say that something has landed, where the rows say of which partition.
            return "leave out"
        passage.update(on_empty=policy)
        unknown = self._unknown_partitions(lake)
        is_unknown = passage.partition.path not in unknown.known
        if is_unknown and (not passage.manifest.objects or (policy == "fail" and selects)):
            passage.is_recorded = False
            passage.note = unknown.meant(passage.partition)
        if policy == "fail":
            raise _no_rows(passage)
        return "skip" if policy == "keep" or not exists or not passage.is_recorded else "clear"

    def _unknown_partitions(self, lake: LakeSession) -> UnknownPartitions:
        if self._unknown is None:
            self._unknown = UnknownPartitions(self._stream, partitions_in_ledger(lake, self._stream.table))
        return self._unknown

    def _has_rows(self, lake: LakeSession, passage: Passage) -> bool:
        condition, parameters = where(passage.partition)
        table = self._stream.table.sql
        return bool(lake.rows(f"SELECT 1 FROM {table} WHERE {condition} LIMIT 1", parameters))  # noqa: S608


def _no_rows(passage: Passage) -> EmptySourceError:
    one = passage.partition
    chosen = [f"{c.name}={c.shown(v)}" for c, v in zip(one.columns, one.values, strict=True) if c.in_rows]
    return EmptySourceError(
        f"the source partition has no rows{' of ' if chosen else ''}{', '.join(chosen)}: {passage.row.source_glob}:",
        (f"{passage.note} Check its name, " if passage.note else "check that it has landed, ")
        + "or set on_empty to keep or clear.",
    )

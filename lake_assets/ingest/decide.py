"""What becomes of a partition: the one decision that ingest, its dry run and mode index take."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from lake_assets.config.streams import OnEmpty
from lake_assets.errors import EmptySourceError
from lake_assets.lake.commit.replacement import where
from lake_assets.lake.ledger.last_runs import partitions_in_ledger
from lake_assets.lake.session import LakeSession
from lake_assets.layout.partition import Partition
from lake_assets.streams.stream import OpenStream
from lake_assets.streams.unknown import UnknownPartitions

Action = Literal["replace", "register", "skip", "keep", "clear", "fail", "leave_out"]
"""What to do with a partition.

`replace`: read the objects, and replace the partition. `register`: register new objects in place. `skip`: nothing has
changed. `keep`, `clear`: there are no rows, and the partition stays or is emptied. `fail`: with an error. `leave_out`:
nothing of it has landed, and there is neither result nor error.
"""

_WORDS: dict[Action, str] = {
    "replace": "replace the partition",
    "keep": "keep the partition",
    "clear": "clear the partition",
    "leave_out": "leave the partition out",
}


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of a partition when it is decided on.

    Attributes:
        objects: how many have landed.
        table_exists: whether the stream's table does.
        is_unchanged: the objects are those of the last commit.
        was_committed: the ledger has a commit of it.
        rows: that were read; None before the Spark job.
        new: objects that are not registered yet, in mode index.
        changed: registered objects that are others now, in mode index.
    """

    objects: int
    table_exists: bool
    is_unchanged: bool = False
    was_committed: bool = False
    rows: int | None = None
    new: int = 0
    changed: int = 0


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do with a partition.

    Attributes:
        action: what.
        why: a clause; empty where the action says it all.
        is_recorded: whether the ledger gets a row. One that it does not know and that has no
            objects is probably a typo.
        note: of such a partition, which values there are.
        on_empty: the policy that decided, where the partition has no rows.
    """

    action: Action
    why: str = ""
    is_recorded: bool = True
    note: str = ""
    on_empty: OnEmpty | None = None

    def __str__(self) -> str:
        if self.action == "register":
            return f"register {self.why}"
        what = _WORDS.get(self.action, self.action)
        return f"{what}: {self.why}" if self.why else what


class Decider:
    """Decides on the partitions of one run; it reads the ledger once, and only where a partition has no rows.

    Args:
        stream: whose partitions they are.
        force: read partitions that have not changed too.
        landed_only: leave out partitions of which nothing has landed, for any `on_empty`.
    """

    def __init__(self, stream: OpenStream, *, force: bool = False, landed_only: bool = False) -> None:
        self._stream = stream
        self._force = force
        self._landed_only = landed_only
        self._unknown: UnknownPartitions | None = None

    def decide(self, partition: Partition, facts: Facts, lake: LakeSession | None) -> Decision:
        """What to do with a partition.

        Args:
            partition: which.
            facts: what is known of it.
            lake: an open session; None where there is no lake.

        Raises:
            CatalogError: the ledger or the table cannot be read.
        """
        is_index = self._stream.config.mode == "index"
        decision = self._of_index(facts) if is_index else self._of_replace(facts)
        return decision or self._without_rows(partition, facts, lake)

    def _of_index(self, facts: Facts) -> Decision | None:
        if facts.new:
            return Decision("register", f"{facts.new:,} new object{'s'[: facts.new != 1]} in place")
        if facts.changed:
            check = f"`lake-assets index {self._stream.name} --check`"
            return Decision("fail", f"nothing new; {facts.changed:,} changed, see {check}")
        if facts.objects:
            return Decision("skip", "all objects are registered")
        return Decision("leave_out", "nothing of it has landed") if self._landed_only else None

    def _of_replace(self, facts: Facts) -> Decision | None:
        if facts.is_unchanged and not self._force:
            return Decision("skip", "the objects are those of the last commit")
        if self._landed_only and not facts.was_committed and not facts.objects:
            return Decision("leave_out", "nothing of it has landed")
        return Decision("replace") if facts.objects and facts.rows != 0 else None

    def _without_rows(self, partition: Partition, facts: Facts, lake: LakeSession | None) -> Decision:
        """The stream's `on_empty` says what it means that a partition has no objects, or none with rows of it."""
        config = self._stream.config
        if self._landed_only and config.selects_rows and not (facts.table_exists and self._has_rows(partition, lake)):
            # That there are objects does not say that something has landed, where the rows say of which partition.
            return Decision("leave_out", "nothing of it has landed")
        unknown = self._unknown_partitions(lake)
        is_unknown = partition.path not in unknown.known
        is_typo = is_unknown and (not facts.objects or (config.on_empty == "fail" and config.selects_rows))
        note = unknown.meant(partition) if is_typo else ""
        whose = "the source partition" if config.on_empty == "fail" else "its source"
        empty = f"{whose} has no {'rows' if facts.objects else 'objects'}"
        action, why = self._of_empty(facts, is_typo=is_typo)
        return Decision(action, f"{empty}, and {why}", not is_typo, note, config.on_empty)

    def _of_empty(self, facts: Facts, *, is_typo: bool) -> tuple[Action, str]:
        policy = self._stream.config.on_empty
        if policy == "fail":
            return "fail", "on_empty is fail"
        if policy == "keep" or self._stream.config.mode == "index":
            return "keep", f"on_empty is {policy}"
        if not facts.table_exists:
            return "skip", "there is no table to clear it from"
        return ("skip", "the ledger does not know it") if is_typo else ("clear", "on_empty is clear")

    def _unknown_partitions(self, lake: LakeSession | None) -> UnknownPartitions:
        if self._unknown is None:
            known: Iterable[str] = () if lake is None else partitions_in_ledger(lake, self._stream.table)
            self._unknown = UnknownPartitions(self._stream, known)
        return self._unknown

    def _has_rows(self, partition: Partition, lake: LakeSession | None) -> bool:
        if lake is None:
            return False
        condition, parameters = where(partition)
        table = self._stream.table.sql
        return bool(lake.rows(f"SELECT 1 FROM {table} WHERE {condition} LIMIT 1", parameters))  # noqa: S608


def empty_source(stream: OpenStream, partition: Partition, decision: Decision) -> EmptySourceError:
    """The error of a partition without rows, where `on_empty` is fail."""
    if stream.config.mode == "index":
        what, ways = "objects", "keep"
    else:
        values = zip(partition.columns, partition.values, strict=True)
        chosen = [f"{column.name}={column.shown(value)}" for column, value in values if column.in_rows]
        what, ways = f"rows{' of ' if chosen else ''}{', '.join(chosen)}", "keep or clear"
    advice = f"{decision.note} Check its name, " if decision.note else "check that it has landed, "
    return EmptySourceError(
        f"the source partition has no {what}: {stream.source_glob(partition)}:", f"{advice}or set on_empty to {ways}."
    )

"""The decision what to do with a partition, shared by ingest, the dry run and mode index."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from lake_assets.config.modes import OnEmpty
from lake_assets.errors import EmptySourceError
from lake_assets.lake.catalog.past import where
from lake_assets.lake.ledger.last_runs import partitions_in_ledger
from lake_assets.lake.session import LakeSession
from lake_assets.layout.partition import Partition
from lake_assets.layout.texts import count
from lake_assets.streams.stream import OpenStream
from lake_assets.streams.unknown import UnknownPartitions

Action = Literal["replace", "append", "register", "skip", "keep", "clear", "fail", "leave_out"]
"""What to do with a partition.

`replace`: read the objects and replace the partition. `append`: read the new objects and add their rows. `register`:
register new objects in place. `skip`: nothing has changed. `keep`, `clear`: the source has no rows, and the partition
stays or is emptied. `fail`: report an error. `leave_out`: nothing has landed, and the partition has neither a result
nor an error.
"""

_WORDS: dict[Action, str] = {
    "replace": "replace the partition",
    "keep": "keep the partition",
    "clear": "clear the partition",
    "leave_out": "leave the partition out",
}


@dataclass(frozen=True, slots=True)
class Facts:
    """What a decision on a partition is based on."""

    objects: int  # that have landed
    table_exists: bool
    is_unchanged: bool = False  # the objects are those of the last commit
    was_committed: bool = False  # the ledger has a commit of the partition
    rows: int | None = None  # that were read; None before the Spark job
    new: int = 0  # objects that are not registered or appended yet, in mode index and append
    changed: int = 0  # objects that have changed since they were registered or appended
    known: int = 0  # objects that the rows were made of, in mode append
    quarantined: int = 0  # objects that were left out and have not changed since, in mode append
    is_held: bool = False  # a restore keeps refreshes off


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do with a partition, and why."""

    action: Action
    why: str = ""  # a clause; empty if the action needs no reason
    is_recorded: bool = True  # in the ledger; an unknown partition without objects is probably a typo
    note: str = ""  # for such a partition: the values that exist
    on_empty: OnEmpty | None = None  # the policy that decided, if the partition has no rows
    is_hold: bool = False  # a restore keeps refreshes off the partition
    failure: str = ""  # why the partition fails after new objects were registered, a clause

    @property
    def fails(self) -> str:
        """Why the partition fails; empty if it does not."""
        return self.why if self.action == "fail" else self.failure

    def __str__(self) -> str:
        if self.action in ("register", "append"):
            return f"{self.action} {self.why}{f', then fail: {self.failure}' if self.failure else ''}"
        action = _WORDS.get(self.action, self.action)
        return f"{action}: {self.why}" if self.why else action


def _objects(number: int, kind: str) -> str:
    return count(number, f"{kind} object")


class Decider:
    """Decides on the partitions of one run; `force` and `landed_only` are as of `ingest_all`.

    For the first partition without rows it looks up in the ledger which of the expected partitions it knows.
    """

    def __init__(self, stream: OpenStream, *, force: bool = False, landed_only: bool = False) -> None:
        self._stream = stream
        self.force = force
        self._landed_only = landed_only
        self._expected: list[str] = []
        self._known: dict[str, bool] = {}
        self._unknown: UnknownPartitions | None = None

    def expect(self, partitions: Iterable[Partition]) -> None:
        """Partitions that will be decided on, so that they are looked up together."""
        self._expected += [partition.path for partition in partitions]

    def decide(self, partition: Partition, facts: Facts, lake: LakeSession | None) -> Decision:
        """Decide what to do with a partition; `lake` is None if there is no lake yet.

        Raises:
            CatalogError: the ledger or the table cannot be read.
        """
        if facts.is_held and not self.force:
            text = partition.option
            release = f"`lake-assets restore {self._stream.name} --partition {text} --release`"
            return Decision("skip", f"held until {release}; only --force replaces it", is_hold=True)
        of_mode = {"replace": self._of_replace, "append": self._of_append, "index": self._of_index}
        return of_mode[self._stream.config.mode](facts) or self._without_rows(partition, facts, lake)

    def _of_append(self, facts: Facts) -> Decision | None:
        if facts.is_unchanged and not self.force:
            return Decision("skip", "all of its objects have been read")
        if not facts.objects:
            if facts.was_committed:
                return Decision("skip", "all of its objects have vanished, and their rows stay")
            return Decision("leave_out", "nothing of it has landed") if self._landed_only else None
        if self.force or (facts.changed and self._stream.config.on_changed == "refresh"):
            why = "--force" if self.force else f"{_objects(facts.changed, 'changed')}, and on_changed is refresh"
            return Decision("replace", why) if facts.rows != 0 else None
        if facts.changed:
            return Decision("fail", f"{_objects(facts.changed, 'changed')}, and on_changed is fail")
        if not facts.new:
            but = f" but {_objects(facts.quarantined, 'quarantined')}, which --force tries again"
            return Decision("skip", f"all of its objects have been read{but if facts.quarantined else ''}")
        # Objects without rows are noted, so that no later run reads them; a partition without any is for `on_empty`.
        return Decision("append", _objects(facts.new, "new")) if facts.rows != 0 or facts.known else None

    def _of_index(self, facts: Facts) -> Decision | None:
        check = f"see `lake-assets index {self._stream.name} --check`"
        failure = f"{_objects(facts.changed, 'changed')}, {check}" if facts.changed else ""
        if facts.new:
            return Decision("register", f"{_objects(facts.new, 'new')} in place", failure=failure)
        if facts.changed:
            return Decision("fail", f"nothing new; {failure}")
        if facts.objects:
            return Decision("skip", "all objects are registered")
        return Decision("leave_out", "nothing of it has landed") if self._landed_only else None

    def _of_replace(self, facts: Facts) -> Decision | None:
        if facts.is_unchanged and not self.force:
            return Decision("skip", "the objects are those of the last commit")
        if self._landed_only and not facts.was_committed and not facts.objects:
            return Decision("leave_out", "nothing of it has landed")
        return Decision("replace") if facts.objects and facts.rows != 0 else None

    def _without_rows(self, partition: Partition, facts: Facts, lake: LakeSession | None) -> Decision:
        """Apply the stream's `on_empty` to a partition without objects, or without rows in them."""
        config = self._stream.config
        if self._landed_only and config.selects_rows and not (facts.table_exists and self._has_rows(partition, lake)):
            # The objects may hold rows of other partitions only.
            return Decision("leave_out", "nothing of it has landed")
        is_unknown = not (facts.was_committed or self._is_known(partition.path, lake))
        is_typo = is_unknown and (not facts.objects or (config.on_empty == "fail" and config.selects_rows))
        note = self._suggest(partition, lake) if is_typo else ""
        source = "the source partition" if config.on_empty == "fail" else "its source"
        empty = f"{source} has no {'rows' if facts.objects else 'objects'}"
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

    def _is_known(self, path: str, lake: LakeSession | None) -> bool:
        """Whether the ledger has a row of a partition."""
        if lake is None:
            return False
        if path not in self._known:
            paths, self._expected = [path, *self._expected], []
            known = partitions_in_ledger(lake, self._stream.table, paths)
            self._known = {path: path in known for path in paths} | self._known
        return self._known[path]

    def _suggest(self, partition: Partition, lake: LakeSession | None) -> str:
        if self._unknown is None:
            # A hint at a typo may read the partitions of the whole ledger.
            known: Iterable[str] = () if lake is None else partitions_in_ledger(lake, self._stream.table)
            self._unknown = UnknownPartitions(self._stream, known)
        return self._unknown.suggest(partition)

    def _has_rows(self, partition: Partition, lake: LakeSession | None) -> bool:
        if lake is None:
            return False
        condition, parameters = where(partition)
        table = self._stream.table.sql
        return bool(lake.rows(f"SELECT 1 FROM {table} WHERE {condition} LIMIT 1", parameters))  # noqa: S608


def edited_text(stream: OpenStream, partition: Partition, before: int, rows: int) -> str:
    """What another client changed, and how to undo it: one clause.

    Args:
        stream: of the partition.
        partition: the partition.
        before: its rows after its last commit.
        rows: its rows now.
    """
    undo = f"`lake-assets ingest {stream.name} --partition {partition.option} --force` does"
    if stream.config.mode == "index":  # a registered file is not registered again
        undo = "to undo it, delete all its rows by SQL, land its objects under other names, and ingest it"
    return f"another client changed it from {count(before, 'row')} to {rows:,}, and no refresh undoes that; {undo}"


def empty_source(stream: OpenStream, partition: Partition, decision: Decision) -> EmptySourceError:
    """The error for a partition without rows if `on_empty` is fail."""
    if stream.config.mode == "index":
        missing, policies = "objects", "keep"
    else:
        values = zip(partition.columns, partition.values, strict=True)
        chosen = [f"{column.name}={column.shown(value)}" for column, value in values if column.in_rows]
        missing = f"rows{' of ' if chosen else ''}{', '.join(chosen)}"
        policies = "keep" if stream.config.mode == "append" else "keep or clear"
    advice = f"{decision.note} Check its name, " if decision.note else "check that it has landed, "
    return EmptySourceError(
        f"the source partition has no {missing}: {stream.source_glob(partition)}:",
        f"{advice}or set on_empty to {policies}.",
    )

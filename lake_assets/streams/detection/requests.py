"""What a sensor has requested and the lake may not have yet: it is requested until the lake has it.

A changed cell waits while a run of the same sensor is queued, so what lands during a backlog shares the next run. After
a run that failed by what passes, such as a storage that was away, its cells are requested again, with a pause that
doubles. What failed by its objects is not: other objects are another change.
"""

import datetime as dt
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Literal, Self

from lake_assets.config.layout.partition import Partition, PartitionColumn
from lake_assets.streams.detection.cursor import packed, unpacked
from lake_assets.streams.detection.run_plan import MOST_CHANGED, RunTarget
from lake_assets.streams.pending import LONGEST, LOOKED, PartitionVerdict, pause_after

CellState = Literal["under way", "done", "failed", "none"]
"""Of the newest run of a cell since it was requested.

A run that was cancelled is done, because a person did that, and one that never began has failed.
"""

Phase = Literal["changed", "asked", "failed", "blocked"]
"""Of a cell: to be requested, requested, failed by what passes, and by its objects."""

Look = Callable[[Collection[Partition]], Mapping[Partition, PartitionVerdict]]


@dataclass(slots=True)
class Waiting:
    """A cell that the lake may not have. Times are Unix times in seconds."""

    phase: Phase
    size: int  # bytes
    due: float  # when it is requested, or looked at
    asked: float = 0  # when it was requested last
    tries: int = 0  # runs that failed


class RequestedCells:
    """The cells of a stream that are to be requested, or were and may have failed."""

    def __init__(self, waiting: Mapping[Partition, Waiting] | None = None) -> None:
        self._waiting = dict(waiting or {})

    @classmethod
    def load(cls, text: str, columns: Sequence[PartitionColumn]) -> Self:
        """Load the text of `dump`; nothing waits if it cannot be read, or is of other columns."""
        names = [column.name for column in columns]
        waiting = unpacked(
            text,
            lambda state: [
                (Partition.of(columns, dict(zip(names, texts, strict=True))), Waiting(*values))
                for texts, values in state["waiting"]
            ],
        )
        return cls(dict(waiting or ()))

    def dump(self) -> str:
        """Return them as a text for `load`."""
        pairs = [[list(cell.texts().values()), astuple(waiting)] for cell, waiting in self._waiting.items()]
        return packed({"waiting": pairs}) if pairs else ""

    @property
    def room(self) -> int:
        """The number of further cells that may wait."""
        return max(MOST_CHANGED - len(self._waiting), 0)

    @property
    def waits(self) -> bool:
        """Whether a changed cell has yet to be requested."""
        return any(waiting.phase == "changed" for waiting in self._waiting.values())

    def add(self, targets: Iterable[RunTarget], is_queued: Callable[[Partition], bool], now: float) -> None:
        """Add what has changed. A queued run that has a cell lists it when it begins, so it needs no other."""
        for target in targets:
            is_asked = is_queued(target.first)
            phase: Phase = "asked" if is_asked else "changed"
            self._waiting[target.first] = Waiting(phase, target.size, now, now if is_asked else 0)

    def settle(
        self, newest: Callable[[Partition, float], CellState], look: Look, now: float, is_late: Callable[[], bool]
    ) -> dict[Partition, Waiting]:
        """Forget what the lake has; returns what has failed since the last time.

        `newest` says what became of a cell's run since it was requested, and `look` what the lake says. Of many cells
        some are looked at, the next time others, as `is_late` is asked between `LOOKED` of them.
        """
        ended = []
        for cell, waiting in sorted(self._waiting.items(), key=lambda item: item[1].asked):
            if waiting.phase == "changed" or waiting.due > now:
                continue
            match newest(cell, waiting.asked):
                case "done":
                    del self._waiting[cell]
                case "under way":
                    waiting.phase = "asked"
                case "none" if now < waiting.asked + pause_after(1):
                    continue  # Dagster may have yet to make the run
                case _ if waiting.phase != "failed":
                    ended.append(cell)
        failed: dict[Partition, Waiting] = {}
        for begin in range(0, len(ended), LOOKED):
            if begin and is_late():
                break
            for cell, verdict in look(ended[begin : begin + LOOKED]).items():
                waiting = self._waiting[cell]
                if verdict == "done":
                    del self._waiting[cell]
                    continue
                if verdict != waiting.phase:
                    failed[cell] = waiting
                waiting.phase, waiting.tries = verdict, waiting.tries + 1
                waiting.due = now + (LONGEST if verdict == "blocked" else pause_after(waiting.tries))
        return failed

    def take(self, now: float) -> list[RunTarget]:
        """Return a target of each cell that is to be requested now."""
        return [
            RunTarget.of(cell, waiting.size)
            for cell, waiting in self._waiting.items()
            if waiting.phase in ("changed", "failed") and waiting.due <= now
        ]

    def note(self, targets: Iterable[RunTarget], now: float) -> None:
        """Note that these targets are requested."""
        for cell in [cell for target in targets for cell in target.cells]:
            self._waiting[cell].phase, self._waiting[cell].asked = "asked", now

    def text(self, now: float) -> str:
        """Return what waits, in sentences; empty if nothing does."""
        phases = [waiting.phase for waiting in self._waiting.values()]
        texts = []
        if waits := phases.count("changed"):
            texts.append(f"{waits:,} wait for the next run.")
        if failed := [waiting.due for waiting in self._waiting.values() if waiting.phase == "failed"]:
            at = dt.datetime.fromtimestamp(max(min(failed), now), dt.UTC)
            texts.append(f"{len(failed):,} failed by what passes, and are requested again from {at:%H:%M:%S} UTC.")
        if blocked := phases.count("blocked"):
            texts.append(f"{blocked:,} failed by their objects, and are requested when these change.")
        return " ".join(texts)

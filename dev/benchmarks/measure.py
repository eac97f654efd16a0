"""Timing: some repetitions after a warm-up, their median and spread, and what is printed of them."""

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of some repetitions of one thing."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    def __str__(self) -> str:
        return f"{self.median:.2f} s ({min(self.seconds):.2f}-{max(self.seconds):.2f})"


@dataclass(frozen=True, slots=True)
class Line:
    """One comparison: what, ours, the peer's, and the highest ratio that is good enough (None: told, not judged)."""

    what: str
    ours: str
    peer: str
    ratio: float | None = None
    target: float | None = None

    @property
    def met(self) -> bool | None:
        return None if self.target is None or self.ratio is None else self.ratio <= self.target


@dataclass
class Report:
    """The lines of a run, in order."""

    lines: list[Line] = field(default_factory=list)

    def compare(self, what: str, ours: Timing, peer: str, theirs: Timing, target: float | None = None) -> None:
        """A ratio of medians."""
        ratio = ours.median / theirs.median
        self.lines.append(Line(what, str(ours), f"{peer}: {theirs}", ratio, target))


@dataclass(frozen=True, slots=True)
class Work:
    """Something to be timed."""

    run: Callable[[], object]
    before: Callable[[], object] = lambda: None  # untimed, before each run


def in_turns(works: Mapping[str, Work], repeat: int, warm_up: int = 1) -> dict[str, Timing]:
    """How long each takes, warm. They run in turns, so that a machine that slows down slows all of them.

    Args:
        works: by name.
        repeat: how often each is timed.
        warm_up: how often before that, untimed.
    """
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for number in range(warm_up + repeat):
        for name, work in works.items():
            work.before()
            start = time.perf_counter()
            work.run()
            if number >= warm_up:
                seconds[name].append(time.perf_counter() - start)
    return {name: Timing(tuple(found)) for name, found in seconds.items()}


def timed(run: Callable[[], object], repeat: int) -> Timing:
    """How long one thing takes, warm."""
    return in_turns({"it": Work(run)}, repeat)["it"]

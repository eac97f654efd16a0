"""Faults at every step of an operation: each case begins with the same lake, and ends with a sound one.

The steps of an operation are recorded once, without a fault. A case is a step and a fault. A fault is short, and then
the next request or statement of that step is the only one that it hits; or it lasts, until the operation has failed.
Then the faults are over, and the operation runs again.
"""

import math
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lake_assets.errors import LakeAssetsError
from lake_assets_tests.faults.lake_invariants import assert_sound
from lake_assets_tests.faults.operations import NotCompactedError, Operation
from lake_assets_tests.faults.template import Template
from lake_assets_tests.world import World

ALWAYS = 10**6  # times that a lasting fault happens
AWAY = 0.2  # seconds of a short outage


@dataclass(frozen=True)
class Case:
    """A fault at a step of an operation."""

    step: str
    fault: str
    lasts: bool

    def __str__(self) -> str:
        return f"{self.fault}{' that lasts' if self.lasts else ''} at {self.step!r}"


@dataclass(frozen=True)
class Result:
    """The outcome of the operation: its error, or None."""

    case: Case
    error: Exception | None


class Bench(ABC):
    """An operation, the lake that it begins with, and a server whose answers can fail."""

    section = ""  # of docs/faults.md
    faults: Sequence[str] = ()
    lasting: Sequence[str] = ()

    def __init__(self, operation: Operation, world: World, folder: Path) -> None:
        self.operation = operation
        self.world = world
        self.hurried = world  # while a fault lasts
        self.folder = folder
        self.end: Callable[[], None] = lambda: None  # of the outage of the present case
        operation.prepare(world)
        self.before = self.rows()
        self.template = self._template()
        self.begin_recording()
        operation.run(world)
        self.steps = self.recorded()
        self.after = self.rows()

    @abstractmethod
    def _template(self) -> Template:
        """The present state."""

    @abstractmethod
    def begin_recording(self) -> None:
        """Forget the steps so far."""

    @abstractmethod
    def recorded(self) -> list[str]:
        """The steps since then, each once, in order."""

    @abstractmethod
    def documented(self, step: str) -> str:
        """The name of the step in the docs."""

    @abstractmethod
    def inject(self, case: Case) -> None:
        """Let the fault of the case happen."""

    @abstractmethod
    def heal(self) -> None:
        """End all faults."""

    @abstractmethod
    def names(self) -> Sequence[str]:
        """What an error may name: the server, its storages, or the lake's catalog."""

    def rows(self) -> list[tuple[Any, ...]]:
        """The rows of the lake by a plain client."""
        return self.world.query("SELECT id, total, region, date::VARCHAR FROM lake.sales ORDER BY ALL")

    def cases(self) -> list[Case]:
        """The faults at each step: short ones, and ones that last."""
        return [
            Case(step, fault, lasts)
            for number, step in enumerate(self.steps)
            for lasts, faults in ((False, self.faults_at(number)), (True, self.lasting_at(number)))
            for fault in faults
            if self.is_possible(step, fault)
        ]

    def covering(self, share: int, shares: int) -> list[Case]:
        """A few cases at different steps; all shares together have each fault, some twice."""
        faults = [(fault, False) for fault in self.faults] + [(fault, True) for fault in self.lasting]
        count = math.ceil(1.5 * len(faults) / shares)
        chosen = [faults[number % len(faults)] for number in range(share * count, (share + 1) * count)]
        steps = self.steps[share % len(self.steps) :] + self.steps
        return [
            Case(next(step for step in steps[number:] if self.is_possible(step, fault)), fault, lasts)
            for number, (fault, lasts) in enumerate(chosen)
        ]

    def is_possible(self, step: str, fault: str) -> bool:  # noqa: ARG002
        """Whether a step can have this fault."""
        return True

    def faults_at(self, number: int) -> Sequence[str]:  # noqa: ARG002 - all at each step, by default
        """The short faults at the step of this number."""
        return self.faults

    def lasting_at(self, number: int) -> Sequence[str]:  # noqa: ARG002
        """The lasting faults at the step of this number."""
        return self.lasting

    def run(self, case: Case) -> Result:
        """Run the operation under the fault of the case, and again without it.

        Raises:
            AssertionError: something is wrong after the fault, or after the second run.
        """
        self.template.restore()
        self.inject(case)
        world = self.hurried if case.lasts else self.world
        try:
            error = self._error(world)
        finally:
            self.heal()
        if error is None:
            assert self.rows() == self.after, "the operation succeeded, with other rows"
        else:
            self._check_error(error)
            assert self.rows() in (self.before, self.after), "the operation failed, and a reader sees a third state"
        self._check_sound()
        self.operation.run(self.world)
        assert self.rows() == self.after, "the next run succeeded, with other rows"
        self._check_sound()
        return Result(case, error)

    def failures(self, cases: Sequence[Case]) -> tuple[list[Result], list[str]]:
        """The results of cases, and what is wrong in those that failed."""
        results, wrong = [], []
        for case in cases:
            try:
                results.append(self.run(case))
            except Exception as error:  # noqa: BLE001 - shown with the others
                wrong.append(f"{self.operation.name}: {case}: {''.join(traceback.format_exception(error)[-3:])}")
        return results, wrong

    def _error(self, world: World) -> Exception | None:
        try:
            self.operation.run(world)
        except Exception as error:  # noqa: BLE001 - the outcome
            return error
        return None

    def _check_error(self, error: Exception) -> None:
        assert isinstance(error, LakeAssetsError | NotCompactedError), "".join(traceback.format_exception(error))
        text = str(error)
        assert "Traceback" not in text
        assert any(name in text for name in self.names()), f"the error names nothing: {text}"

    def _check_sound(self) -> None:
        columns = ("id", "total", "region", "date")
        present = self.rows()
        rows = [dict(zip(columns, row, strict=True)) for row in present]
        assert_sound(
            self.world,
            rows,
            landed=present == self.after and self.operation.is_landed,
            cleaning=self.operation.name == "clean-up",
        )

"""Other processes that act on a world: they begin at once, run beside each other, and can be killed."""

import itertools
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lake_assets_tests.world import World

PATIENCE = 240.0  # seconds until an act counts as hung


@dataclass(frozen=True)
class Ended:
    """How an act ended: it did something, refused with an error of this package, crashed, or was killed."""

    did: str | None = None
    refused: str | None = None
    crashed: str | None = None
    steps: Sequence[str] = ()  # statements and files, and the end

    @property
    def was_killed(self) -> bool:
        """Whether it ended without a word."""
        return (self.did, self.refused, self.crashed) == (None, None, None)


@dataclass(frozen=True)
class Act:
    """One act, in a process of its own."""

    process: int
    result: Path

    def kill(self) -> None:
        """`kill -9`, unless it has ended."""
        if not self.result.exists():
            with suppress(ProcessLookupError):
                os.kill(self.process, signal.SIGKILL)

    def wait(self) -> Ended:
        """Its end."""
        with suppress(ProcessLookupError):  # it has ended
            descriptor = os.pidfd_open(self.process)
            try:
                ended, _, _ = select.select([descriptor], [], [], PATIENCE)
            finally:
                os.close(descriptor)
            assert ended, f"process {self.process} hangs"
        return Ended(**json.loads(self.result.read_text())) if self.result.exists() else Ended()


class Actors:
    """Starts acts; see `actor.py` for their names and options."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers = itertools.count()
        command = [sys.executable, "-m", "lake_assets_tests.faults.actor"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def start(
        self,
        world: World,
        act: str,
        *,
        die_at: int | str | None = None,
        nth: int = 1,
        times: int = 1,
        strategy: str | None = None,
        lock: bool = True,
        **options: Any,
    ) -> Act:
        """Begin an act, to be repeated so often; it dies at this step.

        Args:
            world: on which it acts.
            act: its name; see `actor.py`.
            die_at: the step's number, or the words that it begins with.
            nth: which of the steps that begin with these words.
            times: how often it acts.
            strategy: how it commits: `direct` or `extension`; as the product chooses when None.
            lock: whether it takes the lake's lock.
            **options: of the act.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        fields = ("catalog", "storage", "source", "options", "lake_options")
        result = self._folder / f"{next(self._numbers)}.json"
        request = {
            "world": {name: getattr(world, name) for name in fields},
            "act": act,
            "options": options,
            "times": times,
            "die_at": die_at,
            "nth": nth,
            "strategy": strategy,
            "lock": lock,
            "result": str(result),
        }
        print(json.dumps(request), file=self._process.stdin, flush=True)
        return Act(int(self._process.stdout.readline()), result)

    def run(self, world: World, act: str, **options: Any) -> Ended:
        """The end of an act that nobody kills but itself; its options are those of `start`."""
        return self.start(world, act, **options).wait()

    def kill(self, world: World, act: str, after: float, **options: Any) -> Ended:
        """The end of an act that is killed after so many seconds, if it has not ended before."""
        started = self.start(world, act, **options)
        time.sleep(after)
        started.kill()
        return started.wait()

    def close(self) -> None:
        """End the process that forks."""
        self._process.communicate(timeout=120)


@pytest.fixture(scope="session")
def actors() -> Iterator[Actors]:
    """The processes of a test run."""
    with tempfile.TemporaryDirectory(prefix="lake-assets-actors-") as folder:
        them = Actors(Path(folder))
        yield them
        them.close()

"""One run: the peers' environments, their processes, and what became of each."""

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from dev.benchmarks.peers.compare import Digest, Landed, difference, digest
from dev.benchmarks.peers.process import Command, PeerFailedError, PeerProcess
from dev.benchmarks.peers.results import Failure

CALL = 300.0  # seconds that any call may take
LIMIT = 600.0  # seconds that all calls of a process may take together in a part; then the peer has failed in it
LONGEST = 300  # characters of an error that the results keep

Result = TypeVar("Result")


class DifferentRowsError(Exception):
    """The peer's table has not the landed rows."""


@dataclass
class Running:
    """A peer that takes part in a part of the benchmark."""

    name: str
    process: PeerProcess
    folder: Path


def local_places(landed: Landed, folder: Path) -> Mapping[str, str]:
    """Everything in files of this machine."""
    return {"landing": str(landed.folder), "data": str(folder), "catalog": f"sqlite:///{folder}/catalog.sqlite"}


@dataclass
class Bench:
    """What all parts share."""

    folder: Path
    commands: Mapping[str, Command]
    say: Callable[[str], object]
    limit: float = LIMIT
    places: Callable[[Landed, Path], Mapping[str, str]] = local_places  # by the peer's folder
    versions: dict[str, Mapping[str, str]] = field(default_factory=dict)
    failures: dict[str, Failure] = field(default_factory=dict)  # of the part that runs
    expected: Digest | None = None  # of what is landed at the end, the same for all peers of a part

    def start(self, name: str, landed: Landed, folder: Path, how: str) -> Running:
        """A process of the peer that has made the table (`create`) or opened it (`open`).

        Raises:
            PeerFailedError: it could not.
        """
        process = PeerProcess(self.commands[name], folder, self.folder / "logs" / f"{name}.log", self.limit)
        try:
            process.call("place", CALL, folder=str(folder), columns=dict(landed.columns), **self.places(landed, folder))
            if name not in self.versions:
                self.versions[name] = process.call("versions", CALL)[0]
            process.call(how, CALL)
        except PeerFailedError:
            process.close()
            raise
        return Running(name, process, folder)

    def new_folder(self, part: str, name: str) -> Path:
        """An empty folder for a peer's table."""
        folder = self.folder / f"work-{part}" / name
        shutil.rmtree(folder, ignore_errors=True)
        return folder

    @contextmanager
    def surviving(self, name: str) -> Iterator[None]:
        """Keep an error of the peer as its result; the others go on."""
        try:
            yield
        except (PeerFailedError, DifferentRowsError) as error:
            text = " ".join(str(error).split())
            self.say(f"  {name}: {text[:LONGEST]}")
            cannot = isinstance(error, PeerFailedError) and error.cannot
            self.failures[name] = Failure(error=text[:LONGEST], cannot=cannot)

    @contextmanager
    def part(self, title: str) -> Iterator[dict[str, Failure]]:
        """A part of the benchmark; the failures in it, by peer."""
        self.say(title)
        self.failures = {}
        self.expected = None
        yield self.failures

    def each(
        self, names: Sequence[str], measure: Callable[[str], Result], describe: Callable[[Result], str]
    ) -> dict[str, Result | Failure]:
        """Measure each peer by itself, one after the other; a peer that fails has its error as the result."""
        results: dict[str, Result | Failure] = {}
        for name in names:
            with self.surviving(name):
                found = measure(name)
                results[name] = found
                self.say(f"  {name}: {describe(found)}")
        return results | self.failures

    def remaining(self, names: Sequence[str]) -> list[str]:
        """The peers that have not failed in this part."""
        return [name for name in names if name not in self.failures]

    def verify(self, peer: Running, landed: Landed, extra: Sequence[Landed] = ()) -> None:
        """Compare the peer's table with the landing zone.

        Raises:
            DifferentRowsError: they have different rows.
            PeerFailedError: the peer could not read its table.
        """
        file = peer.folder / "read-back.parquet"
        glob, _ = peer.process.call("read_back", CALL, file=str(file))
        expected = self.expected = self.expected or digest(landed, extra)
        found = difference(landed, glob, extra, expected)
        file.unlink(missing_ok=True)
        if found:
            raise DifferentRowsError(f"other rows than landed: {found}")

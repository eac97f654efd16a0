"""The parts of the benchmark: each peer by itself, with three tables of its own."""

import os
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

from dev.benchmarks.peers.bench import Bench, Running
from dev.benchmarks.peers.process import PeerFailedError
from dev.benchmarks.peers.results import Failure
from dev.benchmarks.peers.serve import Values
from dev.benchmarks.peers.writers import Tally, write
from dev.benchmarks.tpch.landing import Lineitem
from dev.benchmarks.tpch.queries import Query, counts, queries
from dev.benchmarks.tpch.results import Measured

PARTS = {
    "once": "Full backfill, one run",
    "each": "Full backfill, a commit for each partition",
    "restated": "5 % restated, one run",
    "restated each": "5 % restated, a commit for each partition",
    "writers": "8 writers restate a seventh",
    "reader": "5 % restated again and again, beside a reader",
    "killed": "Full backfill, killed twice, and finished",
}
RESTATED, SHARED = 20, 7  # each so many-th partition
WRITERS = 8
KILLS = (0.5, 0.3)  # of the seconds of the backfill in one run
ROUNDS = 3  # of each query
PAUSE = 0.25  # seconds between two looks at the memory


@dataclass
class Reads:
    """What a reader has found."""

    reads: int = 0
    wrong: int = 0
    errors: Tally = field(default_factory=Tally)


@dataclass
class Course:
    """What one peer does, and what was found."""

    bench: Bench
    name: str
    landing: Lineitem
    call: float  # seconds that a call may take
    each: float  # seconds that a backfill with a commit for each partition may take; then no partition is begun
    read: float  # seconds of the reader
    local: bool = True  # files of this machine: then the bytes of the system calls are those of the files
    parts: dict[str, Measured | Failure] = field(default_factory=dict)
    queries: dict[str, tuple[float, float] | Failure] = field(default_factory=dict)

    def run(self) -> None:
        """Measure all parts. One that fails has its error, and the others go on."""
        for part, table in (("once", self._table), ("each", self._each), ("killed", self._killed)):
            self.landing.reset()
            with ExitStack() as stack, self._surviving(self.parts, part):
                peer = self._start(stack, part, "create")
                # What a session does once is not measured, and a reader of a killed backfill finds a table.
                self._call(peer, "refresh", partition=self.landing.partitions[0])
                table(stack, peer)

    def _each(self, _: ExitStack, peer: Running) -> None:
        with self._surviving(self.parts, "each"):
            arguments = {"partitions": self.landing.partitions, "seconds": self.each}
            found = self._measured([peer], lambda: self._call(peer, "refresh_each", **arguments))
            if found.done == len(self.landing.partitions):
                self._verify(peer)
            self._found("each", found)

    def _table(self, stack: ExitStack, peer: Running) -> None:
        """Load, query, restate, query again; then come the writers, and the reader."""
        some = self.landing.partitions[::RESTATED]
        self._found("once", self._measured([peer], lambda: self._all(peer, self.landing.partitions, "whole")))
        before = self._seconds_of_queries(peer)
        for part, call in (
            ("restated", lambda: self._all(peer, some, "some")),
            ("restated each", lambda: self._call(peer, "refresh_each", partitions=some, seconds=self.call)),
        ):
            with self._surviving(self.parts, part):
                self.landing.restate(some)
                self._found(part, self._measured([peer], call))
        after = self._seconds_of_queries(peer)
        self.queries |= {name: (before[name], after[name]) for name in before}
        with self._surviving(self.parts, "writers"), ExitStack() as others, ThreadPoolExecutor(WRITERS) as pool:
            self._writers([peer, *pool.map(lambda _: self._start(others, "once", "open"), range(WRITERS - 1))])
        with self._surviving(self.parts, "reader"):
            self._reader(peer, self._start(stack, "once", "open"), some)

    def _writers(self, peers: Sequence[Running]) -> None:
        shared = self.landing.partitions[::SHARED]
        shares = [shared[number::WRITERS] for number in range(WRITERS)]
        calls: list[Mapping[str, Any]] = [
            {"name": "refresh_all", "partitions": share, "how": "some"} for share in shares
        ]
        tally = Tally()

        def work(tally: Tally) -> int:
            with ThreadPoolExecutor(WRITERS) as pool:
                list(pool.map(lambda peer, call: write(peer, call, tally), peers, calls))
            return len(shared)

        work(Tally())  # what a session does once
        self.landing.restate(shared)
        found = self._measured(peers, lambda: work(tally))
        self._found("writers", found.model_copy(update={"errors": tally.errors, "refused": tally.refused}))
        self._verify(peers[0])

    def _reader(self, peer: Running, reader: Running, some: Sequence[Values]) -> None:
        found = Reads()
        end = time.perf_counter() + self.read
        calls: list[tuple[str, Mapping[str, Any]]] = [
            ("refresh_all", {"how": "some"}),
            ("refresh_each", {"seconds": self.call}),
        ]

        def work() -> int:
            rounds = 0
            while time.perf_counter() < end or rounds < len(calls):
                name, arguments = calls[rounds % len(calls)]
                self.landing.restate(some)
                with self._read_beside(reader, some, found):
                    self._call(peer, name, partitions=some, **arguments)
                rounds += 1
            return rounds * len(some)

        measured = self._measured([peer], work)
        update = {"reads": found.reads, "wrong": found.wrong, "errors": found.errors.errors}
        self._found("reader", measured.model_copy(update=update))
        self._verify(peer)

    @contextmanager
    def _read_beside(self, reader: Running, restated: Sequence[Values], found: Reads) -> Iterator[None]:
        done = threading.Event()

        def read() -> None:
            while not done.is_set():
                try:
                    rows = self._query(reader, counts(self.landing))
                except PeerFailedError as error:
                    found.errors.failed(str(error))
                else:
                    found.reads += 1
                    found.wrong += self.landing.wrong(rows, restated=restated) > 0

        thread = threading.Thread(target=read)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def _killed(self, stack: ExitStack, peer: Running) -> None:
        backfill = self.parts["once"]
        if not isinstance(backfill, Measured):
            self.parts["killed"] = backfill
            return
        partitions, wrong, kept = self.landing.partitions, 0, 0
        for share, how in zip(KILLS, ("whole", "again"), strict=True):
            timer = threading.Timer(backfill.wall * share, peer.process.kill)
            timer.start()
            try:
                self._all(peer, partitions, how)
            except PeerFailedError:
                self.bench.say(f"  {self.name}: killed")
            timer.cancel()
            peer = self._start(stack, "killed", "open")
            rows = self._query(peer, counts(self.landing))
            wrong, kept = wrong + self.landing.wrong(rows, 0), len(rows)
        found = self._measured([peer], lambda: self._all(peer, partitions, "again"))
        self._verify(peer)
        update = {"done": found.done - kept, "reads": len(KILLS), "wrong": wrong}
        self._found("killed", found.model_copy(update=update))

    def _seconds_of_queries(self, peer: Running) -> dict[str, float]:
        found = {}
        for name, query in queries(self.landing).items():
            with self._surviving(self.queries, name):
                calls = [peer.process.call("query", self.call, **asdict(query)) for _ in range(ROUNDS)]
                found[name] = statistics.median(seconds for _, seconds in calls)
        return found

    def _measured(self, peers: Sequence[Running], work: Callable[[], int]) -> Measured:
        """What the work of the peers takes; the work returns how many partitions it has replaced."""
        os.sync()  # what others have written is on disk

        def used() -> tuple[float, int, int]:
            each = [(peer.process.processor_seconds(), *peer.process.bytes_moved()) for peer in peers]
            processor, read, written = map(sum, zip(*each, strict=True))
            return processor, read, written

        before = used()
        with ExitStack() as stack:
            peaks = [stack.enter_context(peer.process.peak_memory(PAUSE)) for peer in peers]
            begun = time.perf_counter()
            done = work()
            wall = time.perf_counter() - begun
        processor, read, written = (now - then for now, then in zip(used(), before, strict=True))
        memory = sum(peak for (peak,) in peaks)
        moved = {"read": read / 1e6, "written": written / 1e6} if self.local else {"read": None, "written": None}
        return Measured(done=done, wall=wall, processor=processor, memory=memory, **moved)

    def _found(self, part: str, found: Measured) -> None:
        self.parts[part] = found
        self.bench.say(
            f"  {self.name}, {part}: {found.done:,} partitions in {found.wall:.1f} s, processor {found.processor:.1f},"
            f" {found.memory:,.0f} MB, {found.read or 0:,.0f} MB read, {found.written or 0:,.0f} MB written,"
            f" {found.wrong} of {found.reads} reads wrong, {sum(found.errors.values())} errors"
        )

    @contextmanager
    def _surviving(self, found: dict[str, Any], part: str) -> Iterator[None]:
        with self.bench.surviving(self.name):
            yield
        if failure := self.bench.failures.pop(self.name, None):
            found[part] = failure

    def _start(self, stack: ExitStack, part: str, how: str) -> Running:
        folder = self.bench.folder / f"work-{part}" / self.name
        if how == "create":
            folder = self.bench.new_folder(part, self.name)
        peer = self.bench.start(self.name, self.landing.landed, folder, how)
        stack.callback(peer.process.close)
        return peer

    def _call(self, peer: Running, name: str, **arguments: Any) -> Any:
        return peer.process.call(name, self.call, **arguments)[0]

    def _all(self, peer: Running, partitions: Sequence[Values], how: str) -> int:
        self._call(peer, "refresh_all", partitions=partitions, how=how)
        return len(partitions)

    def _query(self, peer: Running, query: Query) -> Any:
        return self._call(peer, "query", **asdict(query))

    def _verify(self, peer: Running) -> None:
        self.bench.expected = None  # the landing zone has changed since the last time
        self.bench.verify(peer, self.landing.landed)

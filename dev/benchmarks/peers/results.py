"""What a run has measured, as JSON."""

import datetime as dt
import os
import platform
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil
from pydantic import BaseModel, ConfigDict


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Failure(_Frozen):
    """Why a peer has no result, in its own words."""

    error: str
    cannot: bool = False  # it has no such operation


class Refresh(_Frozen):
    """Refreshes of one partition, whose rows were then equal to the landed ones."""

    wall: Sequence[float]  # seconds of each round
    processor: Sequence[float]  # seconds of each round, of all processes
    memory: float | None = None  # MB at the peak, of all processes

    @property
    def median(self) -> float:
        return statistics.median(self.wall)

    @property
    def processor_median(self) -> float:
        return statistics.median(self.processor)


class Writers(_Frozen):
    """Processes that refreshed a partition each, at the same time."""

    writers: int
    committed: int
    seconds: float
    retries: int  # attempts that failed and were repeated by the benchmark
    refused: int  # refreshes that failed at each attempt
    errors: Mapping[str, int]  # of the failed attempts, with their number
    difference: str | None  # between the table and the landing zone at the end

    @property
    def rate(self) -> float:
        return self.committed / self.seconds


class Readers(_Frozen):
    """A process that counted the rows of a partition while another one refreshed it by the same rows."""

    reads: int  # that returned a number
    refreshes: int
    refused: int  # refreshes that failed
    counts: Mapping[str, int]  # how often which other number of rows than the landed one was found
    errors: Mapping[str, int]  # of the reads that failed

    @property
    def others(self) -> int:
        """Reads that found neither the old nor the new rows."""
        return sum(self.counts.values())

    @property
    def failed(self) -> int:
        """Reads that failed."""
        return sum(self.errors.values())


class ManyFiles(_Frozen):
    """The same refresh in a table of few files and of many."""

    files: int
    few: Refresh
    many: Refresh
    fill: float  # seconds that adding the files took


class Backfill(_Frozen):
    """Many partitions into an empty table."""

    partitions: int
    each: int | None = None  # partitions with a commit of their own, within the time limit
    each_seconds: float | None = None
    at_once: float | None = None  # seconds of all, in as few commits as the peer can
    why_not: str | None = None  # there is no `at_once`

    @property
    def milliseconds(self) -> float | None:
        """Of a partition with a commit of its own."""
        return self.each_seconds / self.each * 1000 if self.each and self.each_seconds else None


class Machine(_Frozen):
    """Where it was measured."""

    processor: str
    cores: int
    memory: float  # GB
    system: str
    python: str

    @classmethod
    def here(cls) -> "Machine":
        """This machine."""
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
        return cls(
            processor=names[0] if names else platform.machine(),
            cores=os.cpu_count() or 1,
            memory=round(psutil.virtual_memory().total / 1e9, 1),
            system=f"{platform.system()} {platform.release()}",
            python=platform.python_version(),
        )


class Results(_Frozen):
    """A run; each part by peer."""

    measured: dt.date
    quick: bool
    machine: Machine
    versions: Mapping[str, Mapping[str, str]]
    others: int  # partitions that the refreshed table has besides the refreshed one
    small_size: str = ""  # objects and rows of the refreshed partition
    big_size: str = ""
    small: Mapping[str, Refresh | Failure] = {}
    big: Mapping[str, Refresh | Failure] = {}
    writers: Mapping[str, Writers | Failure] = {}
    readers: Mapping[str, Readers | Failure] = {}
    files: Mapping[str, ManyFiles | Failure] = {}
    backfill: Mapping[str, Backfill | Failure] = {}

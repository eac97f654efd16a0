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
    at_once: float | None = None  # seconds of all in one commit
    why_not: str | None = None  # there is no `at_once`


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
    small: Mapping[str, Refresh | Failure] = {}
    big: Mapping[str, Refresh | Failure] = {}
    writers: Mapping[str, Writers | Failure] = {}
    files: Mapping[str, ManyFiles | Failure] = {}
    backfill: Mapping[str, Backfill | Failure] = {}

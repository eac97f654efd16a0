"""What the parts have measured, as JSON."""

import datetime as dt
from collections.abc import Mapping, Sequence

from pydantic import BaseModel, ConfigDict

from dev.benchmarks.peers.results import Machine


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Rate(_Frozen):
    """Writers that committed for some seconds, each its own partitions again and again."""

    writers: int
    lakes: int  # that they shared, on one server
    tables: int = 1  # of each lake, that its writers shared
    batch: int  # partitions of a commit
    latency: float = 0  # seconds of each request to an S3 server that has the files; 0: they are in a local folder
    commits: int
    seconds: float
    median: float  # seconds of a commit, with the wait for the lock

    @property
    def rate(self) -> float:
        """Commits a second, of all writers together."""
        return self.commits / self.seconds

    @property
    def partitions(self) -> float:
        """Partitions a second, of all writers together."""
        return self.rate * self.batch


class Grown(_Frozen):
    """What some things took, each the median in seconds, at one size."""

    size: int  # partitions, ledger rows, or objects
    seconds: Mapping[str, float]


class Results(_Frozen):
    """All parts; those that were not measured are empty."""

    quick: bool
    measured: Mapping[str, dt.date]  # by part
    machine: Machine
    writers: Sequence[Rate] = ()
    table: Sequence[Grown] = ()
    indexed: Sequence[Grown] = ()  # the same with an index of partition values
    ledger: Sequence[Grown] = ()
    objects: Sequence[Grown] = ()
    driver: Sequence[Grown] = ()  # processor seconds of a partition, by the partitions of a run

"""What a run has measured, as JSON."""

import datetime as dt
from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict

from dev.benchmarks.peers.results import Failure, Machine


class Measured(BaseModel):
    """One piece of work of a peer, after which its table has the landed rows."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    done: int  # partitions that were replaced, within the time limit
    wall: float  # seconds
    processor: float  # seconds, of all processes
    memory: float  # MB at the peak, of all processes
    read: float | None  # MB, by system calls; of local files only
    written: float | None
    reads: int = 0  # of a reader beside it, or after a kill
    wrong: int = 0  # reads that found a partition with neither its old nor its new rows
    errors: Mapping[str, int] = {}  # of failed reads, or of failed attempts to write
    refused: int = 0  # writes that failed at each attempt


class Results(BaseModel):
    """A run; `parts` by part and peer, `queries` by query and peer: seconds before and after the restatements."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    measured: dt.date
    scale: float
    storage: str
    machine: Machine
    versions: Mapping[str, Mapping[str, str]]
    partitions: int
    restated: int
    rows: int
    parts: Mapping[str, Mapping[str, Measured | Failure]]
    queries: Mapping[str, Mapping[str, tuple[float, float] | Failure]]

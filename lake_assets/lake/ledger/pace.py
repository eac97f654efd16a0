"""How long a stream's runs take, by its ledger."""

import datetime as dt
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from lake_assets.lake.ledger.read import read_ledger
from lake_assets.lake.ledger.tables import LedgerRow, ledger_table
from lake_assets.lake.session import LakeSession

_ROWS = 500  # of the ledger that are read


@dataclass(frozen=True, slots=True)
class Pace:
    """The duration of a stream's last runs that committed something.

    Attributes:
        runs: how many.
        fixed: seconds of a run that do not depend on its partitions, such as Spark's start.
        each: seconds of a partition.
        size: landed bytes of a partition, on average.
    """

    runs: int
    fixed: float
    each: float
    size: float

    def seconds(self, partitions: int, size: int) -> float:
        """How long a run would take; partitions that are larger than those of the last runs take longer.

        Args:
            partitions: how many it reads.
            size: landed bytes of all of them.
        """
        larger = max(1.0, size / partitions / self.size) if partitions and self.size else 1.0
        return self.fixed + partitions * self.each * larger


def pace(session: LakeSession, stream: str, mode: str) -> Pace | None:
    """The pace of a stream's last runs of a mode; None if none has committed.

    Raises:
        CatalogError: the ledger cannot be read.
    """
    if not session.exists(ledger_table(session.config)):
        return None
    rows = read_ledger(session, stream, limit=_ROWS, statuses=["committed"])
    by_run: dict[str, list[LedgerRow]] = {}
    for row in rows:
        if row.mode == mode and row.finished_at is not None:
            by_run.setdefault(row.run_id, []).append(row)
    if len(rows) == _ROWS and len(by_run) > 1:
        by_run.popitem()  # the oldest, which may have more rows
    return _pace(list(by_run.values()))


def _pace(runs: Sequence[Sequence[LedgerRow]]) -> Pace | None:
    if not runs:
        return None
    numbers, seconds = [float(len(run)) for run in runs], [_seconds(run) for run in runs]
    sizes = [row.source_bytes or 0 for run in runs for row in run]
    fixed, each = 0.0, sum(seconds) / sum(numbers)
    if len(set(numbers)) > 1:
        slope, intercept = statistics.linear_regression(numbers, seconds)
        if slope > 0 and intercept >= 0:
            fixed, each = intercept, slope
    return Pace(len(runs), fixed, each, statistics.fmean(sizes))


def _seconds(run: Sequence[LedgerRow]) -> float:
    ended = max(row.finished_at for row in run if row.finished_at is not None)
    return max(dt.timedelta(), ended - min(row.started_at for row in run)).total_seconds()

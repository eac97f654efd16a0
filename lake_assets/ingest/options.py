"""How a run refreshes partitions: one value for the command line, the launchpad, Python and a launcher's request."""

import datetime as dt
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestOptions:
    """The options of a run."""

    # Read the partitions even if their objects have not changed since the last commit, which mode index never does. If
    # another client has renamed the table, begin a new one.
    force: bool = False
    # Leave out a partition that has no objects and was never committed, for any `on_empty`. The policy decides on a
    # partition that was committed and has lost its objects. If a partition column is in the rows, a partition without
    # rows, in the objects and in the lake, is left out.
    landed_only: bool = False
    outside: bool = False  # also take partitions that the stream's config does not have
    # Of a plan that is applied, the fingerprints of the landed objects by the partitions' paths. A partition with other
    # objects now fails with a `PlanMovedError`, and has no row in the ledger.
    planned: Mapping[str, str] | None = None
    run_id: str = field(default_factory=lambda: str(uuid.uuid4()))  # names the run in ledger and commit messages
    run_at: dt.datetime = field(default_factory=lambda: dt.datetime.now(dt.UTC))  # when the run began, with time zone
    requested_by: str | None = None  # a person, or what launched the run, for the ledger

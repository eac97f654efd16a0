"""What the ingest of a run hands on to the checks of the same run: its results, with the listings.

Dagster runs both as two steps. They share a process with the in-process executor, which is this package's default. With
another executor the checks find nothing here: they read the run's partitions from the ledger and list these again.
"""

from collections import OrderedDict
from threading import Lock

from lake_assets.checks.result import Scope
from lake_assets.remote.messages import OBJECTS

RUNS = 16  # kept at most: the checks of a run may never be made

_lock = Lock()
_scopes: OrderedDict[tuple[str, str], Scope] = OrderedDict()


def hand_on(stream: str, scope: Scope) -> None:
    """Keep the scope of a run of a stream until its checks take it."""
    if scope.run_id is None or sum(len(result.manifest.objects) for result in scope.results.values()) > OBJECTS:
        return
    with _lock:
        _scopes[scope.run_id, stream] = scope
        while len(_scopes) > RUNS:
            _scopes.popitem(last=False)


def take(stream: str, run_id: str) -> Scope | None:
    """Return the scope of a run of a stream, once; None if its ingest did not end in this process."""
    with _lock:
        return _scopes.pop((run_id, stream), None)

"""The state of a sensor in Dagster's database, so that the cursor, which the UI shows, is one short line.

The state is stored before Dagster stores the cursor with the run requests of the tick. Each tick has a place of its
own, which its cursor names: the time, the sensor, and a hash of the state. So a lost tick leaves the state of the tick
before, and a tick that the daemon has given up replaces no state when it ends. A tick deletes the states that are older
than the one that it began with. If a state is missing, the sensor begins again, as after a reset of its cursor, which
is safe.
"""

import datetime as dt
import re
import secrets

import dagster as dg

from lake_assets.base.texts import hash_of
from lake_assets.orchestration.dagster_private import delete_texts, store_text, stored_text

_REFERENCE = re.compile(r"state (([0-9a-f]{12})-([0-9a-f]{8})-[0-9a-f]{16})$")
_PLACES = "lake_assets/"  # the keys in Dagster's database begin so
_ABANDONED = 90 * 86_400_000  # milliseconds, after which a sensor that begins deletes the states that others have left


class KeptState:
    """The state that a cursor names.

    Args:
        cursor: of the tick before; one of an earlier version is the state itself.

    Attributes:
        text: the state; None without one.
    """

    def __init__(self, instance: dg.DagsterInstance, cursor: str | None) -> None:
        self._instance = instance
        reference = _REFERENCE.search(cursor or "")
        place, time, self._id = reference.groups() if reference else ("", "0", secrets.token_hex(4))
        self._time = int(time, 16)
        self.text = stored_text(instance, f"{_PLACES}{place}") if reference else cursor

    def store(self, text: str) -> str:
        """Store the state of a tick, and return its cursor: the state itself if Dagster's database does not take it."""
        now = dt.datetime.now(dt.UTC)
        time = max(int(now.timestamp() * 1000), self._time + 1)
        place = f"{time:012x}-{self._id}-{hash_of(text, bits=64):016x}"
        if not store_text(self._instance, f"{_PLACES}{place}", text):
            return text
        if self._time:
            delete_texts(self._instance, f"{_PLACES}%-{self._id}-%", f"{_PLACES}{self._time:012x}")
        else:
            delete_texts(self._instance, f"{_PLACES}%", f"{_PLACES}{time - _ABANDONED:012x}")
        return f"{now:%Y-%m-%d %H:%M:%S} UTC, state {place}"

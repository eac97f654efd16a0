"""The state of a sensor in Dagster's database, so that the cursor, which the UI shows, is one short line.

The state is stored before Dagster stores the cursor with the run requests of the tick. So there are two places: one
keeps the state of the cursor before, and the tick writes to the other. If a tick is lost, the cursor still names the
state before it. The cursor has a hash of its state, and a state with another hash is not used: the sensor then begins
again, as after a reset of its cursor, which is safe.
"""

import datetime as dt
import re
import secrets

import dagster as dg

from lake_assets.detection.digests import hash_of
from lake_assets.orchestration.dagster_private import store_text, stored_text

_REFERENCE = re.compile(r"state ([0-9a-f]{8})-([01])-([0-9a-f]{16})$")


class KeptState:
    """The state that a cursor names.

    Args:
        instance: has the state.
        cursor: of the tick before; one of an earlier version is the state itself.

    Attributes:
        text: the state; None without one.
    """

    def __init__(self, instance: dg.DagsterInstance, cursor: str | None) -> None:
        self._instance = instance
        reference = _REFERENCE.search(cursor or "")
        self._id, self._place, hash_ = reference.groups() if reference else (secrets.token_hex(4), "1", "")
        self.text = stored_text(instance, self._key(self._place)) if reference else cursor
        if reference and (self.text is None or _hash(self.text) != hash_):
            self.text = None

    def store(self, text: str) -> str:
        """Store the state of a tick, and return its cursor: the state itself if Dagster's database does not take it."""
        place = "0" if self._place == "1" else "1"
        if not store_text(self._instance, self._key(place), text):
            return text
        return f"{dt.datetime.now(dt.UTC):%Y-%m-%d %H:%M:%S} UTC, state {self._id}-{place}-{_hash(text)}"

    def _key(self, place: str) -> str:
        return f"lake_assets/{self._id}/{place}"


def _hash(text: str) -> str:
    return f"{hash_of(text, bits=64):016x}"

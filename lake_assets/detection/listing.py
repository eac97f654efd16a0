"""What a scan needs of a store; `Store` has it, and tests have a store of a million keys in memory."""

from collections.abc import Iterator, Sequence
from typing import Protocol

from lake_assets.storage.store import LandedObject


class Listing(Protocol):
    """A store that lists its objects in the order of their keys."""

    def pages(self, prefix: str = "", after: str = "", *, tree: bool = False) -> Iterator[Sequence[LandedObject]]:
        """The objects below a folder whose keys sort after a text, a request at a time; see `Store.pages`."""

    def folders(self, prefix: str = "") -> Sequence[str]:
        """The folders right below a folder, from the root on, without slashes at their ends."""

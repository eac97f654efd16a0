"""An object of a store, as a listing has it."""

import datetime as dt
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lake_assets.escapes import visible_name

if TYPE_CHECKING:
    from obstore import ObjectMeta


@dataclass(frozen=True, slots=True)
class LandedObject:
    """An object of a landing zone as in one listing."""

    uri: str
    key: str  # below the storage's root
    etag: str  # without quotes; of a local file: inode, time and size; of a server without ETags: time
    size: int  # bytes
    last_modified: dt.datetime  # with time zone

    @property
    def shown(self) -> str:
        """The URI for people, in one line."""
        return visible_name(self.uri)


def landed_object(root: str, meta: "ObjectMeta") -> LandedObject:
    """An object of the client's listing below a storage's root."""
    key = meta["path"]
    return LandedObject(f"{root}/{key}", key, (meta["e_tag"] or "").strip('"'), meta["size"], meta["last_modified"])

"""A bucket in memory that lists as S3 does, and counts the requests."""

import datetime as dt
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from lake_assets.base.errors import KeyOrderError
from lake_assets.storage.manifest import LandedObject
from lake_assets.storage.overlapping import listing_position

PAGE = 1000
NOW = dt.datetime(2026, 2, 11, 12, tzinfo=dt.UTC)


@dataclass
class Bucket:
    """Objects by key, in the order of their keys."""

    keys: list[str] = field(default_factory=list)
    objects: dict[str, tuple[str, int, dt.datetime]] = field(default_factory=dict)
    requests: int = 0
    listed: int = 0
    seconds: float = 0  # that a request takes, by `clock`
    time: float = 0
    tree: bool = False  # list folder by folder, as SeaweedFS does

    @classmethod
    def of(cls, keys: Iterable[str], at: dt.datetime = NOW) -> "Bucket":
        """A bucket full of objects of one byte."""
        keys = sorted(keys)
        return cls(keys, {key: (f"{number:x}", 1, at) for number, key in enumerate(keys)})

    def put(self, key: str, etag: str = "a", at: dt.datetime = NOW) -> None:
        if key not in self.objects:
            insort(self.keys, key, key=self._at)
        self.objects[key] = (etag, 1, at)

    def delete(self, key: str) -> None:
        self.keys.remove(key)
        del self.objects[key]

    def _at(self, text: str) -> str:
        return listing_position(text, tree=self.tree)

    def pages(self, prefix: str = "", after: str = "", *, tree: bool = False) -> Iterator[Sequence[LandedObject]]:
        if tree < self.tree and self.keys != sorted(self.keys):
            raise KeyOrderError("not in the order of their names")
        at = max(
            bisect_left(self.keys, self._at(prefix), key=self._at),
            bisect_right(self.keys, self._at(after), key=self._at),
        )
        while True:
            page = [key for key in self.keys[at : at + PAGE] if key.startswith(prefix)]
            self._asked(len(page))
            if page:
                yield [self._landed(key) for key in page]
            if len(page) < PAGE:
                return
            at += PAGE

    def is_marker(self, landed: LandedObject) -> bool:
        return landed.size == 0

    def folders(self, prefix: str = "") -> Sequence[str]:
        self._asked(0)
        result = []
        at = bisect_left(self.keys, self._at(prefix), key=self._at)
        while at < len(self.keys) and self.keys[at].startswith(prefix):
            name, slash, _ = self.keys[at][len(prefix) :].partition("/")
            if slash:
                result.append(f"{prefix}{name}")
            end = f"{prefix}{name}{'/' if slash else ''}\U0010ffff"
            at = bisect_left(self.keys, self._at(end), at + 1, key=self._at)
        return sorted(set(result))

    def clock(self) -> float:
        """A clock that only the requests advance."""
        return self.time

    def _asked(self, keys: int) -> None:
        self.requests += 1
        self.listed += keys
        self.time += self.seconds

    def _landed(self, key: str) -> LandedObject:
        etag, size, at = self.objects[key]
        return LandedObject(f"s3://bucket/{key}", key, etag, size, at)

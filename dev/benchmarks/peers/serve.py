"""The peer's side: a process that executes the runner's calls, one line of JSON each.

It imports the standard library only.

A call is `{"call": "refresh", "arguments": {…}}`. The reply is `{"value": …, "seconds": …}` or
`{"error": "Type: text"}`; the seconds are those of the call itself, in this process.
"""

import ctypes
import gc
import json
import os
import re
import sys
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar, Literal

_COLOURS = re.compile("\x1b\\[[0-9;]*m")
Values = Mapping[str, str]  # a partition: its values by column, as in the path
# `some` partitions; the `whole` table; the whole `again`, after a run that was killed.
How = Literal["some", "whole", "again"]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a peer reads and writes."""

    landing: str  # the landing zone: `<column>=<value>/<column>=<value>/*.parquet`, without the partition columns
    folder: Path  # of the peer, on this machine
    columns: Mapping[str, str]  # the partition columns and their types, `string` or `date`
    data: str  # where its table is: the folder, or one of a bucket, whose keys are in the environment (`AWS_…`)
    catalog: str  # URL of its catalog, if it has one: `sqlite:///…` or `postgresql://…`

    def glob(self, partition: Values) -> str:
        """Of the landed objects of a partition."""
        return "/".join([self.landing, *(f"{name}={value}" for name, value in partition.items()), "*.parquet"])

    @property
    def on_s3(self) -> bool:
        """Whether landing zone and table are in a bucket."""
        return self.landing.startswith("s3://")

    @property
    def base(self) -> str:
        """The landing zone as pyarrow names it in its file system."""
        return self.landing.removeprefix("s3://")

    def objects(self, partition: Values) -> list[str]:
        """The landed objects of a partition, below `base`."""
        folder = self.glob(partition).removesuffix("/*.parquet").removeprefix("s3://")
        if not self.on_s3:
            return sorted(map(str, Path(folder).glob("*.parquet")))
        from pyarrow.fs import FileSelector  # noqa: PLC0415 - of the peer

        return sorted(found.path for found in self.files.get_file_info(FileSelector(folder)))

    @property
    def files(self) -> Any:
        """The file system of the landing zone for pyarrow, which takes the keys from the environment."""
        from pyarrow.fs import FileSystem  # noqa: PLC0415 - of the peer

        return FileSystem.from_uri(self.landing)[0]

    def schema(self) -> Any:
        """The columns of the landed objects, as pyarrow reads them."""
        from pyarrow.dataset import dataset  # noqa: PLC0415 - of the peer

        return dataset(self.base, format="parquet", filesystem=self.files, partitioning=None).schema


class CannotError(Exception):
    """The peer has no such operation; the text says why."""


class Peer(ABC):
    """What every peer does. All write zstd of level 1 where they have the choice, as this package does."""

    distributions: ClassVar[Sequence[str]]  # whose versions the results name

    def __init__(self, place: Place) -> None:
        self.place = place

    @abstractmethod
    def create(self) -> None:
        """Begin a session, and make the table if the peer does not make it at the first refresh."""

    @abstractmethod
    def open(self) -> None:
        """Begin a session on a table that another process has made."""

    @abstractmethod
    def refresh(self, partition: Values) -> None:
        """Replace a partition by the rows of its landed objects."""

    @abstractmethod
    def count(self, partition: Values) -> int:
        """The number of rows of a partition, as a reader of the table finds it now."""

    @abstractmethod
    def read_back(self, file: Path) -> str:
        """Let the peer read its whole table, as Parquet with the partition columns; return a glob of the files."""

    def refresh_all(self, partitions: Sequence[Values], how: How) -> None:
        """Replace these partitions by their landed objects, in as few commits as the peer can."""
        raise CannotError("it has no commit of many partitions")

    def query(self, sql: str, columns: Sequence[str], where: str) -> list[tuple[Any, ...]]:
        """The rows of a query of the table, as a reader gets them now.

        Args:
            sql: the query, in which `{table}` is the table.
            columns: that it reads.
            where: its condition, or an empty text; for a peer that filters before it queries.
        """
        raise CannotError("it has no queries")

    def refresh_each(self, partitions: Sequence[Values], seconds: float) -> int:
        """Refresh partitions, each with a commit of its own, until the time is over; return their number."""
        end = time.perf_counter() + seconds
        for number, partition in enumerate(partitions):
            if time.perf_counter() >= end:
                return number
            self.refresh(partition)
        return len(partitions)

    def fill(self, files: Sequence[str], partitions: Sequence[Values]) -> None:
        """Add existing Parquet files without partition columns, each of one partition, to the table."""
        raise CannotError("it adds no existing files")


def _rest() -> None:
    """Give memory back to the system that the last call has left: the other peers need it."""
    gc.collect()
    if pyarrow := sys.modules.get("pyarrow"):
        pyarrow.default_memory_pool().release_unused()
    with suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").malloc_trim(0)


def _execute(peer: Peer, call: str, arguments: Mapping[str, Any]) -> Any:
    match call:
        case "rest":
            return _rest()
        case "versions":
            return {name: version(name) for name in peer.distributions}
        case "create":
            peer.place.folder.mkdir(parents=True, exist_ok=True)
            return peer.create()
        case "open":
            return peer.open()
        case "refresh":
            return peer.refresh(arguments["partition"])
        case "count":
            return peer.count(arguments["partition"])
        case "refresh_all":
            return peer.refresh_all(arguments["partitions"], arguments["how"])
        case "query":
            return [list(map(str, row)) for row in peer.query(**arguments)]
        case "refresh_each":
            return peer.refresh_each(arguments["partitions"], arguments["seconds"])
        case "fill":
            return peer.fill(arguments["files"], arguments["partitions"])
        case "read_back":
            return peer.read_back(Path(arguments["file"]))
    raise ValueError(f"no call {call!r}")


def serve(kind: type[Peer]) -> None:
    """Execute calls from standard input until it ends. What libraries print goes to standard error."""
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    peer: Peer | None = None
    for line in sys.stdin:
        request = json.loads(line)
        arguments = request.get("arguments", {})
        begun = time.perf_counter()
        reply: dict[str, Any]
        try:
            if request["call"] == "place":
                peer, value = kind(Place(**arguments | {"folder": Path(arguments["folder"])})), None
            else:
                assert peer is not None, "`place` comes first"
                value = _execute(peer, request["call"], arguments)
            reply = {"value": value, "seconds": time.perf_counter() - begun}
        except Exception as error:  # noqa: BLE001 - the runner reports it
            traceback.print_exc()
            text = _COLOURS.sub("", f"{type(error).__name__}: {error}")
            reply = {"error": text, "cannot": isinstance(error, CannotError)}
        replies.write(json.dumps(reply) + "\n")
        replies.flush()

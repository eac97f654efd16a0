"""Streams that are released together: their partitions of a key become visible in one snapshot, or none does.

A stream whose partition is unchanged does not hold the others back. One whose partition failed does, and so does one in
which nothing of the partition has landed, unless its `on_empty` says what that means.
"""

from collections.abc import Sequence
from dataclasses import replace

from lake_assets.errors import HeldBackError
from lake_assets.ingest.options import IngestOptions
from lake_assets.ingest.outcome import error_text
from lake_assets.layout.partition import Partition
from lake_assets.layout.texts import several
from lake_assets.streams.calendar import Calendar
from lake_assets.streams.stream import OpenStream


def waiting_text(streams: Sequence[str]) -> str:
    """Return why a partition waits for streams in which nothing of it has landed, a clause."""
    return f"it waits for {several(streams)}, where nothing has landed"


def held_back(partition: Partition, stream: str, error: BaseException | str) -> HeldBackError:
    """Return the error of a partition that another stream of its group holds back."""
    text = error if isinstance(error, str) else error_text(error)
    problem = f"{partition} is released together with {stream}, where it failed: {text.splitlines()[0].rstrip('.')}."
    return HeldBackError(problem, f"Correct that in {stream}, and run it again.")


def options_of_companion(stream: OpenStream, options: IngestOptions) -> IngestOptions:
    """Return the options of a stream that a run of another one takes along.

    A partition in which nothing has ever landed is waited for, unless the stream's `on_empty` decides on it.
    """
    return replace(options, planned=None, landed_only=options.landed_only or stream.config.on_empty == "fail")


def takes_part(stream: OpenStream, partition: Partition) -> bool:
    """Return whether a stream expects this partition of its group, by its config."""
    return Calendar(stream.config).outside(partition) is None

"""The state between two scans, as a short text that Dagster stores with the sensor and with each tick."""

import base64
import datetime as dt
import json
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from lake_assets.config.streams import StreamConfig
from lake_assets.streams.detection.reading import DigestRange, DigestRanges, FolderDigest, ScanPosition

Unpacked = TypeVar("Unpacked")

CURSOR_VERSION = 3


def packed(state: Mapping[str, Any]) -> str:
    """Return the state as JSON, most of it compressed."""
    text = json.dumps(state, separators=(",", ":")).encode()
    return json.dumps({"version": CURSOR_VERSION, "state": base64.b85encode(zlib.compress(text, 9)).decode()})


def unpacked(text: str | None, read: Callable[[Mapping[str, Any]], Unpacked]) -> Unpacked | None:
    """Return what `read` makes of a text's state; None without a text, or without one of this version that it reads.

    A sensor then starts again, which is safe; a tick that fails would fail until somebody resets the cursor.
    """
    if not text:
        return None
    try:
        outer = json.loads(text)
        if outer["version"] != CURSOR_VERSION:
            return None
        return read(json.loads(zlib.decompress(base64.b85decode(outer["state"]))))
    except (ValueError, KeyError, TypeError, AttributeError, zlib.error):  # damaged, or of a version with other fields
        return None


def time_of(text: str | None) -> dt.datetime | None:
    """Return the time of a cursor that is nothing else; None without a cursor, or without a time and its zone."""
    if not text:
        return None
    try:
        time = dt.datetime.fromisoformat(text)
    except ValueError:
        return None
    return time if time.tzinfo is not None else None


@dataclass
class Cursor:
    """The state of a sensor of type `objects`."""

    layout: str  # see `identity`; the state of another source or layout is not used
    tree: bool = False  # the store lists folder by folder
    active: dict[str, FolderDigest] = field(default_factory=dict)  # by folder of the active partitions
    ranges: DigestRanges = field(default_factory=DigestRanges)  # the older folders'
    prefixes: set[str] = field(default_factory=set)  # folders above those of times, at the last scan
    paused: dict[str, ScanPosition] = field(default_factory=dict)  # by prefix, if time ran out in the active partitions
    first: list[ScanPosition] = field(default_factory=lambda: [ScanPosition("")])  # of ranges that were never read
    sweep: ScanPosition = field(default_factory=lambda: ScanPosition(""))  # in the older folders
    sweeps: int = 0  # that are finished
    sweep_begun: float = 0  # Unix time of this sweep's begin, in seconds
    since: float = 0  # the same of the sweep before
    unmatched: dict[int, int] = field(default_factory=dict)  # hashes of reported objects, with the last sweep of each
    unremembered: int = 0  # further unmatched objects, when their number was last reported

    @classmethod
    def load(cls, text: str | None, stream: StreamConfig) -> "Cursor":
        """Load a cursor from the text of `dump`; a new one if the text is missing, unreadable or of another layout.

        A new cursor is safe: everything is scanned again, and an ingest of unchanged objects does nothing.
        """
        layout = identity(stream)
        return unpacked(text, lambda state: cls._of(layout, state)) or cls(layout)

    @classmethod
    def _of(cls, layout: str, state: Mapping[str, Any]) -> "Cursor":
        if state["layout"] != layout:
            return cls(layout)
        return cls(
            layout=layout,
            tree=state["tree"],
            active={path: FolderDigest(*digest) for path, *digest in state["active"]},
            ranges=DigestRanges(
                (
                    DigestRange(first, last or first, FolderDigest(hash_sum, objects), folders)
                    for first, last, folders, hash_sum, objects in state["cells"]
                ),
                tree=state["tree"],
            ),
            prefixes=set(state["branches"]),
            paused={prefix: _scan_position(at) for prefix, at in state["paused"]},
            first=[_scan_position(at) for at in state["first"]],
            sweep=_scan_position(state["lap"]),
            sweeps=state["laps"],
            sweep_begun=state["lap_begun"],
            since=state["since"],
            unmatched=dict(state["outside"]),
            unremembered=state["untold"],
        )

    def in_tree_order(self) -> "Cursor":
        """Return the cursor for a store that lists folder by folder, where the positions of passes have no meaning."""
        first = [ScanPosition("")] if self.first else []
        ranges = DigestRanges(self.ranges, tree=True)
        return replace(self, tree=True, ranges=ranges, first=first, sweep=ScanPosition(""), paused={})

    def dump(self) -> str:
        """Return the cursor as JSON, most of it compressed: about ten bytes a folder."""
        state = {
            "layout": self.layout,
            "tree": self.tree,
            "active": [[path, digest.hash_sum, digest.objects] for path, digest in sorted(self.active.items())],
            "cells": [
                [r.first, "" if r.last == r.first else r.last, r.folders, r.digest.hash_sum, r.digest.objects]
                for r in self.ranges
            ],
            "branches": sorted(self.prefixes),
            "paused": [[prefix, _texts(at)] for prefix, at in sorted(self.paused.items())],
            "first": [_texts(at) for at in self.first],
            "lap": _texts(self.sweep),
            "laps": self.sweeps,
            "lap_begun": self.sweep_begun,
            "since": self.since,
            "outside": sorted(self.unmatched.items()),
            "untold": self.unremembered,
        }
        return packed(state)


def _texts(at: ScanPosition) -> list[object]:
    return [at.prefix, at.after, at.folder, at.digest.hash_sum, at.digest.objects, *at.partitions]


def _scan_position(texts: list[Any]) -> ScanPosition:
    prefix, after, folder, hash_sum, objects, *partitions = texts
    return ScanPosition(prefix, after, folder, FolderDigest(hash_sum, objects), tuple(partitions))


def identity(stream: StreamConfig) -> str:
    """Return a text that changes if the paths have another meaning: source, layout, file pattern, partition columns."""
    template = stream.template
    types = ",".join(f"{column.name}:{column.type}" for column in stream.partition_columns)
    options = f"{template.time_zone},{template.nested},{template.compat}"
    return "\n".join((stream.source.root, template.text, options, stream.files, types))

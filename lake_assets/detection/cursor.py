"""What is remembered between two scans, as a short text that Dagster keeps with the sensor and with each tick."""

from dataclasses import dataclass, field, replace
from typing import Any

from lake_assets.config.streams import Stream
from lake_assets.detection.digest_ranges import DigestRange, DigestRanges
from lake_assets.detection.digests import FolderDigest
from lake_assets.detection.packing import packed, unpacked
from lake_assets.detection.reading import ScanPosition


@dataclass
class Cursor:
    """What was seen so far.

    Attributes:
        layout: of what; what is known of another source or layout is of no use.
        tree: the store lists folder by folder.
        scans: part of the run keys; one more after each scan that asked for runs.
        active: digests of the active partitions' folders.
        ranges: digests of the older ones'.
        prefixes: folders above those of times that have been seen.
        paused: of prefixes, where time ran out in the active partitions.
        first: stretches that were never read through.
        sweep: how far the sweep through the older folders has come.
        sweeps: how many sweeps are done.
        sweep_begun: when this sweep began, in seconds of Unix time.
        since: when the sweep before it began.
        unmatched: hashes of the unmatched objects that were reported, with the sweep that met each last.
        unremembered: how many more of them there were, when that was reported.
    """

    layout: str
    tree: bool = False
    scans: int = 0
    active: dict[str, FolderDigest] = field(default_factory=dict)
    ranges: DigestRanges = field(default_factory=DigestRanges)
    prefixes: set[str] = field(default_factory=set)
    paused: dict[str, ScanPosition] = field(default_factory=dict)
    first: list[ScanPosition] = field(default_factory=lambda: [ScanPosition("")])
    sweep: ScanPosition = field(default_factory=lambda: ScanPosition(""))
    sweeps: int = 0
    sweep_begun: float = 0
    since: float = 0
    unmatched: dict[int, int] = field(default_factory=dict)
    unremembered: int = 0

    @classmethod
    def load(cls, text: str | None, stream: Stream, scans: int = 0) -> "Cursor":
        """The cursor of a text; a new one where there is none, or none that can be read or that fits the stream.

        A new beginning is safe: what was seen is scanned again, and an ingest of what has not changed does nothing.

        Args:
            text: as `dump` gave it.
            stream: whose.
            scans: with what a new one begins.
        """
        layout = identity(stream)
        state = unpacked(text)
        if state is None:
            return cls(layout, scans=scans)
        if state["layout"] != layout:
            return cls(layout, scans=state["looks"])
        return cls(
            layout=layout,
            tree=state["tree"],
            scans=state["looks"],
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
        """The same for a store that turned out to list folder by folder: where passes stood means nothing there."""
        first = [ScanPosition("")] if self.first else []
        ranges = DigestRanges(self.ranges, tree=True)
        return replace(self, tree=True, ranges=ranges, first=first, sweep=ScanPosition(""), paused={})

    def dump(self) -> str:
        """The cursor as JSON, most of it compressed: about ten bytes a folder."""
        state = {
            "layout": self.layout,
            "tree": self.tree,
            "looks": self.scans,
            "active": [[path, digest.hash_sum, digest.objects] for path, digest in sorted(self.active.items())],
            "cells": [
                [c.first, "" if c.last == c.first else c.last, c.folders, c.digest.hash_sum, c.digest.objects]
                for c in self.ranges
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
    return [
        at.prefix,
        at.after,
        at.folder,
        at.digest.hash_sum,
        at.digest.objects,
        *at.partitions,
    ]


def _scan_position(texts: list[Any]) -> ScanPosition:
    prefix, after, folder, hash_sum, objects, *partitions = texts
    return ScanPosition(prefix, after, folder, FolderDigest(hash_sum, objects), tuple(partitions))


def identity(stream: Stream) -> str:
    """What the paths mean: the source, the layout, the files that count and the partition columns."""
    template = stream.template
    types = ",".join(f"{column.name}:{column.type}" for column in stream.columns)
    options = f"{template.time_zone},{template.nested},{template.compat}"
    return "\n".join((stream.source.root, template.text, options, stream.files, types))

"""What is remembered between two looks, as a short text that Dagster keeps with the sensor and with each tick."""

from dataclasses import dataclass, field, replace
from typing import Any

from lake_assets.config.streams import Stream
from lake_assets.detection.digest_ranges import Cell, Cells
from lake_assets.detection.digests import Mark
from lake_assets.detection.packing import packed, unpacked
from lake_assets.detection.reading import Place


@dataclass
class Cursor:
    """What was seen so far.

    Attributes:
        layout: of what; what is known of another source or layout is of no use.
        tree: the store lists folder by folder.
        looks: part of the run keys; one more after each look that had something to tell.
        active: marks of the active partitions' folders.
        cells: marks of the older ones'.
        branches: folders above those of times that have been seen.
        paused: of branches, where time ran out in the active partitions.
        first: stretches that were never read through.
        lap: where the round through the older folders stands.
        laps: how many rounds are done.
        lap_begun: when this round began, in seconds of Unix time.
        since: when the round before it began.
        outside: hashes of the strays that were told, with the round in which each was met last.
        untold: how many strays there were besides, when that was told.
    """

    layout: str
    tree: bool = False
    looks: int = 0
    active: dict[str, Mark] = field(default_factory=dict)
    cells: Cells = field(default_factory=Cells)
    branches: set[str] = field(default_factory=set)
    paused: dict[str, Place] = field(default_factory=dict)
    first: list[Place] = field(default_factory=lambda: [Place("")])
    lap: Place = field(default_factory=lambda: Place(""))
    laps: int = 0
    lap_begun: float = 0
    since: float = 0
    outside: dict[int, int] = field(default_factory=dict)
    untold: int = 0

    @classmethod
    def load(cls, text: str | None, stream: Stream, looks: int = 0) -> "Cursor":
        """The cursor of a text; a new one where there is none, or none that can be read or that fits the stream.

        To begin anew is safe: what was seen is looked at again, and an ingest of what has not changed does nothing.

        Args:
            text: as `dump` gave it.
            stream: whose.
            looks: with what a new one begins.
        """
        layout = identity(stream)
        state = unpacked(text)
        if state is None:
            return cls(layout, looks=looks)
        if state["layout"] != layout:
            return cls(layout, looks=state["looks"])
        return cls(
            layout=layout,
            tree=state["tree"],
            looks=state["looks"],
            active={path: Mark(*mark) for path, *mark in state["active"]},
            cells=Cells(
                (
                    Cell(first, last or first, Mark(digest, objects), folders)
                    for first, last, folders, digest, objects in state["cells"]
                ),
                tree=state["tree"],
            ),
            branches=set(state["branches"]),
            paused={branch: _place(place) for branch, place in state["paused"]},
            first=[_place(place) for place in state["first"]],
            lap=_place(state["lap"]),
            laps=state["laps"],
            lap_begun=state["lap_begun"],
            since=state["since"],
            outside=dict(state["outside"]),
            untold=state["untold"],
        )

    def in_tree_order(self) -> "Cursor":
        """The same for a store that turned out to list folder by folder: where passes stood means nothing there."""
        first = [Place("")] if self.first else []
        cells = Cells(self.cells, tree=True)
        return replace(self, tree=True, cells=cells, first=first, lap=Place(""), paused={})

    def dump(self) -> str:
        """The cursor as JSON, most of it compressed: about ten bytes a folder."""
        state = {
            "layout": self.layout,
            "tree": self.tree,
            "looks": self.looks,
            "active": [[path, mark.digest, mark.objects] for path, mark in sorted(self.active.items())],
            "cells": [
                [c.first, "" if c.last == c.first else c.last, c.folders, c.mark.digest, c.mark.objects]
                for c in self.cells
            ],
            "branches": sorted(self.branches),
            "paused": [[branch, _texts(place)] for branch, place in sorted(self.paused.items())],
            "first": [_texts(place) for place in self.first],
            "lap": _texts(self.lap),
            "laps": self.laps,
            "lap_begun": self.lap_begun,
            "since": self.since,
            "outside": sorted(self.outside.items()),
            "untold": self.untold,
        }
        return packed(state)


def _texts(place: Place) -> list[object]:
    return [place.prefix, place.after, place.folder, place.mark.digest, place.mark.objects, *place.partitions]


def _place(texts: list[Any]) -> Place:
    prefix, after, folder, digest, objects, *partitions = texts
    return Place(prefix, after, folder, Mark(digest, objects), tuple(partitions))


def identity(stream: Stream) -> str:
    """What the paths mean: the source, the layout, the files that count and the partition columns."""
    template = stream.template
    types = ",".join(f"{column.name}:{column.type}" for column in stream.columns)
    options = f"{template.time_zone},{template.nested},{template.compat}"
    return "\n".join((stream.source.root, template.text, options, stream.files, types))

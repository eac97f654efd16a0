"""The folders of a layout below which a listing can be limited to the partitions of the last days."""

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from zoneinfo import ZoneInfo

from lake_assets.base.errors import StorageError
from lake_assets.config.layout.codec import HiveCodec
from lake_assets.config.layout.grammar import Part, Placeholder, Static, folder_parts
from lake_assets.config.layout.template import Template
from lake_assets.config.layout.times import TIME_TYPES, Granularity, zone_of
from lake_assets.config.streams import StreamConfig
from lake_assets.streams.detection.reading import Listing

MOST_PREFIXES = 2000  # each is a request for each tick

# The parts that may follow a part of a time, so that names sort as times do.
_FINER: Mapping[Granularity | None, tuple[Granularity | None, ...]] = MappingProxyType(
    {None: (None, "YY"), "YY": ("MM", "WW", None), "MM": ("DD", None), "WW": (None,), "DD": ("HH", None), "HH": (None,)}
)


@dataclass(frozen=True)
class TimePrefix:
    """The folders of a layout before and from the first time."""

    template: Template
    # Of the folders that have a digest of their own; a partition has one or several of them. If the layout has the
    # names of files, the stems of these have digests; see `Template.stem`.
    depth: int
    leads: tuple[tuple[Part, ...], ...] = ()  # folders before the first that begins with a time: `region={region}`
    begin: str = ""  # the text before the time if that is in the name of a file, such as `sales_`
    # The text below a prefix at which the active partitions begin. None if the layout has no folder from which on names
    # sort as times do; then only a scan of all objects finds new ones.
    active_from: str | None = None

    @classmethod
    def of(cls, stream: StreamConfig, now: dt.datetime) -> "TimePrefix":
        """Return the time prefix of a stream's layout; its `lookback` and `end` say which partitions are active now."""
        template = stream.template
        segments = [tuple(folder) for folder in folder_parts(template.parts)]
        # OLake's paths may leave folders out, so each first folder has one digest.
        depth = 1 if template.compat else len(segments) - bool(template.file_parts)
        if not template.nested:
            types = {name: field.type for name, field in stream.partitions.items()}
            columns = {name for name, type_ in types.items() if type_ in TIME_TYPES}
            for number, segment in enumerate(segments):
                first = next((part for part in segment if isinstance(part, Placeholder)), None)
                if first is not None and first.name in columns:
                    begin = segment[0].text if number == depth and isinstance(segment[0], Static) else ""
                    times = _sorted_times([*segment[bool(begin) :], *_joined(segments[number + 1 :])], columns)
                    if times:
                        return cls(template, depth, tuple(segments[:number]), begin, _active_from(stream, times, now))
                    break
        return cls(template, depth)

    def prefixes(self, listing: Listing) -> list[str]:
        """Return the folders above those of times, each with a slash at its end, and `begin`; the root is empty.

        Too many folders are a StorageError.
        """
        prefixes = [""]
        for lead in self.leads:
            if isinstance(lead[0], Static) and len(lead) == 1:
                prefixes = [f"{prefix}{lead[0].text}/" for prefix in prefixes]
                continue
            pattern = HiveCodec(lead, ZoneInfo("UTC")).pattern
            prefixes = [
                f"{folder}/"
                for prefix in prefixes
                for folder in listing.folders(prefix)
                if pattern.fullmatch(folder.rpartition("/")[2])
            ]
            if len(prefixes) > MOST_PREFIXES:
                raise StorageError(
                    f"the layout {self.template.text!r} has {len(prefixes):,} folders above those of its times:",
                    f"put the time before them in the layout; a sensor watches {MOST_PREFIXES:,} at most.",
                )
        return [f"{prefix}{self.begin}" for prefix in prefixes]

    def prefix_of(self, folder: str) -> str:
        """Return the prefix of a folder of `depth` parts, or of a stem."""
        return "".join(f"{name}/" for name in folder.split("/")[: len(self.leads)]) + self.begin

    def is_active(self, folder: str) -> bool:
        """Return whether a folder of `depth` parts, with a slash at its end, or a stem is active."""
        return self.active_from is not None and folder[len(self.prefix_of(folder)) :] > self.active_from


def _joined(segments: Sequence[Sequence[Part]]) -> Iterator[Part]:
    for segment in segments:
        yield Static("/")
        yield from segment


def _sorted_times(parts: Sequence[Part], columns: set[str]) -> tuple[Part, ...]:
    """Return the parts up to the last placeholder by which names sort as times do."""
    taken = 0
    before: Granularity | None = None
    for number, part in enumerate(parts):
        if isinstance(part, Static):
            continue
        if part.name not in columns or part.granularity not in _FINER[before]:
            break
        before = part.granularity
        taken = number + 1
    return tuple(parts[:taken])


def _active_from(stream: StreamConfig, times: Sequence[Part], now: dt.datetime) -> str:
    """Return the least text of the active partitions' folders."""
    text = ""
    for part in times:
        if isinstance(part, Static):
            text += part.text
        else:
            assert part.name is not None  # noqa: S101 - the time prefix consists of partition columns
            text += stream.template.value_text(part, _first_active(stream, part.name, now))
    return text


def _first_active(stream: StreamConfig, column: str, now: dt.datetime) -> str:
    """Return the time column's text for the earliest active partition."""
    field = stream.partitions[column]
    assert stream.sensor is not None  # noqa: S101 - only sensors scan
    today = now.astimezone(ZoneInfo(zone_of(field.type, stream.time_zone)))
    if field.end is not None and field.end < today.date():
        today = dt.datetime.combine(field.end, dt.time(), today.tzinfo)
    return TIME_TYPES[field.type].text(today - dt.timedelta(days=stream.sensor.lookback))

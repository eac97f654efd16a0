"""The streams of a landing zone, proposed from a look at it: layout, partition columns, start, table."""

import datetime as dt
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Any

import pyarrow as pa
import yaml
from pyarrow import types
from pydantic import ValidationError

from lake_assets.base.errors import LakeAssetsError, OutsidePartitionError
from lake_assets.base.texts import count, several, visible
from lake_assets.config.connections import NetworkSettings
from lake_assets.config.formats import COMPRESSED, PARQUET, LandedFormat
from lake_assets.config.layout.hive import is_hidden, logged_table
from lake_assets.config.layout.partition import WHOLE, Partition
from lake_assets.config.layout.times import TIME_TYPES
from lake_assets.config.messages import sentence
from lake_assets.config.partitions import DIMENSIONS, name_clash
from lake_assets.config.storages import AnyStorage
from lake_assets.config.streams import StreamConfig
from lake_assets.storage.manifest import LandedObject
from lake_assets.streams.calendar import Calendar
from lake_assets.streams.locator import PartitionLocator
from lake_assets.wings.importers import folders
from lake_assets.wings.importers.folders import (
    SeenColumn,
    are_partitions,
    columns_of_paths,
    is_part_of_time,
    refined,
    unfit_folder,
    values_among,
)
from lake_assets.wings.importers.olake import as_identifier
from lake_assets.wings.importers.sampler import MOST_LISTINGS, WORD, Sampler, SeenFolder

MOST_STREAMS = 40
MOST_VALUES = 50  # of a column; one with more gets its values from the landing zone

_UNFIT = "one of { } [ ] * ? \\, or a control character"
_SUFFIXES = (".parquet", ".PARQUET", ".parq", ".pq")
_OTHER_SUFFIXES = {suffix: suffix for suffix in (".csv", ".tsv", ".tab", ".json", ".ndjson", ".avro", ".orc")} | {
    ".jsonl": ".json"
}
_DEPTH = 4  # of folders above those of streams
_COMPARED = 3  # folders whose objects' columns are compared
_TRIED = 3  # objects of a stream whose footers are read until one is Parquet
_FIRST = dt.date(1970, 1, 1)  # an earlier folder is a date that stands for none, such as 0001-01-01

# Names that the lake, or another stream with the rest of the name, has for a table or an asset of its own.
_OF_THE_LAKE = frozenset({"ingest_runs", "ingest_files", "lake_ledger"})
_OF_STREAMS = ("_landing", "_report")


@dataclass(frozen=True)
class Proposal:
    """A stream that fits what was seen, or the reason why there is none."""

    name: str  # of the stream
    folder: str  # below the root of the landing zone, without a slash at its end
    # Keys of the stream in the config, without its source; empty if no stream fits
    config: dict[str, Any] = field(default_factory=dict)
    example: str = ""  # a partition that has landed, as `region=NW,date=2026-02-11`; empty if none is known
    # The columns of one object, by its footer or the begin of its text; None if it is damaged
    schema: pa.Schema | None = None
    form: LandedFormat = PARQUET
    notes: tuple[str, ...] = ()  # what is not certain, each a sentence without a full stop


def propose(sampler: Sampler, start: dt.date | None = None) -> list[Proposal]:
    """Return the streams below the root of a storage; time columns start at `start`, or at that of the first folder."""
    root = sampler.storage.root.rstrip("/").rpartition("/")[2]
    proposals: list[Proposal] = []
    names: set[str] = set()
    for folder, notes in _streams(sampler, sampler.folder(""), _DEPTH):
        if len(proposals) == MOST_STREAMS or sampler.listings >= MOST_LISTINGS:
            note = "the look ended here: run the command on the rest alone"
            proposals.append(Proposal("", folder.path, notes=(note,)))
            break
        name = _free(as_identifier(folder.word or folder.path.rstrip("/").rpartition("/")[2] or root), names)
        names.add(name.lower())
        proposal = _proposal(sampler, folder, name, start)
        proposals.append(replace(proposal, notes=(*notes, *proposal.notes)))
    return proposals


def _free(name: str, names: set[str]) -> str:
    number = 2
    free = name
    while free.lower() in names or _is_taken(free.lower(), names):
        free, number = f"{name}_{number}", number + 1
    return free


def _is_taken(name: str, names: set[str]) -> bool:
    rests = {name.removesuffix(suffix) for suffix in _OF_STREAMS if name.endswith(suffix)}
    return name in _OF_THE_LAKE or not names.isdisjoint(rests)


def _streams(sampler: Sampler, folder: SeenFolder, depth: int) -> Iterator[tuple[SeenFolder, tuple[str, ...]]]:
    """Yield the folders of streams below a folder, each with what is not certain of it."""
    names = list(folder.folders)
    if not names or depth == 0 or are_partitions(names):
        yield from ((table, ()) for table in _tables(sampler, folder) if table.objects)
        return
    first = [objects[0] for objects in folder.folders.values()]
    are_tables = any("=" in landed.key.removeprefix(folder.path).split("/")[1] for landed in first)
    if len(names) > 1 and not are_tables and _have_equal_columns(sampler, first[:_COMPARED]):
        note = f"the folders {several(names)} are read as values of a column, because their objects have the same"
        yield folder, (f"{note} columns: if they are tables, write a stream for each",)
        return
    if folder.files:
        note = f"{count(len(folder.files), 'object')} beside the folders {several(names)}: no stream reads them"
        yield SeenFolder(folder.path, files=folder.files), (note,)
    tables = [name for name in names if not is_hidden([name])] or names
    for name in names:
        if sampler.listings >= MOST_LISTINGS:
            return
        path = f"{folder.path}{name}/"
        if name in tables:
            yield from _streams(sampler, sampler.folder(path), depth - 1)
        else:
            yield (
                SeenFolder(path),
                ("its name begins with _ or ., so it is not taken for a table: run the command on it alone",),
            )


def _tables(sampler: Sampler, folder: SeenFolder) -> Iterator[SeenFolder]:
    """Yield the files of a folder by the first word of their names if these have different columns, else the folder."""
    tables: dict[str, list[LandedObject]] = {}
    for landed in folder.files:
        match = WORD.match(landed.key.removeprefix(folder.path))
        tables.setdefault(match[0] if match else "", []).append(landed)
    first = [objects[0] for objects in tables.values()][:_COMPARED]
    schemas = [sampler.schema(landed) for landed in first] if len(tables) > 1 and not folder.folders else []
    if None in schemas or len({frozenset(schema.names) for schema in schemas if schema is not None}) < 2:
        yield folder
        return
    for word, files in tables.items():
        yield replace(folder, files=files, word=word)


def _have_equal_columns(sampler: Sampler, objects: Sequence[LandedObject]) -> bool:
    schemas = [sampler.schema(landed) for landed in objects]
    known = [schema for schema in schemas if schema is not None]
    return len(known) > 1 and all(set(schema.names) == set(known[0].names) for schema in known)


def _proposal(sampler: Sampler, folder: SeenFolder, name: str, start: dt.date | None) -> Proposal:
    path = folder.path.rstrip("/")
    if not folder.objects:
        return Proposal(name, path)
    suffixes = Counter(filter(None, (_suffix(landed.key) for landed in folder.objects)))
    if not suffixes:
        return Proposal(name, path, notes=("no Parquet, CSV, JSON, Avro or ORC was seen: the stream is left out",))
    suffix = max(suffixes, key=lambda text: (text in _SUFFIXES, suffixes[text]))
    chosen = [landed for landed in folder.objects if _suffix(landed.key) == suffix]
    tried = chosen[:: -(-len(chosen) // _TRIED)]
    read = next((landed for landed in tried if sampler.schema(landed) is not None), tried[0])
    schema, form = sampler.schema(read), sampler.form(read)
    notes = _notes(sampler, folder, suffix) + sampler.doubts.get(read.key, [])
    if schema is None:
        notes.append(f"{tried[0].shown} is damaged, or too many were read: its columns are not known")
    paths = _paths(folder, chosen, notes)
    names = schema.names if schema else []
    if (refused := unfit_folder(paths)) is not None:
        notes.append(
            f"the folder {folder.path}{refused} has a character that no layout can have ({_UNFIT}): rename it, or move "
            "its objects, and run the command again"
        )
        return Proposal(name, path, schema=schema, notes=tuple(notes))
    seen, layout = columns_of_paths(paths, names) if paths[0] else ([], "")
    keys = [key for landed in chosen if (key := landed.key.removeprefix(folder.path)).count("/") == len(paths[0])]
    seen, layout, files = _with_names(seen, layout, [key.rpartition("/")[2] for key in keys], names, notes)
    example = ""
    if seen:
        config = _keys_in_path(seen, layout, files, folder, start, notes)
    else:
        config, example = _keys_in_rows(sampler, chosen, schema, start, notes, is_part=folder.has_more)
    config = _file_keys(form, files or folder.word, suffix) | config | {"destination": {"table": name}}
    try:
        stream = StreamConfig.model_validate(config | {"source": "landing"})
    except ValidationError as error:
        reason = sentence(error.errors(include_url=False)[0]).partition("\n")[0].rstrip(":")
        why = f"no stream fits the folders below {path or sampler.storage.root}: {reason}: write the stream by hand"
        return Proposal(name, path, schema=schema, notes=(*notes, why))
    if seen:
        example, unread = _example(stream, keys)
        if unread and not example:
            why = f"no stream fits the folders below {path or sampler.storage.root}: {unread[0]}"
            return Proposal(name, path, schema=schema, notes=(*notes, why))
        if unread:
            notes.append(f"{count(len(unread), 'object')} of those seen are not read, the first because {unread[0]}")
    if schema is not None and (problem := name_clash(stream.template, stream.partitions, schema)):
        notes.append(" ".join(problem).rstrip("."))
    return Proposal(name, path, config, example, schema, form, tuple(notes))


def _notes(sampler: Sampler, folder: SeenFolder, suffix: str) -> list[str]:
    """Return what is not certain of the files of a stream."""
    others = sum(_suffix(landed.key) != suffix for landed in folder.objects)
    notes = [f"{count(others, 'object')} of those seen are not *{suffix}: the stream ignores them"] if others else []
    if suffix in _SUFFIXES and (
        texts := [landed.key for landed in folder.objects if _suffix(landed.key) in _OTHER_SUFFIXES]
    ):
        names = several([key.rpartition("/")[2] for key in texts])
        notes.append(f"{names} are of another format beside Parquet: `format: auto` and `files: '*.*'` read them too")
    notes += [
        f"the folder is of the {kind} table {table or './'}, whose log may have removed some of its files: no refresh "
        "reads it, so export the table instead"
        for table, kind in sampler.tables.items()
        if folder.path.startswith(table)
    ]
    return notes


def _suffix(key: str) -> str:
    """Return the suffix by which a name shows its format, before that of a text's compression; empty if none."""
    if (last := PurePosixPath(key).suffix) in _SUFFIXES:
        return last
    suffixes = [suffix for suffix in PurePosixPath(key).suffixes if suffix.lower() not in COMPRESSED]
    return "" if not suffixes or logged_table(key) else _OTHER_SUFFIXES.get(suffixes[-1], "")


def _file_keys(form: LandedFormat, names: str, suffix: str) -> dict[str, Any]:
    """Return the keys `format` and `files` of a stream, where they are not the default.

    `names` is the pattern of the files' names, or the word that they begin with.
    """
    config: dict[str, Any] = {}
    if form != PARQUET:
        keys = form.model_dump(mode="json", exclude_defaults=True)
        config["format"] = {"type": form.type, **keys} if keys else form.type
    if not names and fnmatchcase(suffix, form.files):
        return config
    is_pattern = "{" in names
    return config | {"files": names if is_pattern else f"{names}*{suffix}{'*' if form.may_be_compressed else ''}"}


def _example(stream: StreamConfig, keys: Sequence[str]) -> tuple[str, list[str]]:
    """Return the last partition of these keys that can be ingested by now, and why objects are in none.

    The text is empty if there is no such partition, or if all of them are outside the config so far.
    """
    locator = PartitionLocator(stream, Calendar(stream))
    answers = [locator.find(key) for key in keys]
    errors = [answer for answer in answers if isinstance(answer, LakeAssetsError)]
    unread = [error.problem.rstrip(":") for error in errors if not isinstance(error, OutsidePartitionError)]
    partitions = [answer for answer in answers if isinstance(answer, Partition)]
    return (partitions[-1].option if partitions else ""), unread


def _paths(folder: SeenFolder, objects: Sequence[LandedObject], notes: list[str]) -> list[tuple[str, ...]]:
    """The folders of each object, of the most frequent depth; without those that a layout of the others hides."""
    paths = [tuple(landed.key.removeprefix(folder.path).split("/")[:-1]) for landed in objects]
    (depth, _), *_ = Counter(len(path) for path in paths).most_common(1)
    kept = [path for path in paths if len(path) == depth]
    if len(kept) < len(paths):
        notes.append(f"{count(len(paths) - len(kept), 'object')} of those seen are in folders of another depth")
    for level in range(depth):
        values = values_among({path[level] for path in kept})
        kept = [path for path in kept if path[level] in values]
    return kept


def _with_names(
    seen: list[SeenColumn], layout: str, names: Sequence[str], taken: Sequence[str], notes: list[str]
) -> tuple[list[SeenColumn], str, str]:
    """Return the columns, with those of the files' names if their time is finer than the folders', and the patterns."""
    depth = max((column.levels.stop for column in seen), default=0)
    in_folders = [column.name for column in seen if not column.is_time]
    named = folders.columns_of_names(names, depth, [*in_folders, *taken])
    times = [column for column in seen if column.is_time]
    if named is None or any(map(is_part_of_time, in_folders)) or len(times) > 1:
        return seen, layout, ""
    time = next(column for column in named[0] if column.is_time)
    for coarse in times:
        parts, fine = (TIME_TYPES[column.type].parts for column in (coarse, time))
        if parts == fine or parts != fine[: len(parts)]:
            return seen, layout, ""
        layout = refined(layout, coarse, time)
    if "*" in named[1]:
        notes.append(f"* in {named[1]} is text that varies: if it is a column, write its name in braces there")
    return [*(column for column in seen if column not in times), *named[0]], layout, named[1]


def _keys_in_path(
    seen: Sequence[SeenColumn], layout: str, files: str, folder: SeenFolder, start: dt.date | None, notes: list[str]
) -> dict[str, Any]:
    """Return the keys of a stream with partition columns in the path."""
    # All folders `name=` are partitions, but for another time, such as that of a sync; of other paths two columns are.
    times = [column for column in seen if column.is_time]
    named = dict.fromkeys([*times[:1], *(column for column in seen if column.is_named and not column.is_time)])
    selected = list(dict.fromkeys([*named, *seen]))[: max(len(named), DIMENSIONS)]
    partitions = [column for column in seen if column in selected]
    others = [column for column in seen if column not in selected]
    config: dict[str, Any] = {}
    if layout != "/".join(f"{c.name}={{{c.name}}}" for c in partitions if c.layout not in files):
        config["layout"] = layout
    config["partitions"] = {c.name: _field(c, folder, start, notes) for c in partitions}
    if others:
        config["path_columns"] = {column.name: column.type for column in others}
        names = ", ".join(column.name for column in others)
        of_rows = "is a column of the rows" if len(others) == 1 else "are columns of the rows"
        notes.append(f"{names} in the path {of_rows}, by which no partition is refreshed")
    for column in seen:
        if not column.is_named:
            notes.append(
                f"{column.layout} has no name in the path, so this column is called `{column.name}`. "
                "Rename it if you like"
            )
        if column.type == "week":
            notes.append(f"{column.name} has weeks of ISO 8601: others, such as a shop's own, are `type: string`")
        if column.has_null:
            notes.append(f"{column.name} has a folder of NULL")
    return config


def _field(column: SeenColumn, folder: SeenFolder, start: dt.date | None, notes: list[str]) -> dict[str, Any]:
    """Return a partition column in the config."""
    if column.is_time:
        # Listings are sorted: the first folder of each level is seen, if all folders above it are.
        is_first = column.levels.start == 0 or (column.levels.start == 1 and folder.is_complete)
        if start is None and folder.has_more and not is_first:
            notes.append(f"{column.name} begins at the first of those seen: earlier ones may exist")
        if start is None and (early := column.start) is not None and early < _FIRST:
            later = replace(column, values=tuple(text for text in column.values if text >= str(_FIRST.year))).start
            notes.append(f"{column.name} has a folder of {early}: times before {later or _FIRST} are left out")
            return {"type": column.type, "start": later or _FIRST}
        return {"type": column.type, "start": start or column.start}
    is_known = not folder.has_more or (folder.is_complete and column.levels.start == 0)
    is_part = is_part_of_time(column.name)
    kind = {} if column.type == "string" else {"type": column.type}
    if is_known and len(column.values) <= MOST_VALUES and not column.has_null and not is_part:
        values = sorted(map(int, column.values)) if column.type == "integer" else list(column.values)
        return {**kind, "values": values}
    why = (
        "one is NULL"
        if column.has_null
        else f"there are more than {MOST_VALUES}"
        if len(column.values) > MOST_VALUES
        else "others follow in time"
        if is_part
        else "not all were seen"
    )
    notes.append(f"{column.name} has no list of values, because {why}: each value that lands is accepted")
    return kind or {"type": "string"}


def _keys_in_rows(
    sampler: Sampler,
    objects: Sequence[LandedObject],
    schema: pa.Schema | None,
    start: dt.date | None,
    notes: list[str],
    *,
    is_part: bool,
) -> tuple[dict[str, Any], str]:
    """Return the keys of a stream that is partitioned by a date or timestamp of its rows, and its last partition."""
    fields = list(schema or ())
    if not sampler.form(objects[0]).has_types:
        fields = []  # a text has no statistics that say which dates it holds
    date = next((field for field in fields if types.is_date(field.type)), None)
    time = next((field for field in fields if types.is_timestamp(field.type)), None)
    chosen = date or time
    if chosen is None or (as_identifier(chosen.name) != chosen.name and chosen is date):
        notes.append(
            "the paths have no partition columns and the rows no date, so a new object refreshes the whole table: if "
            "objects are only added, write `mode: append`, which reads the new ones"
        )
        return {"partitions": {}}, WHOLE
    notes.append(f"the paths have no partition columns, so the rows' {chosen.name} is the partition")
    today = dt.datetime.now(dt.UTC).date()
    all_days, is_known = sampler.days(objects, chosen.name)
    days = [day for day in all_days if day >= _FIRST]
    if len(days) < len(all_days):
        notes.append(f"{chosen.name} has {min(all_days)}: times before {min(days, default=_FIRST)} are left out")
    if start is None and not days:
        notes.append("start is the first day of this year: write the first date of the rows")
    elif start is None and (is_part or not is_known):
        notes.append("start is the first date of the footers that were read: earlier ones may exist")
    start = start or min(days, default=today.replace(month=1, day=1))
    name, source = chosen.name, dict[str, str]()
    if chosen is not date:
        name, source = "date", {"from": chosen.name}
        while name in {field.name.lower() for field in fields}:
            name = f"{name}_of_{as_identifier(chosen.name)}".lower()
    last = max((day for day in days if start <= day <= today), default=None)
    example = "" if last is None else f"{name}={last}"
    return {"partitions": {name: {"type": "date", "in": "rows", **source, "start": start}}}, example


_HEAD = """\
# yaml-language-server: $schema=lake.schema.json
#
# Proposed by `lake-assets init --from` from a part of the landing zone:
# {looked}.
# Comments beginning with "unsure" say what to check. `lake-assets validate` checks this file.

lakes:
  lake:
    # The catalog: the database of tables, files and snapshots. SQLite is for several processes of one machine.
    catalog: {{type: sqlite, path: catalog.sqlite}}
    # The storage of the tables' Parquet files: a folder, or s3://bucket/prefix.
    storage: lake

streams:
"""
_WIDTH = 120
_SENSOR = "`sensor: {type: objects}`"


def seen_text(sampler: Sampler) -> str:
    """Return what a look has read, in words."""
    read = ", ".join([count(sampler.listings, "listing"), count(sampler.footers, "footer")])
    return f"{sampler.storage.root}: {count(len(sampler.seen), 'object')} read with {read}"


def config_text(sampler: Sampler, proposals: Sequence[Proposal]) -> str:
    """Return the config of all proposals that have a stream, in the order of their folders; secrets are never in it."""
    parts = [_HEAD.format(looked=visible(seen_text(sampler)))]
    for proposal in proposals:
        parts += _stream(sampler.storage, proposal)
    return "\n".join(parts).replace(":\n\n  ", ":\n  ", 1)


def _stream(storage: AnyStorage, proposal: Proposal) -> Iterator[str]:
    lines = [f"  # unsure: {visible(note)}." for note in proposal.notes]
    if not proposal.config:
        yield "\n".join([*lines, f"  # No stream: {visible(proposal.folder or storage.root)}.", ""])
        return
    keys = {"source": _source(storage, proposal.folder), **proposal.config}
    text = yaml.safe_dump(
        {proposal.name: keys}, default_flow_style=None, sort_keys=False, allow_unicode=True, width=_WIDTH
    )
    written = _commented(text.splitlines(), proposal.config["partitions"])
    yield "\n".join([*lines, *(f"  {line}" for line in written), ""])


def _commented(lines: Sequence[str], partitions: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Yield the lines of a stream, with a comment above each partition column that is not a time."""
    comments = {
        f"    {key}:": _comment(key, field)
        for name, field in partitions.items()
        if field.get("type", "string") not in TIME_TYPES
        for key in [yaml.safe_dump({name: None}).partition(":")[0]]  # in quotes, if it is a word of YAML
    }
    is_inside = False
    for line in lines:
        if not line.startswith("    "):
            is_inside = line == "  partitions:"
        elif is_inside:
            yield from next((texts for start, texts in comments.items() if line.startswith(start)), ())
        yield line


def _comment(key: str, field: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what becomes of a new value of a column, and how to change that: lines above the column."""
    if "values" not in field:
        return (f"    # Each value that lands is accepted. {_SENSOR} adds new ones in Dagster.",)
    kind = "type: integer" if field.get("type") == "integer" else ""
    return (
        "    # A value that lands later is outside the config until it is in this list. To accept each one that lands,",
        f"    # write `{key}: {{{kind}}}` and {_SENSOR}, which adds new ones in Dagster.",
    )


def _source(storage: AnyStorage, folder: str) -> str | Mapping[str, Any]:
    """Return the folder of a stream: its path or URI, or a mapping if the storage has settings of its own."""
    if storage.is_local:
        return "/".join(part for part in (storage.root.rstrip("/"), folder) if part)
    # Certificates and proxy are those of this machine's environment.
    kept = storage.model_dump(mode="json", exclude_defaults=True, exclude={*NetworkSettings.model_fields}) | {
        "type": storage.type
    }
    prefix = "/".join(part for part in (kept.pop("prefix", ""), folder) if part)
    place = {"type": kept.pop("type"), **kept, **({"prefix": prefix} if prefix else {})}
    if kept.keys() == {"bucket"}:
        return "/".join(part for part in (storage.root.partition("://")[0] + ":/", kept["bucket"], prefix) if part)
    return place

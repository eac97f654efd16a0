"""What keys cannot be together, as a table: when that is so, the problem, and how to fix it.

`CONTRADICTIONS` has what the keys of one stream cannot be, `IN_CONFIGS` what a stream cannot be beside its lake, its
release group and the other streams. A rule of one key is in that key's model. To add a mode, add its facts to
`config/modes.py`, and a row here for each key that it cannot have.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, TypeVar

from lake_assets.config.column_types import arrow_type
from lake_assets.config.fields import LocatedError
from lake_assets.config.lake import Lake
from lake_assets.config.layout.times import TIME_TYPES
from lake_assets.config.sections import LETTER_COLUMNS, READABLE, Move, SqsSensor, ending_of, unread
from lake_assets.config.stream_fields import StreamFields
from lake_assets.config.uris import is_glob

When = Callable[[StreamFields], object]
_Subject = TypeVar("_Subject")


@dataclass(frozen=True, slots=True)
class Contradiction(Generic[_Subject]):
    """Some keys of a stream, or of a stream and what is beside it, that contradict each other."""

    keys: tuple[str, ...]
    when: Callable[[_Subject], object]  # whether they do, or what `{it}` is in the texts, such as the name of a column
    problem: str  # with values of the subject, as in `{s.mode}`
    fix: str | Callable[[_Subject], str]

    def text(self, subject: _Subject) -> str | None:
        """Return the problem of a subject with its fix; None if it does not have it."""
        if not (it := self.when(subject)):
            return None
        fix = self.fix if isinstance(self.fix, str) else self.fix(subject)
        return f"{self.problem}: {fix}".format(s=subject, it=it)


def contradictions(stream: StreamFields) -> Iterator[str]:
    """Yield the problems of a stream in the order of the table. The first one is what its user reads."""
    yield from (text for row in CONTRADICTIONS if (text := row.text(stream)) is not None)


@dataclass(frozen=True)
class Neighbours:
    """The lakes and streams of a config, each named; every stream has its lake."""

    lakes: Mapping[str, Lake]
    streams: Mapping[str, StreamFields]

    def lake_name(self, stream: StreamFields) -> str:
        """Return the name of a stream's lake."""
        return stream.lake or next(iter(self.lakes))

    @cached_property
    def roots(self) -> Mapping[str, str]:
        """What each storage of lakes and landing zones is, for errors, by its root."""
        of_lakes = {
            storage.root: f"the storage of lake {name}"
            for name, lake in self.lakes.items()
            for storage in (lake.storage, lake.staging)
            if storage is not None
        }
        return of_lakes | {
            landing.root: f"the landing zone of stream {name}"
            for name, stream in self.streams.items()
            for landing in (stream.source, *(stream.landing.outputs if stream.landing else ()))
        }

    @cached_property
    def exports(self) -> Mapping[str, str]:
        """What each storage of exported changes is, for errors, by its root."""
        exporting = ((name, stream.deltas) for name, stream in self.streams.items())
        return {deltas.to.root: f"the deltas of stream {name}" for name, deltas in exporting if deltas is not None}

    def claims(self, stream: StreamFields) -> Iterator[tuple[str, ...]]:
        """Yield what only one stream may have, each after its key: a table, a place of exports, an earlier name."""
        table = stream.destination
        yield "destination", self.lake_name(stream), table.schema_name.lower(), table.table.lower()
        yield from (("previously", earlier) for earlier in stream.previously)
        if stream.deltas is not None:
            yield "deltas", stream.deltas.to.root

    @cached_property
    def owners(self) -> Mapping[tuple[str, ...], str]:
        """The first stream that has each claim."""
        owners: dict[tuple[str, ...], str] = {}
        for name, stream in self.streams.items():
            for claim in self.claims(stream):
                owners.setdefault(claim, name)
        return owners


@dataclass(frozen=True, slots=True)
class PlacedStream:
    """A stream of a config, in its lake and beside the other streams."""

    name: str
    stream: StreamFields
    lake_name: str
    lake: Lake
    group: str | None  # of the streams that are released with it
    beside: Neighbours

    def location(self, key: str) -> tuple[str, ...]:
        """Return where the config has a key of it; a group is no key of a stream."""
        return ("release", self.group) if self.group and key == "release" else ("streams", self.name, key)


def contradictions_in(
    lakes: Mapping[str, Lake], streams: Mapping[str, StreamFields], release: Mapping[str, Iterable[str]]
) -> Iterator[LocatedError]:
    """Yield the problems of streams with their lakes, their groups and each other, each at the first key of its row."""
    beside = Neighbours(lakes, streams)
    groups = {member: group for group, members in release.items() for member in members}
    placed = [
        PlacedStream(name, stream, lake_name, lakes[lake_name], groups.get(name), beside)
        for name, stream in streams.items()
        for lake_name in [beside.lake_name(stream)]
    ]
    for row in IN_CONFIGS:
        for stream in placed:
            if (text := row.text(stream)) is not None:
                yield LocatedError(text, *stream.location(row.keys[0]))


def _has_time(stream: StreamFields) -> bool:
    return any(field.type in TIME_TYPES for field in stream.partitions.values())


def _has_newest(stream: StreamFields) -> bool:
    return stream.freshness is not None and stream.freshness.newest_partition_hours is not None


def _lookback(key: str) -> When:
    """Return whether a schedule or automation has a written lookback, and the stream has no time."""

    def is_given(stream: StreamFields) -> bool:
        trigger = getattr(stream, key)
        return trigger is not None and "lookback" in trigger.model_fields_set and trigger.lookback is not None

    return lambda s: is_given(s) and not _has_time(s)


def _in_rows(stream: StreamFields) -> str | None:
    return next((column.name for column in stream.partition_columns if column.in_rows), None)


def _in_rows_with(key: str) -> When:
    return lambda s: getattr(s, key) is not None and _in_rows(s)


def _is_of_letters(name: str | None) -> bool:
    return name is not None and name.lower() in LETTER_COLUMNS


def _has_other_folders(stream: StreamFields) -> bool:
    in_path = [name for name, field in stream.partitions.items() if field.where == "path"]
    return any(placeholder.name not in in_path for placeholder in stream.template.placeholders)


def _has(key: str) -> When:
    return lambda s: getattr(s, key)


def _given(name: str, when: When = lambda _: True) -> When:
    """Return whether a field is written in the config, also with the default value; `{it}` is its key."""
    return lambda s: when(s) and name in s.model_fields_set and (type(s).model_fields[name].alias or name)


def _of_index(key: str, when: When, problem: str, fix: str) -> Contradiction[StreamFields]:
    """Return what a stream cannot have whose objects are registered as they are."""
    return Contradiction(("mode", key), lambda s: s.mode.registers and when(s), problem, fix)


def _of_web(key: str, when: When, problem: str, fix: str) -> Contradiction[StreamFields]:
    """Return what a web server cannot do: files are requested by name, nothing is listed, and nothing written."""
    return Contradiction(("source", key), lambda s: not s.source.is_listable and when(s), problem, fix)


def _of_check(check: str, key: str, value: str) -> Contradiction[StreamFields]:
    """Return that a check cannot block in a stream that does not have it."""
    return Contradiction(
        ("checks", key),
        lambda s: check in s.checks.blocking and getattr(s, key) != value,
        f"checks.blocking names {check}, which is a check of {key}: {value}",
        lambda s: "remove it" if s.mode.registers or key == "mode" else f"remove it, or set {key}",
    )


_TIMES = "no partition column of the stream is"
_WEB = "a web server cannot be listed"
_BUCKET = "or name the bucket behind it as source (s3://bucket/prefix), which can be"

CONTRADICTIONS: tuple[Contradiction[StreamFields], ...] = (
    # Times
    *(
        Contradiction(
            (key, "partitions"),
            _lookback(key),
            f"{key}.lookback counts days or hours, and {_TIMES} a time",
            "remove it",
        )
        for key in ("schedule", "automation")
    ),
    Contradiction(
        ("checks", "freshness"),
        lambda s: "freshness" in s.checks.blocking and _has_time(s) and not _has_newest(s),
        "checks.blocking names freshness",
        "set freshness.newest_partition_hours, or remove it",
    ),
    Contradiction(
        ("freshness", "partitions"),
        lambda s: _has_newest(s) and not _has_time(s),
        f"freshness.newest_partition_hours is the age of a time, and {_TIMES} one",
        lambda s: "remove freshness" if s.freshness and s.freshness.fail_hours is None else "remove it",
    ),
    Contradiction(
        ("checks", "partitions"),
        lambda s: "freshness" in s.checks.blocking and not _has_time(s),
        f"checks.blocking names freshness, a check of times, and {_TIMES} one",
        "remove it",
    ),
    # Paths
    Contradiction(
        ("files", "layout"),
        lambda s: "/" in s.files and s.template.parts,
        "files {s.files!r} has a slash, and the layout has the folders",
        "write only the files' names",
    ),
    *(
        Contradiction(
            ("partitions", key),
            _in_rows_with(key),
            "partitions.{it} is in: rows, so an object's path does not name its partitions, and "
            f"{key} cannot find what to refresh",
            "use schedule",
        )
        for key in ("sensor", "automation")
    ),
    Contradiction(
        ("layout", "partitions"),
        lambda s: next((c.name for c in s.partition_columns if c.in_rows and c.name in s.template.columns), None),
        "partitions.{it} is in: rows, and the layout {s.template.text!r} has {{{it}}}",
        "remove one of them",
    ),
    # What a mode cannot do
    Contradiction(
        ("mode", "on_empty"),
        lambda s: s.mode.reads_new and s.on_empty == "clear",
        "mode: {s.mode} takes no rows away, so on_empty cannot be clear",
        "use fail or keep",
    ),
    Contradiction(
        ("mode", "transform"),
        lambda s: s.mode.reads_new and s.transform and s.transform.refresh_on,
        "transform.refresh_on: a refresh in mode: {s.mode} reads new objects only, so others are not joined again",
        "remove it, or use mode: replace",
    ),
    Contradiction(
        ("mode", "on_changed"),
        lambda s: not s.mode.reads_new and s.on_changed == "refresh",
        "on_changed: refresh is for mode: append, and the stream has mode: {s.mode}",
        "remove it",
    ),
    Contradiction(
        ("mode", "owns_source"),
        lambda s: s.owns_source and not s.mode.registers,
        "owns_source is for mode: index, and in mode: {s.mode} the lake has files of its own",
        "remove it",
    ),
    _of_index(
        "format",
        lambda s: not s.format.is_of_lakes,
        "mode: index registers landed files as they are, and a lake reads Parquet only, not {s.format.type}",
        "use mode: replace or mode: append",
    ),
    _of_index(
        "partitions",
        _in_rows,
        "partitions.{it} is in: rows, and mode: index registers whole files, each of one partition",
        "use mode: replace",
    ),
    _of_index(
        "partitions",
        lambda s: next((name for name, field in s.partitions.items() if field.empty == "null"), None),
        "partitions.{it} is empty: null, and a registered file has the value of its folder, an empty text",
        "write empty: value, or use mode: replace",
    ),
    _of_index(
        "columns",
        lambda s: next(
            ((name, ", ".join(rules)) for name, c in s.declared.items() if (rules := c.rules.keys() - {"type"})), None
        ),
        "columns.{it[0]}: mode: index registers files as they are",
        "remove {it[1]}, or use mode: replace",
    ),
    *(
        _of_index(key, _has(key), f"mode: index registers files as they are, without {key}", "use mode: replace")
        for key in ("path_columns", "file_columns", "rescue")
    ),
    _of_index(
        "commit_batch",
        _given("commit_batch"),
        "mode: index registers the files of all partitions in one commit already",
        "remove commit_batch",
    ),
    _of_index(
        "transform", _has("transform"), "mode: index registers files as they are, untransformed", "use mode: replace"
    ),
    *(
        _of_index(name, _given(name), "{it} is for written files, and mode: index writes none", "remove it")
        for name in ("compression", "target_file_size", "verify", "immutable_source", "copying")
    ),
    _of_index(
        "schema_policy",
        lambda s: s.schema_policy != "strict",
        "schema_policy: {s.schema_policy} is for tables that a refresh writes, and mode: index registers only files "
        "that fit the table",
        "remove it, or use mode: replace",
    ),
    _of_index(
        "on_empty",
        lambda s: s.on_empty == "clear",
        "mode: index only adds files, so on_empty cannot be clear",
        "use fail or keep",
    ),
    _of_index(
        "deltas",
        _has("deltas"),
        "deltas are of rows that a commit writes and removes. mode: index registers landed files, and the old rows of "
        "a file that changed or vanished are gone, so its deletes cannot be exported",
        "remove deltas, or use mode: replace",
    ),
    # What becomes of landed objects
    _of_index(
        "after_load",
        lambda s: s.after_load != "keep",
        "after_load is for objects whose rows are written, and mode: index makes landed objects the files of the table",
        "remove it",
    ),
    Contradiction(
        ("source", "after_load"),
        lambda s: s.after_load != "keep" and s.source.read_only,
        "after_load changes the source, which {it} and so is read-only",
        "remove it",
    ),
    Contradiction(
        ("after_load", "anonymous"),
        lambda s: isinstance(s.after_load, Move) and s.after_load.move.read_only,
        "after_load.move is written to, and {it}",
        "remove anonymous, and use keys or a role",
    ),
    Contradiction(
        ("partitions", "after_load"),
        lambda s: s.after_load != "keep" and s.selects_rows,
        "after_load is for objects of one partition, and an object may have rows of several partitions (in: rows)",
        "remove it",
    ),
    Contradiction(
        ("source", "after_load"),
        lambda s: s.after_load == "tag" and not s.source.has_tags,
        "after_load: tag is for objects in S3, and source is another storage",
        lambda s: "use delete or move" if s.mode.reads_new else "remove it",
    ),
    Contradiction(
        ("mode", "after_load"),
        lambda s: s.mode.replaces and s.empties_source,
        "mode: replace makes a partition of all objects that are there, so after_load cannot take them away",
        lambda s: f"use mode: append{', or after_load: tag' if s.source.has_tags else ''}",
    ),
    # Where bad data goes
    _of_index(
        "on_bad_object",
        lambda s: s.on_bad_object == "quarantine",
        "on_bad_object: quarantine is for mode: replace and mode: append, and mode: index leaves an object that it "
        "cannot register out by itself",
        "remove on_bad_object",
    ),
    _of_index(
        "on_bad_row",
        lambda s: s.on_bad_row == "dead_letter",
        "on_bad_row: dead_letter is for modes that write rows, and mode: index registers whole files",
        "remove it, or use mode: replace",
    ),
    Contradiction(
        ("on_bad_row", "dead_letters"),
        lambda s: s.dead_letters and s.on_bad_row == "fail",
        "dead_letters is for on_bad_row: dead_letter",
        lambda s: "remove it" if s.mode.registers else "remove it, or set on_bad_row",
    ),
    Contradiction(
        ("on_bad_row", "source"),
        lambda s: s.on_bad_row == "dead_letter" and s.dead_letters is None and s.source.read_only,
        "on_bad_row: dead_letter writes below the source, which {it} and so is read-only",
        "name another storage in dead_letters.to",
    ),
    # Copies
    *(
        Contradiction(
            ("format", name),
            _given(name, lambda s: not s.format.is_of_lakes),
            "{it} is for landed Parquet files that become data files, and format is {s.format.type}",
            "remove it",
        )
        for name in ("copying", "verify", "immutable_source")
    ),
    *(
        Contradiction(
            ("copying", name),
            _given(name, lambda s: s.copying == "never"),
            "{it} is for copied files, and copy: never copies none",
            "remove one of them",
        )
        for name in ("verify", "immutable_source")
    ),
    # Columns
    Contradiction(
        ("format", "columns"),
        lambda s: next(
            (
                (name, c.type)
                for name, c in s.declared.items()
                if c.type is not None and c.format is None and not s.format.reads(arrow_type(c.type))
            ),
            None,
        ),
        "columns.{it[0]}.type: {it[1]} is not read from {s.format.type}",
        "declare string, and cast it in a transform",
    ),
    Contradiction(
        ("on_bad_row", "file_columns"),
        lambda s: s.on_bad_row == "dead_letter" and next((n for n in s.file_columns if _is_of_letters(n)), None),
        "file_columns.{it} is a name of the dead letters' own columns",
        "choose another name",
    ),
    Contradiction(
        ("on_bad_row", "rescue"),
        lambda s: s.on_bad_row == "dead_letter" and _is_of_letters(s.rescue),
        "rescue: {s.rescue} is a name of the dead letters' own columns",
        "choose another name",
    ),
    # Checks that only some streams have
    _of_check("appended_objects", "mode", "append"),
    _of_check("indexed_objects", "mode", "index"),
    _of_check("quarantine", "on_bad_object", "quarantine"),
    _of_check("dead_letters", "on_bad_row", "dead_letter"),
    # Sources
    _of_web(
        "files",
        lambda s: is_glob(s.files),
        f"{_WEB}, and files is a pattern",
        f"give the name of a partition's one file, {_BUCKET}",
    ),
    _of_web(
        "layout",
        _has_other_folders,
        f"{_WEB}, and folders of the layout {{s.template.text!r}} are in no partition",
        f"leave them out, {_BUCKET}",
    ),
    _of_web(
        "partitions",
        lambda s: next((n for n, f in s.partitions.items() if f.where == "path" and not (f.values or f.start)), None),
        f"{_WEB}, so partitions.{{it}} needs its values",
        "add values, or start to a time",
    ),
    _of_web(
        "mode",
        lambda s: s.mode.registers,
        "mode: index registers the files of a bucket or folder, not a web server's",
        "use mode: replace",
    ),
    _of_web("sensor", _has("sensor"), f"{_WEB}, so a sensor finds nothing there", "use schedule or automation"),
    _of_web("landing", _has("landing"), "landing writes files, and a web server is read-only", "remove landing"),
    Contradiction(
        ("source", "sensor"),
        lambda s: isinstance(s.sensor, SqsSensor) and not s.source.notifies_sqs,
        "sensor type sqs reads the notifications of an S3 bucket",
        "use type objects here",
    ),
    Contradiction(
        ("format", "landing"),
        lambda s: s.landing and not s.format.is_of_lakes,
        "landing writes Parquet files, and format is {s.format.type}",
        "remove one of them",
    ),
    Contradiction(
        ("files", "landing"), lambda s: s.landing and ending_of(s.files) is None and unread(s.files), "{it}", READABLE
    ),
)


def _within(root: str, roots: Mapping[str, str]) -> str | None:
    """Return what is in the first of these roots that lies within a root, or has it within."""
    return next(
        (what for r, what in roots.items() if f"{root}/".startswith(f"{r}/") or f"{r}/".startswith(f"{root}/")), None
    )


def _is_claimed(key: str) -> Callable[[PlacedStream], object]:
    """Return what a stream claims that an earlier one of the config has claimed: its name, and the claim."""

    def claimed(s: PlacedStream) -> tuple[str, str] | None:
        mine = (claim for claim in s.beside.claims(s.stream) if claim[0] == key)
        return next(((owner, claim[-1]) for claim in mine if (owner := s.beside.owners[claim]) != s.name), None)

    return claimed


def _reason_of_inserts(lake: Lake) -> str | None:
    """Return what a lake is that takes rows by INSERT only; None of others."""
    return "managed by MotherDuck" if lake.is_managed else "encrypted" if lake.is_encrypted else None


def _shares_source(s: PlacedStream) -> str | None:
    """Return another stream of which the landing zone is the stream's, if that takes objects out of it."""
    if s.stream.after_load in ("keep", "tag"):
        return None
    return _within(s.stream.source.root, {o.source.root: n for n, o in s.beside.streams.items() if n != s.name})


_OTHER_NAME = "give it another name than the lake's other tables"

IN_CONFIGS: tuple[Contradiction[PlacedStream], ...] = (
    # Streams that are released together
    Contradiction(
        ("release", "mode"),
        lambda s: s.group and s.stream.mode.registers,
        "stream {s.name} has mode: index, which registers objects as they are",
        "use replace",
    ),
    Contradiction(
        ("release", "deltas"),
        lambda s: s.group and s.stream.deltas,
        "stream {s.name} exports deltas, and an export is of one table",
        "remove one of both",
    ),
    Contradiction(
        ("release", "lake"),
        lambda s: s.group and s.lake.inserts_only,
        "the lake takes rows only by INSERT, a partition at a time",
        "its streams cannot have a group",
    ),
    # Earlier names
    Contradiction(
        ("previously", "streams"),
        lambda s: next((earlier for earlier in s.stream.previously if earlier in s.beside.streams), None),
        "stream {s.name} has {it} in previously, and {it} is a stream of the config",
        "remove it",
    ),
    Contradiction(
        ("previously", "streams"),
        _is_claimed("previously"),
        "streams {it[0]} and {s.name} both have {it[1]} in previously",
        "remove it from one of them",
    ),
    # Exports
    Contradiction(
        ("deltas", "source"),
        lambda s: s.stream.deltas and _within(s.stream.deltas.to.root, s.beside.roots),
        "stream {s.name} exports to {s.stream.deltas.to.root}, which is within {it}, or the reverse",
        "give deltas.to a folder of its own",
    ),
    Contradiction(
        ("deltas", "streams"),
        _is_claimed("deltas"),
        "streams {it[0]} and {s.name} both export to {it[1]}",
        "give each deltas.to of its own",
    ),
    Contradiction(
        ("deltas", "lake"),
        lambda s: s.stream.deltas and s.lake.is_encrypted and not s.stream.deltas.plaintext,
        "stream {s.name} would export plain files from the encrypted lake {s.lake_name}",
        "write plaintext: true below deltas to permit it, or remove deltas",
    ),
    Contradiction(
        ("deltas", "lake"),
        lambda s: s.stream.deltas and s.lake.shares_table(s.lake.delta_manifest),
        "delta_manifest is a table of its own",
        _OTHER_NAME,
    ),
    # Dead letters
    Contradiction(
        ("dead_letters", "source"),
        lambda s: (
            s.stream.on_bad_row == "dead_letter"
            and s.stream.dead_letters
            and _within(s.stream.dead_letters.to.root, {**s.beside.roots, **s.beside.exports})
        ),
        "stream {s.name} has its dead letters in {s.stream.dead_letters.to.root}, which is within {it}, or the reverse",
        "give dead_letters.to a folder of its own",
    ),
    Contradiction(
        ("dead_letters", "lake"),
        lambda s: (
            s.stream.on_bad_row == "dead_letter"
            and s.stream.dead_letters
            and s.lake.is_encrypted
            and not s.stream.dead_letters.plaintext
        ),
        "stream {s.name} would write plain rows for the encrypted lake {s.lake_name}",
        lambda s: (
            "write plaintext: true below dead_letters to permit it, or remove dead_letters"
            + (
                ", so that they are in the landing zone, which has these rows in plain files already"
                if s.stream.source.read_only is None
                else " and on_bad_row"
            )
        ),
    ),
    Contradiction(
        ("on_bad_row", "lake"),
        lambda s: s.stream.on_bad_row == "dead_letter" and s.lake.shares_table(s.lake.dead_letter_manifest),
        "dead_letter_manifest is a table of its own",
        _OTHER_NAME,
    ),
    # What becomes of landed objects
    Contradiction(
        ("after_load", "source"),
        lambda s: isinstance(s.stream.after_load, Move) and _within(s.stream.after_load.move.root, s.beside.roots),
        "stream {s.name} moves loaded objects to {s.stream.after_load.move.root}, which is within {it}, or the reverse",
        "give after_load.move a folder of its own",
    ),
    Contradiction(
        ("after_load", "streams"),
        _shares_source,
        "stream {s.name} takes loaded objects out of a landing zone that stream {it} reads too",
        "give each a folder of its own, or use keep or tag",
    ),
    # Tables
    Contradiction(
        ("destination", "streams"),
        _is_claimed("destination"),
        "streams {it[0]} and {s.name} both fill {s.stream.destination.schema_name}.{s.stream.destination.table} of "
        "lake {s.lake_name}",
        "give each its own table",
    ),
    Contradiction(
        ("destination", "lake"),
        lambda s: s.stream.destination.table.lower() in s.lake.own_tables,
        "stream {s.name} would fill the lake's own table {s.stream.destination.table}",
        "give it another table, or the lake another ledger and manifest",
    ),
    Contradiction(
        ("checks", "lake"),
        lambda s: (
            s.lake.is_managed and min({"ledger", "data_files"}.intersection(s.stream.checks.blocking), default=None)
        ),
        "stream {s.name}: checks.blocking names {it}, which reads DuckLake's own tables, and MotherDuck has those of "
        "lake {s.lake_name}",
        "remove it",
    ),
    # Lakes that take rows by INSERT only
    Contradiction(
        ("commit_batch", "lake"),
        lambda s: s.stream.commit_batch not in ("auto", 1) and _reason_of_inserts(s.lake),
        "stream {s.name} has commit_batch: {s.stream.commit_batch}, and lake {s.lake_name} is {it}: its rows are "
        "written with INSERT while the commit holds the lock, so each partition is a commit",
        "remove commit_batch",
    ),
    Contradiction(
        ("mode", "lake"),
        lambda s: s.stream.mode.registers and _reason_of_inserts(s.lake),
        "stream {s.name} has mode: index, and lake {s.lake_name} is {it}",
        "files cannot be registered in such a lake, so use mode: replace",
    ),
    # Files that DuckDB and MotherDuck read
    Contradiction(
        ("source", "mode"),
        lambda s: s.stream.mode.registers and s.stream.source.lacks_hmac_key,
        "stream {s.name} has mode: index, so DuckDB reads its source, and accesses Google Cloud Storage with an HMAC "
        "key",
        "give the source key_id and secret, or provider: credential_chain",
    ),
    Contradiction(
        ("source", "lake"),
        lambda s: s.stream.mode.registers and s.lake.catalog.is_service and s.stream.source.is_local,
        "stream {s.name} has mode: index, and MotherDuck cannot read a folder of this machine",
        "give a bucket",
    ),
)

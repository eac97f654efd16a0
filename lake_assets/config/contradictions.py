"""What the keys of one stream cannot be together, as a table: when that is so, the problem, and how to fix it.

A rule of one key is in that key's model, and what streams and lakes must agree on is in `config/models.py`. To add a
mode, add its facts to `config/modes.py`, and a row here for each key that it cannot have.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from lake_assets.config.formats import ParquetFormat
from lake_assets.config.layout.times import TIME_TYPES
from lake_assets.config.sections import READABLE, SqsSensor, ending_of, unread
from lake_assets.config.stream_fields import StreamFields
from lake_assets.config.uris import is_glob

When = Callable[[StreamFields], object]


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Some keys of a stream that contradict each other."""

    keys: tuple[str, ...]
    when: When  # whether they do, or what `{it}` is in the texts, such as the name of a column
    problem: str  # with values of the stream, as in `{s.mode}`
    fix: str | Callable[[StreamFields], str]

    def text(self, stream: StreamFields) -> str | None:
        """Return the problem of a stream with its fix; None if it does not have it."""
        if not (it := self.when(stream)):
            return None
        fix = self.fix if isinstance(self.fix, str) else self.fix(stream)
        return f"{self.problem}: {fix}".format(s=stream, it=it)


def contradictions(stream: StreamFields) -> Iterator[str]:
    """Yield the problems of a stream in the order of the table. The first one is what its user reads."""
    yield from (text for row in CONTRADICTIONS if (text := row.text(stream)) is not None)


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
    return next((column.name for column in stream.columns if column.in_rows), None)


def _in_rows_with(key: str) -> When:
    return lambda s: getattr(s, key) is not None and _in_rows(s)


def _is_parquet(stream: StreamFields) -> bool:
    return isinstance(stream.format, ParquetFormat)


def _has_other_folders(stream: StreamFields) -> bool:
    in_path = [name for name, field in stream.partitions.items() if field.where == "path"]
    return any(placeholder.name not in in_path for placeholder in stream.template.placeholders)


def _has(key: str) -> When:
    return lambda s: getattr(s, key)


def _given(name: str, when: When = lambda _: True) -> When:
    """Return whether a field is written in the config, also with the default value; `{it}` is its key."""
    return lambda s: when(s) and name in s.model_fields_set and (type(s).model_fields[name].alias or name)


def _of_index(key: str, when: When, problem: str, fix: str) -> Contradiction:
    """Return what a stream cannot have whose objects are registered as they are."""
    return Contradiction(("mode", key), lambda s: s.mode.registers and when(s), problem, fix)


def _of_web(key: str, when: When, problem: str, fix: str) -> Contradiction:
    """Return what a web server cannot do: files are requested by name, nothing is listed, and nothing written."""
    return Contradiction(("source", key), lambda s: not s.source.is_listable and when(s), problem, fix)


def _of_check(check: str, key: str, value: str) -> Contradiction:
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

CONTRADICTIONS: tuple[Contradiction, ...] = (
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
    # What a mode cannot do
    Contradiction(
        ("mode", "on_empty"),
        lambda s: s.mode.reads_new and s.on_empty == "clear",
        "mode: {s.mode} takes no rows away, so on_empty cannot be clear",
        "use fail or keep",
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
        lambda s: not _is_parquet(s),
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
            _given(name, lambda s: not _is_parquet(s)),
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
        lambda s: s.landing and not _is_parquet(s),
        "landing writes Parquet files, and format is {s.format.type}",
        "remove one of them",
    ),
    Contradiction(
        ("files", "landing"),
        lambda s: s.landing and ending_of(s.files) is None and unread(s.files),
        "{it}",
        READABLE,
    ),
)

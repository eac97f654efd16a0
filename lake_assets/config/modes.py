"""The modes of a stream and its other policies, and which of its keys fit which of them."""

from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet
from typing import Literal, Protocol

from lake_assets.config.partition_fields import PartitionField

Mode = Literal["replace", "append", "index"]
OnEmpty = Literal["fail", "keep", "clear"]
OnChanged = Literal["fail", "refresh"]
OnBadObject = Literal["fail", "quarantine"]
OnBadRow = Literal["fail", "dead_letter"]
SchemaPolicy = Literal["strict", "evolve", "ignore_extra"]
Compression = Literal["zstd", "snappy", "gzip", "none"]
CopyPolicy = Literal["auto", "any", "always", "never"]
Verify = Literal["footer", "pages"]

# Fields for written files, with their keys in the config.
_OF_WRITTEN_FILES = {name: name for name in ("compression", "target_file_size", "verify", "immutable_source")} | {
    "copying": "copy"
}


class _Checks(Protocol):
    @property
    def blocking(self) -> Collection[str]: ...


class _Settings(Protocol):
    """The fields of a stream that depend on its mode or on each other."""

    @property
    def mode(self) -> Mode: ...
    @property
    def commit_batch(self) -> int: ...
    @property
    def owns_source(self) -> bool: ...
    @property
    def checks(self) -> _Checks: ...
    @property
    def partitions(self) -> Mapping[str, PartitionField]: ...
    @property
    def path_columns(self) -> Mapping[str, object]: ...
    @property
    def transform(self) -> object | None: ...
    @property
    def deltas(self) -> object | None: ...
    @property
    def schema_policy(self) -> SchemaPolicy: ...
    @property
    def on_empty(self) -> OnEmpty: ...
    @property
    def on_changed(self) -> OnChanged: ...
    @property
    def on_bad_object(self) -> OnBadObject: ...
    @property
    def on_bad_row(self) -> OnBadRow: ...
    @property
    def dead_letters(self) -> object | None: ...
    @property
    def copying(self) -> CopyPolicy: ...
    @property
    def model_fields_set(self) -> AbstractSet[str]: ...  # those that the user gave


def check_mode(stream: _Settings) -> None:
    """Refuse keys that do not fit the stream's mode or its other policies.

    Raises:
        ValueError: one of them does not fit.
    """
    if stream.mode == "append":
        _check_append(stream)
    else:
        _check_not_append(stream)
    if stream.mode == "index":
        _check_index(stream)
    else:
        _check_not_index(stream)
    _check_quarantine(stream)
    _check_dead_letters(stream)
    _check_copying(stream)


def _check_append(stream: _Settings) -> None:
    if stream.on_empty == "clear":
        raise ValueError("mode: append takes no rows away, so on_empty cannot be clear: use fail or keep")


def _check_not_append(stream: _Settings) -> None:
    if stream.on_changed == "refresh":
        raise ValueError(f"on_changed: refresh is for mode: append; remove it from this stream of mode: {stream.mode}")
    if "appended_objects" in stream.checks.blocking:
        raise ValueError("checks.blocking names appended_objects, which is a check of mode: append: remove it")


def _check_index(stream: _Settings) -> None:
    for name, field in stream.partitions.items():
        if field.where == "rows":
            raise ValueError(
                f"partitions.{name} is in: rows, and mode: index registers whole files, each of one partition: use "
                "mode: replace"
            )
        if field.empty == "null":
            raise ValueError(
                f"partitions.{name} is empty: null, and a registered file has the value of its folder, an empty "
                "text: write empty: value, or use mode: replace"
            )
    if stream.path_columns:
        raise ValueError("mode: index registers files as they are, without path_columns: use mode: replace")
    if "commit_batch" in stream.model_fields_set:
        raise ValueError("mode: index registers the files of all partitions in one commit already: remove commit_batch")
    if stream.transform is not None:
        raise ValueError("mode: index registers files as they are, untransformed: use mode: replace")
    for name, key in _OF_WRITTEN_FILES.items():
        if name in stream.model_fields_set:  # also with the default value
            raise ValueError(f"{key} is for written files, and mode: index writes none: remove it")
    if stream.schema_policy != "strict":
        raise ValueError(
            f"schema_policy: {stream.schema_policy} is for tables that a refresh writes, and mode: index registers "
            "only files that fit the table: remove it, or use mode: replace"
        )
    if stream.on_empty == "clear":
        raise ValueError("mode: index only adds files, so on_empty cannot be clear: use fail or keep")
    if stream.deltas is not None:
        raise ValueError(
            "deltas are of rows that a commit writes and removes. mode: index registers landed files, and the old rows "
            "of a file that changed or vanished are gone, so its deletes cannot be exported: remove deltas. The "
            "manifest names the files of each commit, and `lake-assets changes` reads their rows"
        )


def _check_not_index(stream: _Settings) -> None:
    if stream.owns_source:
        raise ValueError(f"owns_source is for mode: index; in mode: {stream.mode} the lake has files of its own")
    if "indexed_objects" in stream.checks.blocking:
        raise ValueError("checks.blocking names indexed_objects, which is a check of mode: index: remove it")


def _check_quarantine(stream: _Settings) -> None:
    if stream.on_bad_object == "quarantine" and stream.mode == "index":
        raise ValueError(
            "on_bad_object: quarantine is for mode: replace and mode: append, and mode: index leaves an object that "
            "it cannot register out by itself: remove on_bad_object"
        )
    if stream.on_bad_object == "fail" and "quarantine" in stream.checks.blocking:
        raise ValueError(
            "checks.blocking names quarantine, which is a check of on_bad_object: quarantine: remove it, or set "
            "on_bad_object"
        )


def _check_dead_letters(stream: _Settings) -> None:
    if stream.on_bad_row == "dead_letter" and stream.mode == "index":
        raise ValueError(
            "on_bad_row: dead_letter is for modes that write rows, and mode: index registers whole files: remove it, "
            "or use mode: replace"
        )
    if stream.on_bad_row == "fail" and stream.dead_letters is not None:
        raise ValueError("dead_letters is for on_bad_row: dead_letter: remove it, or set on_bad_row")
    if stream.on_bad_row == "fail" and "dead_letters" in stream.checks.blocking:
        raise ValueError(
            "checks.blocking names dead_letters, which is a check of on_bad_row: dead_letter: remove it, or set "
            "on_bad_row"
        )


def _check_copying(stream: _Settings) -> None:
    for name in ("verify", "immutable_source"):
        if stream.copying == "never" and name in stream.model_fields_set:
            raise ValueError(f"{name} is for copied files, and copy: never copies none: remove one of them")

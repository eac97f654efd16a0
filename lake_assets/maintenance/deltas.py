"""The retention of exported changes: old files are deleted, and files that no commit made visible."""

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lake_assets.config.storages import LocalStorage
from lake_assets.lake.commit.deltas import file_pattern, table_tag
from lake_assets.lake.commit.exporter import write_latest
from lake_assets.lake.ledger.tables import DELTAS
from lake_assets.lake.retry import under_lock
from lake_assets.lake.session import AUTHOR, LakeSession
from lake_assets.storage.manifest import LandedObject
from lake_assets.storage.store import Store
from lake_assets.streams.stream import OpenStream


@dataclass(frozen=True, slots=True)
class DeletedDelta:
    """An exported file that was deleted."""

    uri: str
    size: int  # bytes


def clean_deltas(
    session: LakeSession,
    stream: OpenStream,
    *,
    expired_before: dt.datetime | None,
    orphans_before: dt.datetime,
    dry_run: bool = False,
) -> tuple[DeletedDelta, ...]:
    """Delete a stream's exported files that are too old, and those that no commit made visible.

    The rows of the manifest are deleted before the files, so no consumer finds a row without its file. If the process
    is killed in between, a later call deletes the files.

    Args:
        session: an open lake.
        stream: with `deltas`.
        expired_before: files of commits before this time are deleted; None: no visible file is.
        orphans_before: files that are not visible are deleted if they were written before this time. It must be earlier
            than the start of any active run.
        dry_run: delete nothing.

    Returns:
        The deleted files; of a dry run, those that would be deleted.

    Raises:
        StorageError: the export's storage is unreachable or refuses; the next call continues.
        CatalogError: the catalog is unreachable or refuses.
    """
    export, table = stream.export, DELTAS.name(session.config)
    if export is None or not session.exists(table):
        return ()
    expired = _expire(session, stream, expired_before, dry_run=dry_run) if expired_before is not None else []
    found = _orphans(session, stream, orphans_before, dry_run=dry_run)
    if export.deltas.latest and not dry_run:
        # It lists none of the deleted files, and what a commit that was killed after its end did not list.
        with session.commit_lock():
            write_latest(session, stream.name, export)
    return (*expired, *found)


def _expire(session: LakeSession, stream: OpenStream, before: dt.datetime, *, dry_run: bool) -> Sequence[DeletedDelta]:
    table = DELTAS.name(session.config).sql
    condition, parameters = "stream = ? AND committed_at < ?", [stream.name, before]

    def delete() -> list[DeletedDelta]:
        with session.transaction():
            rows = session.rows(f"SELECT uri, size FROM {table} WHERE {condition} ORDER BY uri", parameters)  # noqa: S608
            if rows and not dry_run:
                session.rows(f"DELETE FROM {table} WHERE {condition}", parameters)  # noqa: S608 - a quoted name
                session.sign(AUTHOR, f"{len(rows):,} exported files of {stream.name} from before {before:%Y-%m-%d} end")
        return [DeletedDelta(uri, size) for uri, size in rows]

    expired = under_lock(session, delete, f"old rows of {DELTAS.name(session.config)}")
    if expired and not dry_run:
        _delete(stream, [delta.uri for delta in expired])
    return expired


def _orphans(session: LakeSession, stream: OpenStream, before: dt.datetime, *, dry_run: bool) -> Sequence[DeletedDelta]:
    pattern = file_pattern(table_tag(session.config, stream.table))
    old = [stored for stored in _listed(stream) if stored.last_modified < before and pattern.fullmatch(stored.key)]
    if not old:
        return []
    with session.commit_lock():
        rows = session.rows(f"SELECT uri FROM {DELTAS.name(session.config).sql}")  # noqa: S608 - a quoted name
        # By name, because the config may write the folder differently now; the names are unique.
        visible = {uri.rpartition("/")[2] for (uri,) in rows}
        orphans = [stored for stored in old if stored.key not in visible]
        if orphans and not dry_run:
            _delete(stream, [stored.uri for stored in orphans])
    return [DeletedDelta(stored.uri, stored.size) for stored in orphans]


def _listed(stream: OpenStream) -> Sequence[LandedObject]:
    store = _store(stream)
    if isinstance(store.storage, LocalStorage) and not Path(store.root).is_dir():
        return ()  # nothing was exported yet
    return store.list(files="*.parquet")


def _delete(stream: OpenStream, uris: Sequence[str]) -> None:
    store = _store(stream)
    store.delete(tuple(uri.rpartition("/")[2] for uri in uris))


def _store(stream: OpenStream) -> Store:
    assert stream.export is not None  # noqa: S101 - the caller checks
    return Store(stream.export.deltas.to)

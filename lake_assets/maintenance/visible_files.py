"""Files beside the lake that rows of its tables make visible: exported changes and dead letters.

Old exported files are deleted, and all files that no commit made visible.
"""

import datetime as dt
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from lake_assets.config.storages import AnyStorage, LocalStorage
from lake_assets.lake.commit.deltas import file_pattern, table_tag
from lake_assets.lake.commit.exporter import write_latest
from lake_assets.lake.ledger.tables import DELTAS, LETTERS, OwnTable
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
    expired_before: dt.datetime | None,
    orphans_before: dt.datetime,
    *,
    dry_run: bool = False,
) -> tuple[DeletedDelta, ...]:
    """Delete a stream's exported files that are too old, and those that no commit made visible; a dry run returns them.

    The rows of the manifest are deleted before the files, so no consumer finds a row without its file. If the process
    is killed in between, or the storage fails, a later call deletes the files. Without `expired_before` no visible file
    is deleted. `orphans_before` must be earlier than the start of any active run.
    """
    export, table = stream.export, DELTAS.name(session.config)
    if export is None or not session.exists(table):
        return ()
    to, pattern = export.deltas.to, file_pattern(table_tag(session.config, stream.table))
    expired: Sequence[DeletedDelta] = ()
    if expired_before is not None:
        expired = _expire(session, stream.names, expired_before, dry_run=dry_run)
        if expired and not dry_run:
            Store(to).delete(tuple(_name(delta.uri) for delta in expired))
    old = [stored for stored in _listed(to, "", pattern) if stored.last_modified < orphans_before]
    orphans = _delete_orphans(session, DELTAS, to, old, dry_run=dry_run)
    if export.deltas.latest and not dry_run:
        # It lists none of the deleted files, and what a commit that was killed after its end did not list.
        write_latest(session, export)
    return (*expired, *(DeletedDelta(stored.uri, stored.size) for stored in orphans))


def _expire(
    session: LakeSession, streams: tuple[str, ...], before: dt.datetime, *, dry_run: bool
) -> Sequence[DeletedDelta]:
    """End the rows of old exported files; returns these."""
    table = DELTAS.name(session.config).sql
    condition, parameters = "list_contains(?, stream) AND committed_at < ?", [list(streams), before]

    def delete() -> list[DeletedDelta]:
        with session.transaction():
            rows = session.rows(f"SELECT uri, size FROM {table} WHERE {condition} ORDER BY uri", parameters)  # noqa: S608
            if rows and not dry_run:
                session.rows(f"DELETE FROM {table} WHERE {condition}", parameters)  # noqa: S608 - a quoted name
                session.sign(AUTHOR, f"{len(rows):,} exported files of {streams[0]} from before {before:%Y-%m-%d} end")
        return [DeletedDelta(uri, size) for uri, size in rows]

    return under_lock(session, delete, f"old rows of {DELTAS.name(session.config)}")


def clean_letters(
    session: LakeSession, stream: OpenStream, before: dt.datetime, *, dry_run: bool = False
) -> tuple[LandedObject, ...]:
    """Delete a stream's files of dead letters that no commit made visible; a dry run returns them.

    Visible ones are never deleted. `before` must be earlier than the start of any active run.
    """
    rules = stream.letters
    if rules is None or not session.exists(LETTERS.name(session.config)):
        return ()
    key = re.compile(rf"(?s).*-[0-9a-f]{{32}}-{rules.tag}\.parquet")
    above = rules.folder.removesuffix(f"{stream.name}/")
    listed = (stored for name in stream.names for stored in _listed(rules.storage, f"{above}{name}/", key))
    old = [stored for stored in listed if stored.last_modified < before]
    return _delete_orphans(session, LETTERS, rules.storage, old, dry_run=dry_run)


def _listed(storage: AnyStorage, folder: str, key: re.Pattern[str]) -> Iterable[LandedObject]:
    if isinstance(storage, LocalStorage) and not Path(storage.root, folder).is_dir():
        return ()  # nothing was written yet
    return (stored for stored in Store(storage).list(folder, files="*.parquet") if key.fullmatch(stored.key))


def _delete_orphans(
    session: LakeSession, own: OwnTable, storage: AnyStorage, old: Sequence[LandedObject], *, dry_run: bool
) -> tuple[LandedObject, ...]:
    """Delete those of the files that no row of the table makes visible."""
    if not old:
        return ()
    with session.commit_lock():
        rows = session.rows(f"SELECT uri FROM {own.name(session.config).sql}")  # noqa: S608 - a quoted name
        # By name, because the config may write the folder differently now; the names are unique.
        visible = {_name(uri) for (uri,) in rows}
        orphans = tuple(stored for stored in old if _name(stored.uri) not in visible)
        if orphans and not dry_run:
            Store(storage).delete(tuple(stored.key for stored in orphans))
    return orphans


def _name(uri: str) -> str:
    return uri.rpartition("/")[2]

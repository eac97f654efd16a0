"""Expiry and clean-up: snapshots expire, and files that no snapshot needs are deleted.

DuckLake's own clean-up functions are not called: they have no exceptions, delete a file that was registered again under
its old path, and delete any registered file, also landed objects. This module reads and writes the catalog's list of
scheduled files itself.

Before every deletion, the files that the catalog names are read under the lake's lock. A landed object is deleted only
if it is still the object that was registered.
"""

import datetime as dt
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, TypeVar

from lake_assets.base.errors import NoLakeError, PartitionError
from lake_assets.base.events import counting
from lake_assets.base.json_dataclasses import AsText, Documented, NotInJson, in_json
from lake_assets.config.layout.partition import Partition
from lake_assets.config.storages import AnyStorage
from lake_assets.lake.backends.database_backend import FILES_REMOVED
from lake_assets.lake.catalog.files import (
    ScheduledFile,
    forget_scheduled,
    needed_files,
    scheduled_files,
    table_folders,
    unnamed_files,
)
from lake_assets.lake.catalog.past_partitions import LIVE, past_table
from lake_assets.lake.commit.deltas import file_pattern, table_tag
from lake_assets.lake.commit.exporter import write_latest
from lake_assets.lake.ledger.object_history import KnownObject, registered_objects
from lake_assets.lake.ledger.read import recorded_commits
from lake_assets.lake.ledger.tables import DELTAS, LEDGER, LETTERS, OF_RUNS, OwnTable
from lake_assets.lake.session import AUTHOR, LakeSession, under_lock
from lake_assets.storage.manifest import LandedObject
from lake_assets.storage.store import Store
from lake_assets.streams.stream import OpenStream, list_landed_in


@dataclass(frozen=True, slots=True)
class DeletedDelta(Documented):
    """An exported file that was deleted."""

    uri: str
    """Its path or URI."""
    size: int
    """Its size in bytes."""


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
    if storage.is_local and not Path(storage.root, folder).is_dir():
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


File = TypeVar("File", ScheduledFile, LandedObject)

CHUNK = 1000  # files that are deleted under one hold of the lock
DELETIONS = 16  # of landed objects at a time; a deletion is mostly latency


@dataclass(frozen=True, slots=True)
class Roots:
    """The owner of a file by its root; the longest root counts. URIs without a trailing slash."""

    lake: str
    protected: Sequence[str] = ()  # landing zones: maintenance never deletes a file there
    foreign: Sequence[str] = ()  # other lakes: their files are not orphans of this lake
    owned: Mapping[str, Store] = field(default_factory=dict)  # landing zones whose objects the lake may delete

    def is_protected(self, uri: str) -> bool:
        """Return whether the file lies in a landing zone that the lake does not own; a root of both is protected."""
        return _longest(uri, self.protected) >= max(_longest(uri, [self.lake, *self.owned]), 1)

    def is_landed(self, uri: str) -> bool:
        """Return whether the file lies in a landing zone that the lake owns; a root of both is a landing zone."""
        return _longest(uri, self.owned) >= max(_longest(uri, [self.lake]), 1)

    def is_foreign(self, uri: str) -> bool:
        """Return whether the file lies in another lake."""
        return _longest(uri, self.foreign) >= max(_longest(uri, [self.lake]), 1)

    def store_of(self, uri: str, lake: Store) -> Store | None:
        """Return the store of a file; None if the config has no such storage."""
        stores = {lake.root: lake, **self.owned}
        roots = [root for root in stores if uri.startswith(f"{root}/")]
        return stores[max(roots, key=len)] if roots else None


@dataclass(frozen=True, slots=True)
class KeptObject(Documented):
    """A file that was not deleted."""

    uri: str
    """Its path or URI."""
    why: str
    """The reason."""


@dataclass(frozen=True, slots=True)
class Cleaned(Documented):
    """The results for files that were scheduled for deletion."""

    deleted: tuple[str, ...] = ()
    """URIs of data files that no snapshot needs."""
    # In a landing zone, or named by a snapshot again; no longer scheduled
    kept: Annotated[tuple[str, ...], NotInJson] = ()
    unreachable: tuple[str, ...] = ()
    """URIs of files in no storage of the config, which were not deleted and remain scheduled."""
    # In a landing zone, not those that were registered; no longer scheduled
    others: Annotated[tuple[KeptObject, ...], NotInJson] = ()

    @in_json
    def all_kept(self) -> list[KeptObject]:
        """Files that could have been deleted, and were not, each with the reason."""
        return [*(KeptObject(uri, "in a landing zone, or in use again") for uri in self.kept), *self.others]

    def __add__(self, more: "Cleaned") -> "Cleaned":
        return Cleaned(
            self.deleted + more.deleted,
            self.kept + more.kept,
            self.unreachable + more.unreachable,
            self.others + more.others,
        )


def expire_snapshots(session: LakeSession, before: dt.datetime, *, dry_run: bool = False) -> tuple[int, ...]:
    """Expire the snapshots from before that time, and return their ids; the newest snapshot always remains.

    If the clocks of writers differ, a snapshot expires only together with all snapshots before it.
    """

    def expire() -> list[int]:
        # By ids: on a SQLite catalog `older_than` compares texts, so that snapshots of a whole day expire too early.
        old = [
            int(snapshot)
            for (snapshot,) in session.rows(
                "SELECT snapshot_id FROM ducklake_snapshots(?) "
                "WHERE snapshot_id < (SELECT id FROM ducklake_current_snapshot(?)) AND snapshot_id < ALL "
                "(SELECT snapshot_id FROM ducklake_snapshots(?) WHERE snapshot_time >= ?) "
                "ORDER BY snapshot_id",
                [session.alias, session.alias, session.alias, before],
            )
        ]
        if old and not dry_run:
            session.rows("CALL ducklake_expire_snapshots(?, versions => ?)", [session.alias, old])
        return old

    return tuple(under_lock(session, expire, "the expiry of snapshots"))


def clean_up(session: LakeSession, roots: Roots, before: dt.datetime, *, dry_run: bool = False) -> Cleaned:
    """Delete the files whose last snapshot expired before that time.

    A file that a snapshot names again is kept. So is a file in a landing zone, unless the lake owns the landing zone
    and the file is still the one that was registered. The catalog forgets that a kept file was scheduled. If the store
    fails, files that were not deleted remain scheduled.
    """
    cleaned = Cleaned()
    for files in _chunks([file for file in scheduled_files(session) if file.scheduled_at < before], "clean up"):
        clean = partial(_clean_up, session, roots, files, dry_run=dry_run)
        cleaned += under_lock(session, clean, "the list of files to be deleted")
    return cleaned


def _clean_up(session: LakeSession, roots: Roots, files: Sequence[ScheduledFile], *, dry_run: bool) -> Cleaned:
    lake = Store(session.config.own_storage)
    needed = needed_files(session)
    kept = [file for file in files if file.uri in needed or roots.is_protected(file.uri)]
    stores = {file.uri: roots.store_of(file.uri, lake) for file in files if file not in kept}
    doomed = {uri: store for uri, store in stores.items() if store is not None}
    landed = {uri: store for uri, store in doomed.items() if roots.is_landed(uri)}
    others = _delete_landed(session, landed, dry_run=dry_run)
    if not dry_run:
        _delete((store, uri) for uri, store in doomed.items() if uri not in landed)
        # After the files: if the process is killed in between, the next one finds no file, which is not an error.
        forget_scheduled(session, [file.file_id for file in files if file in kept or file.uri in doomed])
    left = {other.uri for other in others}
    return Cleaned(
        tuple(uri for uri in doomed if uri not in left),
        tuple(file.uri for file in kept),
        tuple(uri for uri in stores if uri not in doomed),
        tuple(others),
    )


def delete_orphans(
    session: LakeSession, roots: Roots, objects: Sequence[LandedObject], before: dt.datetime, *, dry_run: bool = False
) -> tuple[LandedObject, ...]:
    """Delete old data files in the folders of the lake's tables that no snapshot names.

    Such files remain after a run was killed or its commit failed. A run writes its files before it commits, so `before`
    must be earlier than the start of any active run. `objects` is a listing of the lake's storage from before this
    call.
    """
    store = Store(session.config.own_storage)
    folders = tuple(table_folders(session))
    old = [
        stored
        for stored in objects
        if stored.last_modified < before
        and stored.key.endswith(".parquet")
        and stored.uri.startswith(folders)
        and not roots.is_protected(stored.uri)
        and not roots.is_landed(stored.uri)  # it may have landed without being registered yet
        and not roots.is_foreign(stored.uri)
    ]
    deleted: list[LandedObject] = []
    # Most files are named, so few are looked at under the locks, which delay commits.
    for chunk in _chunks(unnamed_files(session, old), "delete orphans"):
        # No commit has looked for a file of these and is not made yet, and no file of a commit is not named yet.
        with session.lock(FILES_REMOVED), session.commit_lock():
            orphans = unnamed_files(session, chunk)
            if not dry_run:
                _delete((store, orphan.uri) for orphan in orphans)
        deleted += orphans
    return tuple(deleted)


def _delete(files: Iterable[tuple[Store, str]]) -> None:
    keys: defaultdict[Store, list[str]] = defaultdict(list)
    for store, uri in files:
        keys[store].append(uri.removeprefix(f"{store.root}/"))
    for store, of_store in keys.items():
        store.delete(tuple(of_store))


def _delete_landed(session: LakeSession, landed: Mapping[str, Store], *, dry_run: bool) -> list[KeptObject]:
    """Delete landed objects that are still the registered ones; returns the others."""
    registered = registered_objects(session, list(landed))

    def delete(uri: str) -> KeptObject | None:
        store, before = landed[uri], registered.get(uri)
        now = store.find(uri.removeprefix(f"{store.root}/"))
        is_gone = now is None or (before is not None and before.is_now(now))
        if now is not None and is_gone and not dry_run:
            is_gone = store.delete_unchanged(now)
        return None if is_gone else KeptObject(uri, _why_kept(before))

    with ThreadPoolExecutor(DELETIONS) as pool:
        return [kept for kept in pool.map(delete, landed) if kept is not None]


def _why_kept(before: KnownObject | None) -> str:
    if before is None:
        return "it is unknown whether it is the object that was registered"
    if before.has_ended:
        return "it exists again after it vanished and was removed from the table"
    return "it is not the object that was registered"


def _longest(uri: str, roots: Iterable[str]) -> int:
    """Return the length of the longest root of the file; 0 if there is none."""
    return max((len(root) for root in roots if uri.startswith(f"{root}/")), default=0)


def _chunks(files: Sequence[File], title: str) -> Iterator[Sequence[File]]:
    with counting(title, "files", len(files)) as count:
        for start in range(0, len(files), CHUNK):
            chunk = files[start : start + CHUNK]
            yield chunk
            count.advance(len(chunk))


_OF_PARTITION = "list_contains(?, stream) AND load_partition = ?"


@dataclass(frozen=True, slots=True)
class Forgotten(Documented):
    """A partition that was removed from the ledger; with `--dry-run`, that would be."""

    partition: Annotated[Partition, AsText]
    """As a path, such as `region=NW/date=2026-02-11`."""
    ledger_rows: int
    """Its rows of the ledger."""


def forget(stream: OpenStream, partitions: Iterable[Partition], *, dry_run: bool = False) -> list[Forgotten]:
    """Delete all rows of the stream's partitions from ledger and manifest, in one transaction.

    A partition with rows in the lake or with landed objects exists and is refused, and so is one that a restore holds;
    nothing is deleted then. If a partition column is in the rows, landed objects do not prove that. Dagster keeps its
    dynamic partitions.
    """
    wanted = list(dict.fromkeys(partitions))
    landed = {} if stream.config.selects_rows else list_landed_in(stream, wanted)
    for partition, manifest in landed.items():
        if manifest.objects:
            objects = f"{len(manifest.objects):,} landed objects at {stream.source_glob(partition)}"
            raise PartitionError(f"partition {partition} has {objects}:", "remove them first.")
    try:
        with stream.lake.open(read_only=dry_run) as lake:
            if not lake.exists(LEDGER.name(lake.config)):
                raise _unknown(wanted[0])
            if dry_run:
                return _count_rows(lake, stream, wanted)
            return under_lock(lake, lambda: _delete_rows(lake, stream, wanted), "the removal of ledger rows")
    except NoLakeError:
        raise _unknown(wanted[0]) from None


def _removal(stream: OpenStream) -> str:
    """Return how the rows of a partition are removed, by its stream's mode."""
    if stream.config.mode.registers:
        return f"run `lake-assets index {stream.name} --repair` first, which removes rows whose object is gone."
    if stream.config.mode.reads_new:
        return f"remove them first by SQL, such as DELETE FROM {stream.table} WHERE …"  # noqa: S608 - is printed
    return "`on_empty: clear` removes rows whose source is empty."


def _count_rows(lake: LakeSession, stream: OpenStream, partitions: Sequence[Partition]) -> list[Forgotten]:
    """Return the ledger rows of each partition; refuses one that exists, or that the ledger does not have."""
    forgotten = []
    known = past_table(lake, stream.partitioned_table, partitions, LIVE) if lake.exists(stream.table) else None
    counts = {} if known is None else known.live_rows(partitions)
    for partition in partitions:
        if rows := counts.get(partition, 0):
            problem = f"partition {partition} has {rows:,} rows in {stream.table}, and one with rows is not forgotten:"
            raise PartitionError(problem, _removal(stream))
        last = recorded_commits(lake, stream.table, [partition]).get(partition.path)
        if last is not None and last.is_held:
            raise PartitionError(
                f"partition {partition} is held since a restore:",
                f"release it first with `lake-assets restore {stream.name} --partition {partition.option} --release`.",
            )
        ((ledger_rows,),) = lake.rows(
            f"SELECT count(*) FROM {LEDGER.name(lake.config).sql} WHERE {_OF_PARTITION}",  # noqa: S608
            [list(stream.names), partition.path],
        )
        if not ledger_rows:
            raise _unknown(partition)
        forgotten.append(Forgotten(partition, ledger_rows))
    return forgotten


def _delete_rows(lake: LakeSession, stream: OpenStream, partitions: Sequence[Partition]) -> list[Forgotten]:
    forgotten = _count_rows(lake, stream, partitions)  # in the transaction, the table would be read
    with lake.transaction():
        for partition in partitions:
            for own in (LEDGER, *OF_RUNS):
                lake.rows(
                    f"DELETE FROM {own.name(lake.config).sql} WHERE {_OF_PARTITION}",  # noqa: S608
                    [list(stream.names), partition.path],
                )
    return forgotten


def _unknown(partition: Partition) -> PartitionError:
    return PartitionError(f"the ledger has no row of partition {partition}:", "there is nothing to forget.")

"""What a lake no longer needs: snapshots that expire, files that wait to be deleted, files that nobody ever named.

DuckLake's own clean-up functions are not called: they take no exceptions, delete a file that was registered again under
its old path, and own whatever was registered, landed objects too. The list that they work on is the catalog's, and is
read and written here.

Every deletion is preceded, under the lake's lock, by a look at what the catalog names now. That of a landed object is
preceded by a look at the object too: it must be the one that was registered.
"""

import datetime as dt
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import TypeVar

from lake_assets.lake.catalog.files import ScheduledFile, forget_scheduled, needed_files, scheduled_files, table_folders
from lake_assets.lake.ledger.object_history import KnownObject, registered_objects
from lake_assets.lake.retry import under_lock
from lake_assets.lake.session import LakeSession
from lake_assets.storage.store import LandedObject, Store

File = TypeVar("File", ScheduledFile, LandedObject)

CHUNK = 1000  # files that are deleted under one hold of the lock
DELETIONS = 16  # of landed objects at a time; a deletion is mostly latency


@dataclass(frozen=True, slots=True)
class Roots:
    """Whose a file is, by the root that it lies under; of several, the longest. URIs without a trailing slash."""

    lake: str
    protected: Sequence[str] = ()  # where objects land: nothing below is ever deleted, nor forgotten by its owner
    foreign: Sequence[str] = ()  # of other lakes: none of our orphans
    owned: Mapping[str, Store] = field(default_factory=dict)  # landing zones whose objects the lake may delete

    def is_protected(self, uri: str) -> bool:
        """Whether the file lies in a landing zone that is not the lake's own; a root that is both is protected."""
        return _longest(uri, self.protected) >= max(_longest(uri, [self.lake, *self.owned]), 1)

    def is_landed(self, uri: str) -> bool:
        """Whether the file lies in a landing zone that is the lake's own; a root that is both is a landing zone."""
        return _longest(uri, self.owned) >= max(_longest(uri, [self.lake]), 1)

    def is_foreign(self, uri: str) -> bool:
        """Whether the file lies in another lake."""
        return _longest(uri, self.foreign) >= max(_longest(uri, [self.lake]), 1)


@dataclass(frozen=True, slots=True)
class KeptObject:
    """An object in a landing zone of the lake's own that was to be deleted, and is not what was registered."""

    uri: str
    why: str


@dataclass(frozen=True, slots=True)
class Cleaned:
    """What became of the files that waited to be deleted. URIs."""

    deleted: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()  # in a landing zone, or named by a snapshot again: forgotten, never deleted
    unreachable: tuple[str, ...] = ()  # in no storage of the config: they wait on
    others: tuple[KeptObject, ...] = ()  # forgotten too, and never deleted

    def __add__(self, more: "Cleaned") -> "Cleaned":
        return Cleaned(
            self.deleted + more.deleted,
            self.kept + more.kept,
            self.unreachable + more.unreachable,
            self.others + more.others,
        )


def expire_snapshots(session: LakeSession, before: dt.datetime, *, dry_run: bool = False) -> tuple[int, ...]:
    """Let the snapshots of before that time be queried no more; the newest always stays.

    No younger one lies before them: where the clocks of two writers differ, a snapshot waits for those before it.

    Returns:
        Their ids.

    Raises:
        CatalogError: the catalog refuses.
    """

    def expire() -> list[int]:
        # By their ids: `older_than` compares texts on a SQLite catalog, and lets a whole day expire too early.
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

    A file of a landing zone is never deleted, unless the stream says that the lake owns it, and it still is what was
    registered: the catalog forgets it instead. Nor is one that a snapshot names again.

    Raises:
        StorageError: the store is unreachable or refuses; what was not deleted waits on.
        CatalogError: the catalog refuses.
    """
    cleaned = Cleaned()
    for some in _chunks([file for file in scheduled_files(session) if file.scheduled_at < before]):
        clean = partial(_clean_up_some, session, roots, some, dry_run=dry_run)
        cleaned += under_lock(session, clean, "the list of files to be deleted")
    return cleaned


def _clean_up_some(session: LakeSession, roots: Roots, some: Sequence[ScheduledFile], *, dry_run: bool) -> Cleaned:
    lake = Store(session.config.own_storage)
    needed = needed_files(session)
    spared = [f for f in some if f.uri in needed or roots.is_protected(f.uri)]
    rest = [f for f in some if f not in spared]
    homes = {f.uri: _home(f.uri, lake, roots) for f in rest}
    doomed = [f for f in rest if homes[f.uri] is not None]
    landed = {f.uri: home for f in doomed if (home := homes[f.uri]) and roots.is_landed(f.uri)}
    others = _delete_landed(session, landed, dry_run=dry_run)
    if not dry_run:
        _delete((home, f.uri) for f in doomed if (home := homes[f.uri]) and f.uri not in landed)
        # After the files: if this process dies between, the next one finds them gone, which is no error.
        forget_scheduled(session, [f.file_id for f in (*spared, *doomed)])
    left = {one.uri for one in others}
    return Cleaned(
        tuple(f.uri for f in doomed if f.uri not in left),
        tuple(f.uri for f in spared),
        tuple(f.uri for f in rest if homes[f.uri] is None),
        tuple(others),
    )


def delete_orphans(
    session: LakeSession, roots: Roots, objects: Sequence[LandedObject], before: dt.datetime, *, dry_run: bool = False
) -> tuple[LandedObject, ...]:
    """Delete the data files of before that time, in the folders of the lake's tables, that no snapshot names.

    They are what runs left that failed, or whose commit lost: a run writes its files before it commits, so `before`
    must lie further back than any run began that may still be at work.

    Args:
        session: an open lake.
        roots: whose files are whose.
        objects: a listing of the lake's storage, made before this is called.
        before: only what was last written before.
        dry_run: delete nothing.

    Raises:
        StorageError: the store is unreachable or refuses.
        CatalogError: the catalog cannot be read.
    """
    store = Store(session.config.own_storage)
    folders = tuple(table_folders(session))
    old = [
        o
        for o in objects
        if o.last_modified < before
        and o.key.endswith(".parquet")
        and o.uri.startswith(folders)
        and not roots.is_protected(o.uri)
        and not roots.is_landed(o.uri)  # it may have landed, and not be registered yet
        and not roots.is_foreign(o.uri)
    ]
    found: list[LandedObject] = []
    for some in _chunks(old):
        with session.commit_lock():
            named = needed_files(session) | {file.uri for file in scheduled_files(session)}
            # By name too, however the catalog writes the folder: no two files of ours have the same.
            names = {uri.rpartition("/")[2] for uri in named}
            orphans = [o for o in some if o.uri not in named and o.key.rpartition("/")[2] not in names]
            if not dry_run:
                _delete((store, o.uri) for o in orphans)
        found += orphans
    return tuple(found)


def _home(uri: str, lake: Store, roots: Roots) -> Store | None:
    """The store that a file lies in; None for one in no storage that the config knows."""
    homes = {lake.root: lake, **roots.owned}
    inside = [root for root in homes if uri.startswith(f"{root}/")]
    return homes[max(inside, key=len)] if inside else None


def _delete(files: Iterable[tuple[Store, str]]) -> None:
    keys: defaultdict[Store, list[str]] = defaultdict(list)
    for store, uri in files:
        keys[store].append(uri.removeprefix(f"{store.root}/"))
    for store, doomed in keys.items():
        store.delete(tuple(doomed))


def _delete_landed(session: LakeSession, landed: Mapping[str, Store], *, dry_run: bool) -> list[KeptObject]:
    """Delete landed objects that are still what was registered; returns the others."""
    registered = registered_objects(session, list(landed))

    def one(uri: str) -> KeptObject | None:
        store, before = landed[uri], registered.get(uri)
        key = uri.removeprefix(f"{store.root}/")
        if dry_run or before is None:
            now = store.find(key)
            is_gone = now is None or (before is not None and before.is_now(now.etag, now.size))
        else:
            is_gone = store.delete_unchanged(key, before.etag, before.size)
        return None if is_gone else KeptObject(uri, _why_kept(before))

    with ThreadPoolExecutor(DELETIONS) as pool:
        return [kept for kept in pool.map(one, landed) if kept is not None]


def _why_kept(before: KnownObject | None) -> str:
    if before is None:
        return "nothing tells whether it is what was registered"
    if before.has_ended:
        return "it is there again, after it had vanished and was taken out of the table"
    return "it is another than the one that was registered"


def _longest(uri: str, roots: Iterable[str]) -> int:
    """The length of the longest root that holds the file; 0 where none does."""
    return max((len(root) for root in roots if uri.startswith(f"{root}/")), default=0)


def _chunks(files: Sequence[File]) -> Iterator[list[File]]:
    iterator = iter(files)
    while chunk := list(islice(iterator, CHUNK)):
        yield chunk

"""Maintenance of a lake, for the command line and Dagster: expiry, clean-up, orphans, flush and compaction."""

import datetime as dt
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from lake_assets.config.lake import Lake, Maintenance
from lake_assets.config.models import LakeConfig
from lake_assets.errors import CatalogError, ConfigError, SpecificationError
from lake_assets.events import about, step
from lake_assets.ingest.replace.staging import leftovers
from lake_assets.lake.catalog.corrected_bounds import repair_bounds, wrong_bounds
from lake_assets.lake.ducklake import DuckLake
from lake_assets.lake.ledger.flush import expire_ledger, flush_ledger
from lake_assets.lake.retry import under_lock
from lake_assets.lake.session import LakeSession, TableName
from lake_assets.maintenance.cleaning import Cleaned, Roots, clean_up, delete_orphans, expire_snapshots
from lake_assets.maintenance.compaction import CompactedPartition, candidates, compact
from lake_assets.maintenance.visible_files import DeletedDelta, clean_deltas, clean_letters
from lake_assets.progress import counting
from lake_assets.spark.session import Sessions
from lake_assets.storage.manifest import LandedObject
from lake_assets.storage.store import Store
from lake_assets.streams.stream import OpenStream, open_streams

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Maintained:
    """The results of a maintenance run; of a dry run, those that a run would have."""

    lake: str
    dry_run: bool
    expired: tuple[int, ...]  # snapshots
    cleaned: Cleaned
    orphans: tuple[LandedObject, ...]  # with staged files of killed runs
    compacted: tuple[CompactedPartition, ...]
    flushed: int  # rows of ledger and manifest that were moved from the catalog into files
    forgotten: int  # rows of the ledger that were deleted because of their age
    sizes: Mapping[str, int]  # bytes of the lake's files before the run, by URI
    deltas: tuple[DeletedDelta, ...] = ()  # exported files
    letters: tuple[LandedObject, ...] = ()  # files of dead letters that no commit made visible
    corrected: tuple[str, ...] = ()  # columns with their tables, whose least and greatest values were wrong

    @property
    def bytes_deleted(self) -> int:
        """Bytes of the deleted files, without those in landing zones, whose sizes are unknown."""
        deleted = sum(self.sizes.get(uri, 0) for uri in self.cleaned.deleted)
        return deleted + sum(orphan.size for orphan in self.orphans)

    @property
    def left(self) -> tuple[CompactedPartition, ...]:
        """Partitions that could not be compacted."""
        return tuple(result for result in self.compacted if result.why is not None)


def maintain(
    config: LakeConfig,
    lake: str,
    sessions: Sessions,
    *,
    dry_run: bool = False,
    now: dt.datetime | None = None,
    checkpoint: Callable[[], None] = lambda: None,
) -> Maintained:
    """Maintain a lake by the rules of its config, or by the defaults.

    All files of the newest snapshot and of snapshots that have not expired remain. Objects in landing zones are deleted
    only if they were registered by a stream with `owns_source: true`.

    Args:
        config: the whole config, which also names other lakes and landing zones.
        lake: the lake's name.
        sessions: gives the Spark session; called only if there is a partition to compact.
        dry_run: change nothing. The result leaves out files of snapshots that the run itself would expire.
        now: the time from which ages are counted, with a time zone; the present when None.
        checkpoint: called between steps; an exception that it raises ends the run.

    Raises:
        NoLakeError: there is no lake yet.
        SpecificationError: the version of DuckLake's specification in the catalog is unknown.
        StorageError: a store is unreachable or refuses; the next run continues.
        CatalogError: the catalog is unreachable or refuses.
        SparkUnavailableError: there is a partition to compact, and Spark does not start; all else is done.
    """
    with about(lake=lake), step("maintain", mode="dry_run" if dry_run else None) as figures:
        maintained = _maintain(config, lake, sessions, dry_run=dry_run, now=now, checkpoint=checkpoint)
        files = [*maintained.cleaned.deleted, *(orphan.uri for orphan in maintained.orphans)]
        figures.update(snapshots=len(maintained.expired), files=len(files), bytes=maintained.bytes_deleted)
        figures.update(partitions=len(maintained.compacted), failed=len(maintained.left))
    return maintained


def _maintain(
    config: LakeConfig,
    lake: str,
    sessions: Sessions,
    *,
    dry_run: bool,
    now: dt.datetime | None,
    checkpoint: Callable[[], None],
) -> Maintained:
    if lake not in config.lakes:
        raise ConfigError(f"there is no lake {lake!r}:", f"the config has {', '.join(config.lakes)}.")
    rules = config.lakes[lake].maintenance or Maintenance()
    now = now or dt.datetime.now(dt.UTC)
    roots = roots_of(config, lake)
    staged = _delete_staged(config.lakes[lake], roots, _before(now, rules.orphans_older_than), dry_run=dry_run)
    streams = [stream for name, stream in open_streams(config).items() if config.lake_name(name) == lake]
    if config.lakes[lake].is_managed:  # MotherDuck maintains its files
        deltas, letters = _clean_visible(streams, rules, now, checkpoint, dry_run=dry_run)
        return Maintained(lake, dry_run, (), Cleaned(), staged, (), 0, 0, {}, deltas, letters)
    ducklake = streams[0].lake if streams else DuckLake(config.lakes[lake])
    with ducklake.open(read_only=dry_run) as session:
        if (reason := session.unknown_specification) is not None:
            # The catalog's tables decide which files are deleted.
            raise SpecificationError(
                f"the lake {lake} is not maintained: {reason}:", "use a version of lake_assets that knows it."
            )
        expired = expire_snapshots(session, _before(now, rules.expire_older_than), dry_run=dry_run)
        checkpoint()
        with counting(f"list {lake}", "files") as count:
            # Also hidden ones: a table's name may begin with `_`.
            objects = Store(config.lakes[lake].own_storage).all(listed=count.advance, hides=lambda _: False)
        cleaned = clean_up(session, roots, _before(now, rules.delete_older_than), dry_run=dry_run)
        checkpoint()
        scheduled = {*cleaned.deleted, *cleaned.unreachable}
        others = [stored for stored in objects if stored.uri not in scheduled]
        orphans = delete_orphans(session, roots, others, _before(now, rules.orphans_older_than), dry_run=dry_run)
        checkpoint()
        forgotten = 0
        if (days := rules.ledger_retention) is not None:
            forgotten = expire_ledger(session, _before(now, days), dry_run=dry_run)
        checkpoint()
        flushed = flush_ledger(session, dry_run=dry_run)
        checkpoint()
        corrected = _correct_bounds(session, dict.fromkeys(s.table for s in streams), dry_run=dry_run)
    checkpoint()
    deltas, letters = _clean_visible(streams, rules, now, checkpoint, dry_run=dry_run)
    checkpoint()
    compacted: list[CompactedPartition] = []
    if (at_least := rules.compact) is not None:
        for stream in streams:
            compacted += (
                _would_compact(stream, at_least)
                if dry_run
                else compact(stream, at_least, sessions, checkpoint=checkpoint)
            )
    return Maintained(
        lake,
        dry_run,
        expired,
        cleaned,
        (*orphans, *staged),
        tuple(compacted),
        flushed,
        forgotten,
        {stored.uri: stored.size for stored in objects},
        deltas,
        letters,
        corrected,
    )


def _correct_bounds(session: LakeSession, tables: Iterable[TableName], *, dry_run: bool) -> tuple[str, ...]:
    """Correct the bounds of columns that answer wrong; returns their names with the tables'."""
    corrected: list[str] = []
    for table in tables:
        if not session.exists(table):
            continue
        work = partial(wrong_bounds if dry_run else repair_bounds, session, table)
        try:
            names = work() if dry_run else under_lock(session, work, f"the least and greatest values of {table}")
        except CatalogError as error:
            # A file may be gone, which `check` says. The other tables and steps do not need it.
            _LOG.warning("The least and greatest values of the columns of %s are not corrected: %s", table, error)
        else:
            corrected += (f"{table}: {name}" for name in names.values())
    return tuple(corrected)


def _clean_visible(
    streams: Sequence[OpenStream],
    rules: Maintenance,
    now: dt.datetime,
    checkpoint: Callable[[], None],
    *,
    dry_run: bool,
) -> tuple[tuple[DeletedDelta, ...], tuple[LandedObject, ...]]:
    """Delete exported files that are too old, and exported files and dead letters that no commit made visible."""
    deltas: list[DeletedDelta] = []
    letters: list[LandedObject] = []
    expired = None if rules.delta_retention is None else _before(now, rules.delta_retention)
    orphans = _before(now, rules.orphans_older_than)
    for stream in streams:
        if stream.export is not None:
            with stream.lake.open(read_only=dry_run) as session:
                deltas += clean_deltas(session, stream, expired, orphans, dry_run=dry_run)
    checkpoint()
    for stream in streams:
        if stream.letters is not None:
            with stream.lake.open(read_only=dry_run) as session:
                letters += clean_letters(session, stream, orphans, dry_run=dry_run)
    return tuple(deltas), tuple(letters)


def _delete_staged(lake: Lake, roots: Roots, before: dt.datetime, *, dry_run: bool) -> tuple[LandedObject, ...]:
    """Delete staged files from before that time, which killed runs left and nobody can read."""
    if not lake.inserts_only:
        return ()
    staged = tuple(file for file in leftovers(lake.staging_storage, before) if not roots.is_protected(file.uri))
    if not dry_run:
        Store(lake.staging_storage).delete(tuple(file.key for file in staged))
    return staged


def roots_of(config: LakeConfig, lake: str) -> Roots:
    """Return the owners of files by the config: only this decides which files maintenance may delete.

    Every stream's source is a landing zone, and so is every storage that `lake-assets land` writes to. They are
    protected in every mode, unless the stream has `owns_source: true`.
    """
    protected: list[str] = []
    owned: dict[str, Store] = {}
    for name, stream in config.streams.items():
        landings = [stream.source, *(stream.landing.outputs if stream.landing else ())]
        is_owned = stream.owns_source and config.lake_name(name) == lake
        protected += [landing.root for landing in landings if not (is_owned and landing.root == stream.source.root)]
        if is_owned:
            owned[stream.source.root] = Store(stream.source)
    return Roots(
        lake=_root(config.lakes[lake]),
        protected=tuple(dict.fromkeys(protected)),
        foreign=tuple(_root(other) for name, other in config.lakes.items() if name != lake and other.storage),
        owned=owned,
    )


def _root(lake: Lake) -> str:
    """Return the root of a lake's files; of a managed lake, of its staged files."""
    return (lake.storage or lake.staging_storage).root


def _would_compact(stream: OpenStream, at_least: int) -> Sequence[CompactedPartition]:
    with stream.lake.open(read_only=True) as session:
        return [CompactedPartition.of(stream, candidate) for candidate in candidates(stream, session, at_least)]


def _before(now: dt.datetime, days: float) -> dt.datetime:
    return now - dt.timedelta(days=days)

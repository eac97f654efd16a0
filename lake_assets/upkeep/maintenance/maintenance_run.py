"""Maintenance of a lake, for the command line and Dagster: expiry, clean-up, orphans, flush and compaction."""

import datetime as dt
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated

from lake_assets.base.errors import CatalogError, SpecificationError
from lake_assets.base.events import about, checkpoint, counting, step
from lake_assets.base.json_dataclasses import Documented, NotInJson, in_json
from lake_assets.config.lake import Lake, Maintenance
from lake_assets.config.models import LakeConfig
from lake_assets.ingest.run import LoadedObject, after_load, left_behind
from lake_assets.lake.catalog.corrected_bounds import repair_bounds, wrong_bounds
from lake_assets.lake.ducklake import DuckLake
from lake_assets.lake.ledger.flush import expire_ledger, flush_ledger
from lake_assets.lake.session import LakeSession, TableName, under_lock
from lake_assets.spark.spark_session import Sessions
from lake_assets.spark.task.write import leftovers
from lake_assets.storage.manifest import LandedObject
from lake_assets.storage.store import Store
from lake_assets.streams.load import chosen
from lake_assets.streams.stream import OpenStream, open_streams
from lake_assets.upkeep.maintenance.cleaning import (
    Cleaned,
    DeletedDelta,
    Roots,
    clean_deltas,
    clean_letters,
    clean_up,
    delete_orphans,
    expire_snapshots,
)
from lake_assets.upkeep.maintenance.compaction import CompactedPartition, compact, compactable

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Maintained(Documented):
    """The results of a maintenance run; of a dry run, those that a run would have."""

    lake: str
    """Its name."""
    dry_run: bool
    """Whether nothing was changed, and the rest is what would be done."""
    expired: tuple[int, ...]
    """Numbers of expired snapshots."""
    cleaned: Cleaned
    """What became of the files that were scheduled for deletion."""
    orphans: tuple[LandedObject, ...]
    """Deleted files that the catalog did not have, also staged ones of killed runs."""
    compacted: tuple[CompactedPartition, ...]
    """The partitions with many small files."""
    flushed: int
    """Rows of ledger and manifest that were moved from the catalog into files."""
    forgotten: int
    """Rows of the ledger that were old enough to delete."""
    sizes: Annotated[Mapping[str, int], NotInJson]  # bytes of the lake's files before the run, by URI
    deltas: tuple[DeletedDelta, ...] = ()
    """Deleted files of exported changes."""
    letters: tuple[LandedObject, ...] = ()
    """Deleted files of dead letters, which no commit made visible."""
    loaded: tuple[LoadedObject, ...] = ()
    """Landed objects whose rows are in the lake, and that a killed run has left, by the stream's `after_load`."""
    corrected: tuple[str, ...] = ()
    """Columns with their tables, whose least and greatest values in the catalog were not those of the files."""

    @in_json
    def bytes_deleted(self) -> int:
        """The size of the deleted files in bytes, without those in landing zones, whose sizes are unknown."""
        deleted = sum(self.sizes.get(uri, 0) for uri in self.cleaned.deleted)
        return deleted + sum(orphan.size for orphan in self.orphans)

    @property
    def left(self) -> tuple[CompactedPartition, ...]:
        """Partitions that could not be compacted."""
        return tuple(result for result in self.compacted if result.why is not None)


def maintain(config: LakeConfig, lake: str, sessions: Sessions, *, dry_run: bool = False) -> Maintained:
    """Maintain a lake by the rules of its config, or by the defaults.

    All files of the newest snapshot and of snapshots that have not expired remain. Objects in landing zones are deleted
    only if they were registered by a stream with `owns_source: true`. The config names other lakes and landing zones
    too. The result of a dry run leaves out files of snapshots that the run itself would expire.

    Spark starts only if there is a partition to compact; if it does not, all else is done. If a store fails, the next
    run continues. Raises NoLakeError if there is no lake yet, and SpecificationError if the catalog's version is
    unknown.
    """
    with about(lake=lake), step("maintain", mode="dry_run" if dry_run else None) as figures:
        maintained = _Run(config, lake, sessions, dry_run, _now()).maintained()
        files = [*maintained.cleaned.deleted, *(orphan.uri for orphan in maintained.orphans)]
        figures.update(snapshots=len(maintained.expired), files=len(files), bytes=maintained.bytes_deleted)
        figures.update(partitions=len(maintained.compacted), failed=len(maintained.left))
    return maintained


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


@dataclass(frozen=True, slots=True)
class _Run:
    """One run of `maintain`, with its arguments."""

    config: LakeConfig
    lake: str
    sessions: Sessions
    dry_run: bool
    now: dt.datetime

    def maintained(self) -> Maintained:
        config, lake, dry_run = self.config, self.lake, self.dry_run
        chosen("lake", config.lakes, lake)
        roots, rules = roots_of(config, lake), self.rules
        staged = self._delete_staged(roots)
        streams = [stream for name, stream in open_streams(config).items() if config.lake_name(name) == lake]
        if config.lakes[lake].is_managed:  # MotherDuck maintains its files
            deltas, letters = self._clean_visible(streams)
            loaded = self._take_loaded(streams)
            return Maintained(lake, dry_run, (), Cleaned(), staged, (), 0, 0, {}, deltas, letters, loaded)
        ducklake = streams[0].lake if streams else DuckLake(config.lakes[lake])
        with ducklake.open(read_only=dry_run) as session:
            if (reason := session.unknown_specification) is not None:
                # The catalog's tables decide which files are deleted.
                raise SpecificationError(
                    f"the lake {lake} is not maintained: {reason}:", "use a version of lake_assets that knows it."
                )
            expired = expire_snapshots(session, self._before(rules.expire_older_than), dry_run=dry_run)
            checkpoint()
            with counting(f"list {lake}", "files") as count:
                # Also hidden ones: a table's name may begin with `_`.
                objects = Store(config.lakes[lake].own_storage).all(listed=count.advance, hides=lambda _: False)
            cleaned = clean_up(session, roots, self._before(rules.delete_older_than), dry_run=dry_run)
            checkpoint()
            scheduled = {*cleaned.deleted, *cleaned.unreachable}
            others = [stored for stored in objects if stored.uri not in scheduled]
            orphans = delete_orphans(session, roots, others, self._before(rules.orphans_older_than), dry_run=dry_run)
            checkpoint()
            forgotten = 0
            if (days := rules.ledger_retention) is not None:
                forgotten = expire_ledger(session, self._before(days), dry_run=dry_run)
            checkpoint()
            flushed = flush_ledger(session, dry_run=dry_run)
            checkpoint()
            corrected = self._correct_bounds(session, dict.fromkeys(stream.table for stream in streams))
        checkpoint()
        deltas, letters = self._clean_visible(streams)
        checkpoint()
        loaded = self._take_loaded(streams)
        checkpoint()
        return Maintained(
            lake,
            dry_run,
            expired,
            cleaned,
            (*orphans, *staged),
            tuple(self._compacted(streams)),
            flushed,
            forgotten,
            {stored.uri: stored.size for stored in objects},
            deltas,
            letters,
            loaded,
            corrected,
        )

    @property
    def rules(self) -> Maintenance:
        """The rules of the lake's config, or the defaults."""
        return self.config.lakes[self.lake].maintenance or Maintenance()

    def _before(self, days: float) -> dt.datetime:
        return self.now - dt.timedelta(days=days)

    def _correct_bounds(self, session: LakeSession, tables: Iterable[TableName]) -> tuple[str, ...]:
        """Correct the bounds of columns that answer wrong; returns their names with the tables'."""
        corrected: list[str] = []
        for table in tables:
            if not session.exists(table):
                continue
            work = partial(wrong_bounds if self.dry_run else repair_bounds, session, table)
            subject = f"the least and greatest values of {table}"
            try:
                names = work() if self.dry_run else under_lock(session, work, subject)
            except CatalogError as error:
                # A file may be gone, which `check` says. The other tables and steps do not need it.
                _LOG.warning("The least and greatest values of the columns of %s are not corrected: %s", table, error)
            else:
                corrected += (f"{table}: {name}" for name in names.values())
        return tuple(corrected)

    def _take_loaded(self, streams: Sequence[OpenStream]) -> tuple[LoadedObject, ...]:
        """Do what `after_load` says with the landed objects that their runs have left."""
        taken: list[LoadedObject] = []
        for stream in streams:
            left = left_behind(stream, self.now)
            taken += (LoadedObject(obj.uri, "") for obj in left) if self.dry_run else after_load(stream, left)
        return tuple(taken)

    def _clean_visible(
        self, streams: Sequence[OpenStream]
    ) -> tuple[tuple[DeletedDelta, ...], tuple[LandedObject, ...]]:
        """Delete exported files that are too old, and exported files and dead letters that no commit made visible."""
        deltas: list[DeletedDelta] = []
        letters: list[LandedObject] = []
        days = self.rules.delta_retention
        expired = None if days is None else self._before(days)
        orphans = self._before(self.rules.orphans_older_than)
        for stream in streams:
            if stream.export is not None or stream.letters is not None:
                checkpoint()
                with stream.lake.open(read_only=self.dry_run) as session:
                    deltas += clean_deltas(session, stream, expired, orphans, dry_run=self.dry_run)
                    letters += clean_letters(session, stream, orphans, dry_run=self.dry_run)
        return tuple(deltas), tuple(letters)

    def _delete_staged(self, roots: Roots) -> tuple[LandedObject, ...]:
        """Delete old staged files, which killed runs left and nobody can read."""
        lake = self.config.lakes[self.lake]
        if not lake.inserts_only:
            return ()
        old = leftovers(lake.staging_storage, self._before(self.rules.orphans_older_than))
        staged = tuple(file for file in old if not roots.is_protected(file.uri))
        if not self.dry_run:
            Store(lake.staging_storage).delete(tuple(file.key for file in staged))
        return staged

    def _compacted(self, streams: Sequence[OpenStream]) -> Iterator[CompactedPartition]:
        """Compact partitions of small files, if the rules say so; in a dry run, yield those that would be."""
        if (at_least := self.rules.compact) is None:
            return
        for stream in streams:
            if self.dry_run:
                with stream.lake.open(read_only=True) as session:
                    partitions = compactable(stream, session, at_least)
                yield from (CompactedPartition.of(stream, candidate) for candidate in partitions)
            else:
                yield from compact(stream, at_least, self.sessions)


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

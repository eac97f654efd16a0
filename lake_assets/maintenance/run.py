"""Maintenance of a lake: snapshots expire, files that nobody needs are deleted, partitions are compacted.

Called by the command line and by Dagster alike.
"""

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from lake_assets.config.maintenance import Maintenance
from lake_assets.config.models import Lake, LakeConfig
from lake_assets.errors import ConfigError, SpecificationError
from lake_assets.ingest.replace.staging import leftovers
from lake_assets.lake.ledger.flush import flush_ledger
from lake_assets.lake.session import DuckLake
from lake_assets.maintenance.cleaning import Cleaned, Roots, clean_up, delete_orphans, expire_snapshots
from lake_assets.maintenance.compaction import Compacted, candidates, compact
from lake_assets.spark.session import Sessions
from lake_assets.storage.store import LandedObject, Store
from lake_assets.streams.stream import OpenStream, open_streams


@dataclass(frozen=True, slots=True)
class Maintained:
    """What was done, or in a dry run would be."""

    lake: str
    expired: tuple[int, ...]  # snapshots
    cleaned: Cleaned
    orphans: tuple[LandedObject, ...]  # and staged files that runs left which were killed
    compacted: tuple[Compacted, ...]
    flushed: int  # rows of ledger and manifest that went from the catalog into files
    sizes: Mapping[str, int]  # bytes of the lake's files before, by URI

    @property
    def bytes_deleted(self) -> int:
        """Bytes of the files that were deleted, as far as they are known: not those of landing zones."""
        return sum(self.sizes.get(uri, 0) for uri in self.cleaned.deleted) + sum(o.size for o in self.orphans)

    @property
    def left(self) -> tuple[Compacted, ...]:
        """Partitions that could not be compacted."""
        return tuple(one for one in self.compacted if one.why is not None)


def maintain(
    config: LakeConfig,
    lake: str,
    sessions: Sessions,
    *,
    dry_run: bool = False,
    now: dt.datetime | None = None,
    checkpoint: Callable[[], None] = lambda: None,
) -> Maintained:
    """Tidy up a lake by the rules of its config; where it has none, by the defaults.

    Whatever happens, the newest snapshot stays whole, older ones until they have expired, and objects of landing zones
    are not deleted, but those that were registered where the stream says `owns_source: true`.

    Args:
        config: the whole config: what belongs to other lakes and landing zones is told from it.
        lake: the lake's name.
        sessions: gives the Spark session; called only where there is something to compact.
        dry_run: change nothing, and say what would be done. Files whose snapshots a run itself lets expire are
            not among those that it would delete.
        now: the moment from which ages are counted, with a time zone; the present when None.
        checkpoint: called between steps; what it raises ends the run.

    Raises:
        NoLakeError: there is no lake yet.
        SpecificationError: the catalog is of a version of DuckLake's specification that is not known here.
        StorageError: a store is unreachable or refuses; what was done is done, and the next run does the rest.
        CatalogError: the catalog is unreachable or refuses.
        SparkUnavailableError: something is to be compacted, and Spark does not start; all else is done.
    """
    if lake not in config.lakes:
        raise ConfigError(f"there is no lake {lake!r}:", f"the config has {', '.join(config.lakes)}.")
    rules = config.lakes[lake].maintenance or Maintenance()
    now = now or dt.datetime.now(dt.UTC)
    roots = roots_of(config, lake)
    staged = _delete_staged(config.lakes[lake], roots, _before(now, rules.orphans_older_than), dry_run=dry_run)
    if config.lakes[lake].is_managed:
        return Maintained(lake, (), Cleaned(), staged, (), 0, {})  # MotherDuck keeps its files itself
    streams = [stream for name, stream in open_streams(config).items() if config.lake_name(name) == lake]
    ducklake = streams[0].lake if streams else DuckLake(config.lakes[lake])
    with ducklake.open(read_only=dry_run) as session:
        if (why := session.unknown_specification) is not None:
            # Files are deleted by what the catalog's tables say.
            raise SpecificationError(
                f"the lake {lake} is not maintained, for {why}:", "use a version of lake_assets that knows it."
            )
        expired = expire_snapshots(session, _before(now, rules.expire_older_than), dry_run=dry_run)
        checkpoint()
        objects = Store(config.lakes[lake].own_storage).list(files="*.parquet")
        cleaned = clean_up(session, roots, _before(now, rules.delete_older_than), dry_run=dry_run)
        checkpoint()
        waited = {*cleaned.deleted, *cleaned.unreachable}
        others = [o for o in objects if o.uri not in waited]
        orphans = delete_orphans(session, roots, others, _before(now, rules.orphans_older_than), dry_run=dry_run)
        checkpoint()
        flushed = flush_ledger(session, dry_run=dry_run)
    checkpoint()
    compacted: list[Compacted] = []
    for stream in streams if rules.compact is not None else ():
        assert rules.compact is not None  # noqa: S101 - by the line above
        if dry_run:
            compacted += _would_compact(stream, rules.compact)
        else:
            compacted += compact(stream, rules.compact, sessions, checkpoint=checkpoint)
    sizes = {o.uri: o.size for o in objects}
    return Maintained(lake, expired, cleaned, (*orphans, *staged), tuple(compacted), flushed, sizes)


def _delete_staged(lake: Lake, roots: Roots, before: dt.datetime, *, dry_run: bool) -> tuple[LandedObject, ...]:
    """Delete the staged files of before that time: those of runs that were killed, which nobody can read any more."""
    if not lake.inserts_only:
        return ()
    left = tuple(o for o in leftovers(lake.staging_storage, before) if not roots.is_protected(o.uri))
    if not dry_run:
        Store(lake.staging_storage).delete(tuple(o.key for o in left))
    return left


def roots_of(config: LakeConfig, lake: str) -> Roots:
    """Whose a file is, as the config says it: the one place that decides what maintenance may delete.

    Every stream's source is a landing zone, and so is every place that `lake-assets land` writes to. They are their
    writers', whatever the stream's mode is or was, unless the stream says `owns_source: true`.
    """
    protected: list[str] = []
    owned: dict[str, Store] = {}
    for name, stream in config.streams.items():
        landings = [stream.source, *(stream.landing.outputs if stream.landing else ())]
        is_owned = stream.owns_source and config.lake_name(name) == lake
        protected += [place.root for place in landings if not (is_owned and place.root == stream.source.root)]
        if is_owned:
            owned[stream.source.root] = Store(stream.source)
    return Roots(
        lake=_root(config.lakes[lake]),
        protected=tuple(dict.fromkeys(protected)),
        foreign=tuple(_root(other) for name, other in config.lakes.items() if name != lake and other.storage),
        owned=owned,
    )


def _root(lake: Lake) -> str:
    """Where a lake's files are; of a managed one, where they are staged."""
    return (lake.storage or lake.staging_storage).root


def _would_compact(stream: OpenStream, at_least: int) -> Sequence[Compacted]:
    with stream.lake.open(read_only=True) as session:
        return [
            Compacted(stream.name, one.partition, len(one.files), one.size)
            for one in candidates(stream, session, at_least)
        ]


def _before(now: dt.datetime, days: float) -> dt.datetime:
    return now - dt.timedelta(days=days)

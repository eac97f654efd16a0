"""Queries of the manifests: the landed objects that runs have noted, and the files of rows that they left out.

Every function raises CatalogError if the manifest or the ledger cannot be read.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Any

from lake_assets.base.json_dataclasses import Documented, NotInJson
from lake_assets.lake.catalog.catalog_database import CatalogDatabase
from lake_assets.lake.catalog.table import named_since
from lake_assets.lake.ledger.ledger_relation import (
    ADDED,
    LedgerScope,
    Relation,
    WantedRows,
    query,
    relation,
    wanted_rows,
)
from lake_assets.lake.ledger.tables import COMPACT, LEDGER, LETTERS, MANIFEST, LedgerRow
from lake_assets.lake.session import LakeSession
from lake_assets.spark.task.job import LetterFile
from lake_assets.storage.manifest import LandedObject, Manifest, version_of


@dataclass(frozen=True, slots=True)
class KnownObject(Documented):
    """An object at the last run that noted it."""

    uri: str
    """Its path or URI."""
    load_partition: str
    """Its partition as a path, such as `region=NW/date=2026-02-11`."""
    etag: str
    """That it had."""
    size: int
    """Its size in bytes."""
    reason: str | None = None
    """Why it was left out; null if it was read or registered."""
    run_id: str = ""
    """The run that noted it."""
    rows: int | None = None
    """Its rows; null if they are unknown."""
    key: str = ""
    """Its path below the source; its URI if only an older version has noted it."""
    digest: Annotated[str | None, NotInJson] = None  # of its content; None: unknown
    after_load: Annotated[str | None, NotInJson] = None  # what takes it out of the landing zone; None: nothing

    @property
    def has_ended(self) -> bool:
        """Whether a repair removed it from the table, because it had vanished."""
        return not self.etag and not self.size

    def is_now(self, landed: LandedObject) -> bool:
        """Return whether an object is surely this one, by its version or a digest, without a look at its content."""
        is_version = (version_of(self.uri, self.etag), self.size) == (landed.version, landed.size)
        return is_version or (bool(self.digest) and self.digest == landed.digest)


_KNOWN = f"struct_pack({', '.join(field.name for field in fields(KnownObject))})"
# An object that an older version has noted has no key, unless a later run has noted it too.
_KEY = "coalesce(key, max(key) OVER (PARTITION BY uri), uri) AS key"


def known_objects(session: LakeSession, scope: LedgerScope) -> dict[str, KnownObject]:
    """Return the objects of the newest commits of a stream, by key.

    Left out are objects of another table, also a dropped one of the same name, objects that a run left out, and objects
    that a later replacement of the partition did not read. Objects that a repair removed are included, because their
    path must not be registered again.
    """
    rows = _noted(
        session,
        scope.noted,
        scope.noted,
        f"SELECT arg_max({_KNOWN}, number) FROM noted WHERE reason IS NULL "  # noqa: S608
        # If the ledger was emptied, an object counts as known.
        "AND coalesce(snapshot_id >= greatest(replaced, ?) AND destination_table = ?, TRUE) GROUP BY key",
        [named_since(session, scope.table), str(scope.table)],
    )
    return {values["key"]: KnownObject(**values) for (values,) in rows}


def partition_objects(
    session: LakeSession, scope: LedgerScope, database: CatalogDatabase | None = None
) -> dict[str, dict[str, KnownObject]]:
    """Return the objects that rows of some partitions were made of: of the newest replacement, and all added since.

    They are by partition, in the path's form, and by key. Objects that these commits left out are included, with the
    reason, unless one of them read the object. Objects of another table are not, also of a dropped one of the same
    name. An object with rows of several partitions is known to each by itself.

    They are read in the open transaction, or in one of its own when None. Raises NotDirectError if only DuckLake can
    read the rows, and that is outside of the given transaction.
    """
    rows = _noted(
        session,
        scope.noted,
        scope.noted,
        f"SELECT arg_max({_KNOWN}, number) FILTER (reason IS NULL), arg_max({_KNOWN}, number), max(after_load) "  # noqa: S608
        # If the ledger was emptied, an object counts as known.
        "FROM noted WHERE coalesce(noted_at >= greatest(replaced, ?) AND destination_table = ?, TRUE) "
        "GROUP BY key, load_partition",
        [named_since(session, scope.table, database), str(scope.table)],
        replacing=["replace"],
        database=database,
    )
    known: dict[str, dict[str, KnownObject]] = {}
    for read, newest, after_load in rows:
        # A restore notes earlier objects again, but rows that were added once are not added again.
        obj = KnownObject(**{**(read or newest), "after_load": after_load})
        known.setdefault(obj.load_partition, {})[obj.key] = obj
    return known


def registered_objects(session: LakeSession, uris: Sequence[str]) -> dict[str, KnownObject]:
    """Return the objects last registered under these URIs, by an index or a repair of any stream.

    Left out are URIs without a row in the manifest or whose run has no row in the ledger, and URIs whose partition was
    replaced later, because that partition's rows are not those of the registration.
    """
    ledger, manifest = LEDGER.name(session.config), MANIFEST.name(session.config)
    if not uris or not (session.exists(ledger) and session.exists(manifest)):
        return {}
    of_uris = {"uri": list(uris)}
    named = wanted_rows(session, WantedRows(MANIFEST, ["load_partition"], of_uris, distinct=True))
    partitions = [path for (path,) in named]
    rows = _noted(
        session,
        {"load_partition": partitions},
        of_uris,
        f"SELECT uri, arg_max({_KNOWN}, number) FROM noted WHERE registers GROUP BY uri "  # noqa: S608
        "HAVING coalesce(max(snapshot_id) > max(replaced), TRUE)",
    )
    return {uri: KnownObject(**values) for uri, values in rows}


def quarantined_objects(session: LakeSession, scope: LedgerScope, *, adds: bool = False) -> dict[str, dict[str, str]]:
    """Return why the newest commit of each partition left objects out, by the partition and the object's key.

    A partition whose newest commit read all objects is not in the result. With `adds`, several commits make up a
    partition, as in mode append: the result has the objects that none of them has read. They may have vanished since.
    """
    if not (session.exists(LEDGER.name(session.config)) and session.exists(MANIFEST.name(session.config))):
        return {}
    if adds:
        known = partition_objects(session, scope)
        reasons = {path: {o.key: o.reason for o in left_out.values() if o.reason} for path, left_out in known.items()}
        return {path: dict(sorted(left_out.items())) for path, left_out in sorted(reasons.items()) if left_out}
    rows = _noted(
        session,
        scope.noted,
        scope.noted,
        ", newest AS (SELECT load_partition, arg_max(run_id, snapshot_id) AS run_id FROM commits "
        "WHERE mode <> ? AND snapshot_id >= ? AND destination_table = ? GROUP BY ALL) "
        "SELECT load_partition, key, arg_max_null(reason, number) AS reason FROM noted "
        "JOIN newest USING (run_id, load_partition) GROUP BY ALL HAVING reason IS NOT NULL ORDER BY ALL",
        [COMPACT, named_since(session, scope.table), str(scope.table)],
    )
    result: dict[str, dict[str, str]] = {}
    for load_partition, key, reason in rows:
        result.setdefault(load_partition, {})[key] = reason
    return result


def objects_at(session: LakeSession, scope: LedgerScope, rows: Sequence[LedgerRow], snapshot: int) -> Manifest:
    """Return the landed objects of which a partition's rows in a snapshot were made, and those left out, by key.

    `rows` are the commits of the partition.
    """
    before = [row for row in rows if row.snapshot_id is not None and row.snapshot_id <= snapshot]
    if not before or not session.exists(MANIFEST.name(session.config)):
        return Manifest(())
    # A replacement and a restore note all objects of their rows; other commits note those that they add.
    first = max((row.snapshot for row in before if row.mode in ("replace", "restore")), default=0)
    runs = {row.run_id for row in before if row.snapshot >= first}
    among = {**scope.noted, "run_id": sorted(runs)}
    rows_of_manifest = relation(session, WantedRows(MANIFEST, (*MANIFEST.columns, ADDED), among))
    noted = query(
        session,
        # A run can be repeated under its id: each object has a row of each time.
        "SELECT arg_max(struct_pack(uri, key, etag, size, last_modified, digest), number), "  # noqa: S608
        f"arg_max_null(reason, number) FROM (SELECT * REPLACE ({_KEY}), row_number() OVER "
        f"(ORDER BY {ADDED} NULLS FIRST, last_modified NULLS LAST) AS number FROM {rows_of_manifest} "
        f"WHERE coalesce({ADDED} BETWEEN ? AND ?, TRUE)) GROUP BY key ORDER BY key",
        [*rows_of_manifest.parameters, first, snapshot],
        [rows_of_manifest],
    )
    objects, left_out = list[LandedObject](), dict[str, str]()
    for values, reason in noted:
        landed = LandedObject(**{**values, "digest": values["digest"] or ""})
        if landed.etag or landed.size:  # else a repair removed it from the table
            objects.append(landed)
            if reason is not None:
                left_out[landed.key] = reason
    return Manifest(tuple(objects), left_out)


def dead_letters(session: LakeSession, scope: LedgerScope, at: int | None = None) -> dict[str, list[LetterFile]]:
    """Return the files of rows that the lake does not have now, or at a snapshot, by partition, sorted by their URIs.

    They are those of each partition's newest replacement, and of all additions since. A partition without any is not in
    the result. Commits of a dropped table of the same name are ignored.
    """
    letters = LETTERS.name(session.config)
    if not (session.exists(LEDGER.name(session.config)) and session.exists(letters)):
        return {}
    commits = _commits(session, scope.noted)
    noted = relation(session, WantedRows(LETTERS, tuple(LETTERS.columns), scope.noted))
    at, table = _NEWEST if at is None else at, str(scope.table)
    rows = query(
        session,
        f"WITH commits AS (FROM {commits}), latest AS (SELECT load_partition, max(snapshot_id) AS replaced "  # noqa: S608
        "FROM commits WHERE mode IN ('replace', 'restore') AND snapshot_id <= ? AND destination_table = ? "
        "GROUP BY ALL) SELECT load_partition, object, uri, rows, size, reason "
        f"FROM {noted} LEFT JOIN latest USING (load_partition) WHERE snapshot_id <= ? "
        "AND snapshot_id >= greatest(replaced, ?) AND snapshot_id NOT IN "
        "(SELECT snapshot_id FROM commits WHERE destination_table <> ?) ORDER BY load_partition, uri",
        [*commits.parameters, at, table, *noted.parameters, at, named_since(session, scope.table), table],
        [commits, noted],
    )
    result: dict[str, list[LetterFile]] = {}
    for path, *letter in rows:
        result.setdefault(path, []).append(LetterFile(*letter))
    return result


_NEWEST = 2**62  # a snapshot after all others


def _commits(
    session: LakeSession, among: Mapping[str, Sequence[str]], database: CatalogDatabase | None = None
) -> Relation:
    columns = ("run_id", "stream", "destination_table", "load_partition", "mode", "snapshot_id")
    return relation(session, WantedRows(LEDGER, columns, {"status": ["committed"], **among}), database)


def _noted(
    session: LakeSession,
    of_ledger: Mapping[str, Sequence[str]],
    of_manifest: Mapping[str, Sequence[str]],
    tail: str,
    parameters: Sequence[object] = (),
    *,
    replacing: Sequence[str] = ("replace", "restore"),
    database: CatalogDatabase | None = None,
) -> list[tuple[Any, ...]]:
    """Return the rows of a query (`tail`) of `noted`: the objects of the manifest, each with its run's commit.

    Its `replaced` is the snapshot of the newest commit of a mode in `replacing` to the same partition and table. Its
    `number` is the order in which objects were noted: by the snapshots of their rows, or else of the runs; then by the
    objects' own times, because a run can be repeated under its id. An object that has ended has no time, and is the
    last.
    """
    commits = _commits(session, of_ledger, database)
    objects = relation(session, WantedRows(MANIFEST, (*MANIFEST.columns, ADDED), of_manifest), database)
    key, of_table = "run_id, stream, load_partition", "destination_table, load_partition"
    return query(
        session,
        f"WITH commits AS (FROM {commits}), runs AS (SELECT {key}, destination_table, max(snapshot_id) AS snapshot_id, "  # noqa: S608
        "bool_or(mode IN ('index', 'repair')) AS registers, "
        "max(snapshot_id) FILTER (list_contains(?, mode)) AS replaces FROM commits GROUP BY ALL), "
        f"latest AS (SELECT {of_table}, max(replaces) AS replaced FROM runs GROUP BY ALL), "
        f"noted AS (SELECT * REPLACE ({_KEY}), coalesce({ADDED}, snapshot_id) AS noted_at, "
        f"row_number() OVER (ORDER BY coalesce({ADDED}, snapshot_id) NULLS FIRST, last_modified NULLS LAST) AS number "
        f"FROM {objects} LEFT JOIN runs USING ({key}) LEFT JOIN latest USING ({of_table})) {tail}",
        [*commits.parameters, list(replacing), *objects.parameters, *parameters],
        [commits, objects],
    )

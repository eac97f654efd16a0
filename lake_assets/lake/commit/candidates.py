"""Inspection of landed files before they are registered: footers, fit to the table, facts for the catalog."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field

import duckdb

from lake_assets.base.duckdb_engine import glob_literal, without_cache
from lake_assets.base.errors import (
    CatalogError,
    LakeAssetsError,
    SchemaError,
    SourceChangedError,
    SourceError,
    StorageError,
    StorageUnreachableError,
)
from lake_assets.base.texts import visible_name
from lake_assets.config.layout.partition import Partition
from lake_assets.config.secrets import mask_error
from lake_assets.lake.catalog.catalog_database import NotDirectError
from lake_assets.lake.catalog.described import describe
from lake_assets.lake.catalog.file_facts import FileFacts, Footer, file_facts, open_footers, with_parts
from lake_assets.lake.catalog.table import Partitioning, Table
from lake_assets.lake.commit.change import LandedFile
from lake_assets.lake.failures import one_line, storage_failure, without_statement
from lake_assets.lake.file_checker import ColumnPlaces, FileChecker, not_held_in
from lake_assets.lake.session import LakeSession, TableName
from lake_assets.storage.manifest import LandedObject
from lake_assets.storage.server_answers import Meaning, meaning_of
from lake_assets.storage.storage_errors import changed_object

# Footers in one statement. Those of a store are mostly latency, so that many statements run in parallel; those of a
# local folder are mostly work, and each statement has a cost.
_AT_ONCE, _AT_ONCE_LOCAL = 50, 500
_THREADS = 8

Candidate = tuple[LandedObject, Partition]
_Fitting = tuple[LandedObject, Partition, Footer, ColumnPlaces]


@dataclass
class Inspection:
    """The result of an inspection of landed files."""

    described: Table | None = None  # the table that the facts are about; None: there are no facts
    files: list[LandedFile] = field(default_factory=list)
    errors: dict[str, LakeAssetsError] = field(default_factory=dict)  # of files that cannot be registered, by URI


def inspect_candidates(
    table: TableName | None, checker: FileChecker, candidates: Sequence[Candidate], probe: Callable[[], object]
) -> Inspection:
    """Inspect landed files, each with its partition, that are to be registered for the table.

    The engine of the checker's session has the secret of the landing zone. The table has the checker's columns; None:
    it will have them, and there are no facts yet. `probe` is called when a file cannot be read; it raises StorageError
    if the whole landing zone cannot be read.
    """
    inspection, session = Inspection(), checker.session
    without_cache(session.engine)
    footers = _footers(session, [landed for landed, _ in candidates], inspection, probe)
    fitting: list[_Fitting] = []
    for landed, partition in candidates:
        if (footer := footers.get(landed.uri)) is None:
            error = inspection.errors[landed.uri]
            # A storage that did not give DuckDB the file would not give it to Arrow either, after all retries.
            columns = None if isinstance(error, StorageError | SchemaError) else checker.columns(landed)
            if columns:
                inspection.errors[landed.uri] = _beyond_duckdb(error)
            if columns is None or columns:
                continue
            del inspection.errors[landed.uri]  # a file without columns is one without rows
            footer = Footer(landed.uri, 0, landed.size, 0, 0, {})
        try:
            _refuse_unfinished(landed, footer)
            fitting.append((landed, partition, footer, checker.check(landed, partition, footer)))
        except LakeAssetsError as error:
            inspection.errors[landed.uri] = error
    facts: dict[str, FileFacts] = {}
    if table is not None:
        with suppress(NotDirectError):
            session.descriptions.clear()  # they may be out of date
            description = describe(session, [table])
            inspection.described = described = description.tables[table]
            facts = _facts(session, inspection, described, description.partitionings[table], fitting)
        inspection.errors |= {
            landed.uri: _untyped(landed, view.untyped)
            for landed, _, footer, view in fitting
            if view.untyped is not None and landed.uri not in facts and footer.rows
        }
    inspection.files = [
        LandedFile(landed, partition, footer.rows, view.inside, facts.get(landed.uri), view.folders)
        for landed, partition, footer, view in fitting
        if landed.uri not in inspection.errors
    ]
    return inspection


def _untyped(landed: LandedObject, name: str) -> SchemaError:
    return SchemaError(
        f"column {name!r} of the object {landed.shown} has no value, so no type, and DuckLake's extension, which alone "
        "can change this table, does not register it:",
        "land it with the table's type, or use mode: replace.",
    )


def _refuse_unfinished(landed: LandedObject, footer: Footer) -> None:
    if footer.size != landed.size:
        raise SourceChangedError(
            f"the object {landed.shown} changed while it was being registered, from {landed.size} bytes to "
            f"{footer.size}:",
            "run it again when its writer has finished.",
        )


def _facts(
    session: LakeSession, inspection: Inspection, table: Table, partitioning: Partitioning, fitting: Sequence[_Fitting]
) -> dict[str, FileFacts]:
    """Return the facts of all files that the direct strategy supports, by URI; without them a file becomes an error."""
    result: dict[str, FileFacts] = {}
    for inside in {view.inside for *_, view in fitting}:
        leaves = partitioning.stored_leaves(table, inside)
        footers = [
            filled
            for *_, footer, view in fitting
            if view.inside == inside and footer.rows
            if not (filled := with_parts(footer, table)).column_difference(leaves, view.ignored)
        ]
        try:
            facts = file_facts(lambda: session.engine, footers, leaves, table.columns)
        except duckdb.Error:
            facts = []
            for footer in footers:
                try:
                    facts += file_facts(lambda: session.engine, [footer], leaves, table.columns)
                except duckdb.Error as error:
                    inspection.errors[footer.uri] = _refusal(session, footer.uri, error, _without_bounds)
        result |= {of_file.uri: of_file for of_file in facts}
    return result


def _footers(
    session: LakeSession, objects: Sequence[LandedObject], inspection: Inspection, probe: Callable[[], object]
) -> dict[str, Footer]:
    """Return the footers by URI; a file that cannot be read becomes an error of the inspection."""
    uris = [landed.uri for landed in objects if landed.size]
    inspection.errors |= {
        landed.uri: _damaged(landed.uri, "it is empty (0 bytes)") for landed in objects if not landed.size
    }
    size = _AT_ONCE if any("://" in uri for uri in uris[:1]) else _AT_ONCE_LOCAL
    chunks = [uris[start : start + size] for start in range(0, len(uris), size)]
    by_uri: dict[str, Footer] = {}
    with ThreadPoolExecutor(_THREADS) as pool:
        for footers, errors in pool.map(lambda chunk: _read(session, chunk, probe), chunks):
            by_uri |= {footer.uri: footer for footer in footers}
            inspection.errors |= errors
            if errors:
                probe()
    return by_uri


def _read(
    session: LakeSession, uris: Sequence[str], probe: Callable[[], object], *, once: bool = True
) -> tuple[list[Footer], dict[str, LakeAssetsError]]:
    """Return the footers of these files, and the errors of those that cannot be read, unless `probe` raises."""
    try:
        with session.engine.cursor() as cursor:
            cursor.execute("SET TimeZone = 'UTC'")
            if once and uris[0].startswith(("s3://", "gs://")):
                cursor.execute("SET http_retries = 0")  # DuckDB would repeat what is refused
            return open_footers(cursor, uris), {}
    except duckdb.Error as error:
        if isinstance(storage_failure(error, session.config.indexed), StorageUnreachableError):
            if once:
                return _read(session, uris, probe, once=False)
            probe()  # each of the others would take as long to fail
        if len(uris) > 1:
            half = len(uris) // 2
            (footers, errors), (others, other) = (_read(session, part, probe) for part in (uris[:half], uris[half:]))
            return footers + others, errors | other
        return [], {uris[0]: _refusal(session, uris[0], error, _damaged)}


def _refusal(
    session: LakeSession, uri: str, error: duckdb.Error, otherwise: Callable[[str, str], LakeAssetsError]
) -> LakeAssetsError:
    """Return the error of an object that DuckDB cannot read; `otherwise` makes it if the storage is not the cause."""
    mask_error(error, *session.config.indexed)
    if isinstance(error, duckdb.HTTPException) and meaning_of(error) is Meaning.NOT_FOUND:
        return changed_object(uri, "vanished")
    if refused := storage_failure(error, session.config.indexed) or _not_held(session, uri, error):
        return refused
    return otherwise(uri, one_line(without_statement(error), 500))


def _not_held(session: LakeSession, uri: str, error: duckdb.Error) -> SchemaError | None:
    """Return the error for the first column with a value that DuckDB cannot hold; None if the error is another one."""
    if not isinstance(error, duckdb.ConversionException | duckdb.InvalidInputException):
        return None
    with session.engine.cursor() as cursor, suppress(duckdb.Error, CatalogError):
        sql = "SELECT * FROM read_parquet(?, hive_partitioning = false) LIMIT 0"
        names = [name for name, *_ in cursor.execute(sql, [glob_literal(uri)]).description]
        return next(filter(None, (not_held_in(session, uri, name) for name in names)), None)
    return None


def _without_bounds(uri: str, why: str) -> SourceError:
    return SourceError(
        f"the least and greatest values of the object {visible_name(uri)} are not known, and cannot be read: {why}:",
        "use mode: replace, or let its writer land it again.",
    )


def _beyond_duckdb(error: LakeAssetsError) -> SourceError:
    problem = f"DuckDB does not read what the lake would have as its file: {error.problem}"
    return SourceError(problem, "use mode: replace, which reads it by Arrow.")


def _damaged(uri: str, why: str) -> SourceError:
    return SourceError(
        f"the object {visible_name(uri)} cannot be read as Parquet: {why}:",
        "remove it, or let its writer land it again.",
    )

"""Inspection of landed files before they are registered: footers, fit to the table, facts for the catalog."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field

import duckdb

from lake_assets.config.secrets import mask_error
from lake_assets.errors import (
    LakeAssetsError,
    ObjectRefusedError,
    SourceChangedError,
    SourceError,
    StorageUnreachableError,
)
from lake_assets.lake.catalog.database import NotDirectError
from lake_assets.lake.catalog.footers import FileFacts, Footer, file_facts, open_footers
from lake_assets.lake.catalog.table import Partitioning, Table
from lake_assets.lake.commit.direct.register import describe
from lake_assets.lake.commit.registration import LandedFile
from lake_assets.lake.schema.fitting import Fitting, Keys, SchemaOf, View
from lake_assets.lake.schema.tables import data_schema
from lake_assets.lake.session import LakeSession, TableName, is_refusal, storage_failed, translated
from lake_assets.layout.partition import Partition
from lake_assets.storage.failures import refused_object
from lake_assets.storage.store import LandedObject

# Footers in one statement: those of a store are waited for, so that more statements run side by side; those of a folder
# are work, and a statement costs some too.
_AT_ONCE, _AT_ONCE_LOCAL = 50, 500
_SIDE_BY_SIDE = 8  # statements

Candidate = tuple[LandedObject, Partition]
_Seen = tuple[LandedObject, Partition, Footer, View]


@dataclass
class Inspection:
    """What an inspection of landed files found."""

    described: Table | None = None  # the table that the facts are about; None: there are none
    files: list[LandedFile] = field(default_factory=list)
    errors: dict[str, LakeAssetsError] = field(default_factory=dict)  # by URI: of those that cannot be registered


def inspect_candidates(
    session: LakeSession,
    table: TableName,
    keys: Keys,
    candidates: Sequence[Candidate],
    schema_of: SchemaOf,
    probe: Callable[[], object],
) -> Inspection:
    """Inspect landed files that are to be registered for the table.

    Args:
        session: an open lake, whose engine has the secret of the landing zone.
        table: it exists.
        keys: the partition columns.
        candidates: objects, each with its partition.
        schema_of: asked once for all files of a shape.
        probe: asked when a file cannot be read; raises StorageError if the whole landing zone cannot.

    Raises:
        SchemaError: the table is none that files can be registered for.
        StorageError: the landing zone cannot be reached.
        CatalogError: the catalog cannot be read.
    """
    inspection = Inspection()
    fitting = Fitting(session, keys, data_schema(session, table, keys.columns), schema_of)
    footers = _footers(session, [o for o, _ in candidates], inspection, probe)
    seen: list[_Seen] = []
    for o, partition in candidates:
        if (footer := footers.get(o.uri)) is None:
            continue
        try:
            _refuse_unfinished(o, footer)
            seen.append((o, partition, footer, fitting.view(o, partition, footer)))
        except LakeAssetsError as error:
            inspection.errors[o.uri] = error
    facts: dict[str, FileFacts] = {}
    with suppress(NotDirectError):
        inspection.described, partitioning = describe(session, table)
        facts = _facts(session, inspection.described, partitioning, seen)
    inspection.files = [
        LandedFile(o, p, footer.rows, view.inside, facts.get(o.uri), view.folders) for o, p, footer, view in seen
    ]
    return inspection


def _refuse_unfinished(o: LandedObject, footer: Footer) -> None:
    if footer.size != o.size:
        raise SourceChangedError(
            f"the object {o.uri} changed while it was being registered, from {o.size} bytes to {footer.size}:",
            "run it again when its writer has finished.",
        )


def _facts(
    session: LakeSession, table: Table, partitioning: Partitioning, seen: Sequence[_Seen]
) -> dict[str, FileFacts]:
    """The facts of all files that the direct strategy can take, by URI."""
    found: dict[str, FileFacts] = {}
    for inside in {view.inside for *_, view in seen}:
        by_path = {c.column_id for c in partitioning.columns if c.name.lower() not in inside}
        leaves = {path: column for path, column in table.leaves.items() if column.column_id not in by_path}
        footers = [
            footer
            for *_, footer, view in seen
            if view.inside == inside and footer.rows and not footer.oddity(leaves, view.ignored)
        ]
        with translated(session.config):
            found |= {facts.uri: facts for facts in file_facts(session.connection, footers, leaves)}
    return found


def _footers(
    session: LakeSession, objects: Sequence[LandedObject], inspection: Inspection, probe: Callable[[], object]
) -> dict[str, Footer]:
    """The footers by URI; what cannot be read becomes an error of the inspection."""
    uris = [o.uri for o in objects if o.size]
    inspection.errors |= {o.uri: _damaged(o.uri, "it is empty (0 bytes)") for o in objects if not o.size}
    size = _AT_ONCE if any("://" in uri for uri in uris[:1]) else _AT_ONCE_LOCAL
    chunks = [uris[start : start + size] for start in range(0, len(uris), size)]
    found: dict[str, Footer] = {}
    with ThreadPoolExecutor(_SIDE_BY_SIDE) as pool:
        for footers, errors in pool.map(lambda chunk: _read(session, chunk, probe), chunks):
            found |= {footer.uri: footer for footer in footers}
            inspection.errors |= errors
            if errors:
                probe()
    return found


def _read(
    session: LakeSession, uris: Sequence[str], probe: Callable[[], object]
) -> tuple[list[Footer], dict[str, LakeAssetsError]]:
    """The footers of these files; if one cannot be read, the others are still, unless `probe` says that none can."""
    try:
        with session.connection.cursor() as cursor:
            cursor.execute("SET TimeZone = 'UTC'")
            return open_footers(cursor, uris), {}
    except duckdb.Error as error:
        if storage_failed(error):
            probe()  # each of the others would be waited for as long
        if len(uris) > 1:
            half = len(uris) // 2
            (footers, errors), (more, other) = (_read(session, some, probe) for some in (uris[:half], uris[half:]))
            return footers + more, errors | other
        mask_error(error, *session.config.indexed)
        if refused := _refused(session, uris[0], error):
            return [], {uris[0]: refused}
        # Below its sentence DuckDB quotes a piece of the statement.
        text = " ".join(str(error).split("\n\nLINE ")[0].split())[:500].rstrip(".")
        return [], {uris[0]: _unread(uris[0], text) if storage_failed(error) else _damaged(uris[0], text)}


def _unread(uri: str, why: str) -> StorageUnreachableError:
    return StorageUnreachableError(
        f"the object {uri} was not read, for its storage fails: {why}:", "check endpoint and network, and run it again."
    )


def _refused(session: LakeSession, uri: str, error: duckdb.Error) -> ObjectRefusedError | None:
    """The error for a storage that does not let its key read this object; None if it is another one."""
    if not is_refusal(error):
        return None
    storage = next(one for one in session.config.indexed if uri.startswith(f"{one.root}/"))
    return refused_object(storage, uri)


def _damaged(uri: str, why: str) -> SourceError:
    return SourceError(
        f"the object {uri} cannot be read as Parquet: {why}:", "remove it or let its writer land it again."
    )

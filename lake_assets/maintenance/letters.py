"""The removal of dead letters that no commit made visible, such as those of killed runs."""

import datetime as dt
import re
from collections.abc import Sequence
from pathlib import Path

from lake_assets.config.storages import LocalStorage
from lake_assets.lake.ledger.tables import letter_table
from lake_assets.lake.session import LakeSession
from lake_assets.parquet.job import LetterRules
from lake_assets.storage.landed import LandedObject
from lake_assets.storage.store import Store
from lake_assets.streams.stream import OpenStream


def clean_letters(
    session: LakeSession, stream: OpenStream, before: dt.datetime, *, dry_run: bool = False
) -> tuple[LandedObject, ...]:
    """Delete a stream's files of dead letters that no commit made visible. Visible ones are never deleted.

    Args:
        session: an open lake.
        stream: of the files.
        before: files that were written later stay. It must be earlier than the start of any active run.
        dry_run: delete nothing.

    Returns:
        The deleted files; of a dry run, those that would be deleted.

    Raises:
        StorageError: their storage is unreachable or refuses; the next call continues.
        CatalogError: the catalog is unreachable or refuses.
    """
    rules, table = stream.letters, letter_table(session.config)
    if rules is None or not session.exists(table):
        return ()
    name = re.compile(rf".*-[0-9a-f]{{32}}-{rules.tag}\.parquet")
    old = [stored for stored in _listed(rules) if stored.last_modified < before and name.fullmatch(_name(stored.uri))]
    if not old:
        return ()
    with session.commit_lock():
        rows = session.rows(f"SELECT uri FROM {table.sql}")  # noqa: S608 - a quoted name
        # By name, because the config may write the folder differently now; the names are unique.
        visible = {_name(uri) for (uri,) in rows}
        orphans = tuple(stored for stored in old if _name(stored.uri) not in visible)
        if orphans and not dry_run:
            Store(rules.storage).delete(tuple(stored.key for stored in orphans))
    return orphans


def _listed(rules: LetterRules) -> Sequence[LandedObject]:
    storage = rules.storage
    if isinstance(storage, LocalStorage) and not Path(storage.root, rules.folder).is_dir():
        return ()  # nothing was written yet
    return Store(storage).list(rules.folder, files="*.parquet")


def _name(uri: str) -> str:
    return uri.rpartition("/")[2]

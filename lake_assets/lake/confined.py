"""A session for a query that somebody wrote: it reads the lake, and reaches nothing else.

Three things hold it: the lake is attached read-only, DuckDB's `enable_external_access` is off but for the folders of
the lake's files, and the functions are refused by name that do not heed that setting.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

import duckdb

from lake_assets.config.catalogs import MotherDuckCatalog
from lake_assets.config.models import Lake
from lake_assets.config.storages import LocalStorage
from lake_assets.duckdb_engine import identifier, literal
from lake_assets.lake.attach import data_path
from lake_assets.lake.catalog.files import folders_outside, table_folders
from lake_assets.lake.session import DuckLake, LakeSession

_READS = frozenset({duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN})
_READING = "use SELECT, DESCRIBE, SHOW, SUMMARIZE or EXPLAIN. Rows come into the lake by `lake-assets ingest`"
_TABLES = "name a table of the lake"

# A function's name, why it is refused, and what to do. The first that fits counts.
_REFUSED = tuple(
    (re.compile(names, re.IGNORECASE), why, hint)
    for names, why, hint in (
        # These write, remove or register files even where the lake is attached read-only, before its catalog refuses.
        (r"ducklake_(?:add|cleanup|commit|delete|expire|flush|merge|rewrite|set)_?\w*", "only reads", _READING),
        (r"(?:force_)?checkpoint|copy_database|import_database|(?:en|dis)able_\w+", "only reads", _READING),
        # They open files and connections by clients of their own.
        (r"sqlite_\w+|postgres_\w+|mysql_\w+|pg_clear_cache|read_postgres_binary", "reads the lake alone", _TABLES),
        # A text that they run is not looked at here.
        (r"query|json_execute_serialized_sql", "takes no SQL in a text", "write the SQL itself"),
        (r"duckdb_secrets|which_secret|load_aws_credentials", "shows no credentials", "see the config"),
        (r"(?:arrow|pandas)_scan\w*|python_map_function", "reads the lake alone", _TABLES),
    )
)
# An address may name a server beside the bucket (`s3://…?s3_endpoint=…`), to which signed requests would go.
_OPENS_FILES = re.compile(r"(?:read|parquet|sniff)_\w+|glob", re.IGNORECASE)
_ADDRESS = re.compile(r"\w+://[^'\"]*\?")
_OF_MOTHERDUCK = re.compile(r"current_setting|duckdb_settings|md_\w+|\w*motherduck\w*", re.IGNORECASE)

# What DuckDB takes for a space outside of quotes, and its tokenizer for a part of a name.
_SPACES = re.compile("[\u00a0\u2000-\u200f\u2028\u2029\u202f\u205f\u2060\u3000\ufeff]")
_NAMES = (duckdb.token_type.identifier, duckdb.token_type.keyword)


class RefusedQueryError(Exception):
    """A statement is not one that a reader of the lake may run; the text says why, and what to do."""


@contextmanager
def open_confined(lake: DuckLake) -> Iterator[LakeSession]:
    """The lake read-only and as the current database, on an engine that can open nothing but the lake's files.

    What DuckDB has of settings is locked, so no statement can undo this. A lake whose catalog is MotherDuck's is only
    current: what its extension needs is not documented, and its token says what it may do.

    Raises:
        NoLakeError: there is no catalog yet.
        CatalogError: the catalog is unreachable, or is held by another process for too long.
    """
    # What is locked stays locked, so the engine is not one that others use afterwards.
    with DuckLake(lake.config).open(read_only=True) as session:
        session.rows("RESET threads")  # a query has every core
        if not isinstance(lake.config.catalog, MotherDuckCatalog):
            _confine(session)
        session.rows(f"USE {identifier(session.alias)}")
        try:
            yield session
        finally:
            session.rows("USE memory")  # what is current cannot be detached


def _confine(session: LakeSession) -> None:
    roots = {data_path(session.config), *(f"{source.root}/" for source in session.config.indexed)}
    folders = sorted(roots | _elsewhere(session, tuple(roots)))
    session.rows(f"SET allowed_directories = [{', '.join(map(literal, folders))}]")
    session.rows("SET enable_external_access = false")
    session.rows("SET lock_configuration = true")


def _elsewhere(session: LakeSession, roots: tuple[str, ...]) -> set[str]:
    """The folders of the lake's files that lie outside of these: others may have registered some where they were."""
    if session.unknown_specification is not None:
        return set()
    folders = {folder for folder in table_folders(session) if not folder.startswith(roots)}
    return folders | folders_outside(session, roots)


def check_reads(sql: str, lake: Lake) -> None:
    """Refuse all but one statement that reads, by functions that read the lake.

    Raises:
        RefusedQueryError: it is none, or several, or another.
        duckdb.Error: it is not SQL.
    """
    # PIVOT becomes two statements, and neither has a text of its own.
    statements = duckdb.extract_statements(sql)
    kinds = [s.type for s in statements if s.query.strip()] or [s.type for s in statements][-1:]
    if len(kinds) != 1:
        raise RefusedQueryError(f"one statement at a time: this text has {len(kinds)}.")
    if kinds[0] not in _READS:
        raise _refused("only reads", kinds[0].name, _READING)
    for name in _functions(sql):
        for names, why, hint in _REFUSED:
            if names.fullmatch(name):
                raise _refused(why, name, hint)
        if isinstance(lake.catalog, MotherDuckCatalog) and _OF_MOTHERDUCK.fullmatch(name):
            raise _refused("shows no credentials", name, "see the config")
        if _is_remote(lake) and _OPENS_FILES.fullmatch(name):
            raise _refused("reads the lake alone", name, _TABLES)
    if _is_remote(lake) and (address := _ADDRESS.search(sql)):
        raise _refused("reads the lake alone", address[0], _TABLES)


def _refused(why: str, what: str, hint: str) -> RefusedQueryError:
    return RefusedQueryError(f"`query` {why}, so {what} is refused: {hint}.")


def _is_remote(lake: Lake) -> bool:
    return any(not isinstance(storage, LocalStorage) for storage in lake.storages)


def _functions(sql: str) -> Iterator[str]:
    """What is called in the statement: every name that a bracket follows, of which comments are no part."""
    text = _SPACES.sub(" ", sql).encode()
    tokens = duckdb.tokenize(text.decode())
    ends = [start for start, _ in tokens[1:]] + [len(text)]
    words = [(kind, text[start:end].decode(errors="replace")) for (start, kind), end in zip(tokens, ends, strict=True)]
    for (kind, word), (_, after) in pairwise(words):
        if kind in _NAMES and after.startswith("("):
            yield _unquoted(word)


def _unquoted(word: str) -> str:
    if word.startswith('"'):
        return word[1:].partition('"')[0]
    found = re.match(r"\w+", word)
    return found[0] if found else word

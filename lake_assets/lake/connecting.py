"""A connection of DuckDB that keeps a lake attached, for statements that are not this package's.

`ATTACH … (READ_ONLY)` makes DuckDB refuse every statement that writes into the catalog. But DuckLake's functions of
maintenance delete, merge or write files before the catalog refuses. On a read-only connection macros of the same names
hide them, also from `CHECKPOINT`, which calls them by name.
"""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

import duckdb

from lake_assets.base.duckdb_engine import enable_progress, identifier, literal
from lake_assets.base.errors import ConfigError
from lake_assets.config.lake import Lake
from lake_assets.lake.backends import catalog_backend
from lake_assets.lake.catalog.files import folders_outside, table_folders
from lake_assets.lake.ducklake import DuckLake
from lake_assets.lake.failures import translated
from lake_assets.lake.session import LakeSession

_REFUSAL = "this connection to the lake is read-only, so {name} is refused: lake-assets maintain does what it is for."

_TURN = threading.Lock()  # connections that share an engine have one `memory`

# Functions of DuckLake's extension that write, and the names of all their parameters.
_WRITERS = tuple(
    f"ducklake_{name}"
    for name in (
        *("add_data_files", "cleanup_old_files", "delete_orphaned_files", "expire_snapshots", "flush_inlined_data"),
        *("merge_adjacent_files", "rewrite_data_files", "set_commit_message", "set_option"),
    )
)
_PARAMETERS = (
    *("first", "second", "third", "allow_missing", "cleanup_all", "delete_threshold", "dry_run", "extra_info"),
    *("hive_partitioning", "ignore_extra_columns", "max_compacted_files", "max_file_size", "min_file_size"),
    *("older_than", "schema", "schema_name", "table_name", "versions"),
)


def connected(lake: Lake, *, read_only: bool) -> duckdb.DuckDBPyConnection:
    """Connect to an engine with the lake attached, as the current database, on all cores."""
    if read_only and lake.is_managed:
        raise ConfigError(
            f"MotherDuck attaches {catalog_backend(lake).alias} with the rights of its token, not read-only:",
            "pass read_only=False, with a token that may only read (a read scaling token).",
        )
    connection = DuckLake(lake).connect(read_only=read_only)
    with translated(lake):
        if read_only:
            _hide_writers(connection)
        # `memory` comes second for the macros: a name is searched for there before among DuckDB's own.
        path = f"{identifier(catalog_backend(lake).alias)}.main,memory.main"
        connection.execute(f"SET search_path = {literal(path)}")
    return connection


def _hide_writers(connection: duckdb.DuckDBPyConnection) -> None:
    """Hide them from this connection in `temp`, which no `USE` removes from its path, and from cursors in `memory`."""
    parameters = ", ".join(f"{identifier(name)} := NULL" for name in _PARAMETERS)
    for name in _WRITERS:
        body = f"AS TABLE SELECT error({literal(_REFUSAL.format(name=name))})"
        connection.execute(f"CREATE TEMP MACRO {name}({parameters}) {body}")
        with _TURN:
            connection.execute(f"CREATE MACRO IF NOT EXISTS memory.main.{name}({parameters}) {body}")


_READS = frozenset({duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN})
_READING = "use SELECT, DESCRIBE, SHOW, SUMMARIZE or EXPLAIN. Rows come into the lake with `lake-assets ingest`"
_TABLES = "name a table of the lake"

# A pattern of function names, why they are refused, and a hint. The first that matches counts.
_REFUSED = tuple(
    (re.compile(names, re.IGNORECASE), why, hint)
    for names, why, hint in (
        # These write, delete or register files even in a read-only lake, before its catalog refuses.
        (r"ducklake_(?:add|cleanup|commit|delete|expire|flush|merge|rewrite|set)_?\w*", "only reads", _READING),
        (r"(?:force_)?checkpoint|copy_database|import_database|(?:en|dis)able_\w+", "only reads", _READING),
        # These open files and connections by their own clients.
        (r"sqlite_\w+|postgres_\w+|mysql_\w+|pg_clear_cache|read_postgres_binary", "reads the lake alone", _TABLES),
        # The SQL in their argument is not checked here.
        (r"query|json_execute_serialized_sql", "accepts no SQL in a text", "write the SQL itself"),
        (r"duckdb_secrets|which_secret|load_aws_credentials", "shows no credentials", "see the config"),
        (r"(?:arrow|pandas)_scan\w*|python_map_function", "reads the lake alone", _TABLES),
    )
)
# An address may name another server (`s3://…?s3_endpoint=…`), which would receive signed requests.
_OPENS_FILES = re.compile(r"(?:read|parquet|sniff)_\w+|glob", re.IGNORECASE)
_ADDRESS = re.compile(r"\w+://[^'\"]*\?")
_OF_MOTHERDUCK = re.compile(r"current_setting|duckdb_settings|md_\w+|\w*motherduck\w*", re.IGNORECASE)

# Characters that are spaces for DuckDB outside of quotes, and part of a name for its tokenizer.
_SPACES = re.compile("[\u00a0\u2000-\u200f\u2028\u2029\u202f\u205f\u2060\u3000\ufeff]")
_NAMES = (duckdb.token_type.identifier, duckdb.token_type.keyword)


class RefusedQueryError(Exception):
    """A statement that a reader of the lake may not run; the text has the reason and a hint."""


@contextmanager
def open_confined(lake: DuckLake) -> Iterator[LakeSession]:
    """Open the lake read-only and as the current database, on an engine that can open only the lake's files.

    DuckDB's settings are locked, so no statement can undo this. A lake with a MotherDuck catalog is not confined: the
    needs of MotherDuck's extension are not documented, and its token limits access. Raises NoLakeError if there is no
    catalog yet.
    """
    # Locked settings remain locked, so this engine is not used again, and is not that of a user's connections.
    with DuckLake(lake.config).open(read_only=True, shared=False) as session:
        session.rows("RESET threads")  # a query has every core
        enable_progress(session.connection)
        if not lake.config.catalog.is_service:
            _confine(session)
        session.rows(f"USE {identifier(session.alias)}")
        try:
            yield session
        finally:
            session.rows("USE memory")  # the current database cannot be detached


def _confine(session: LakeSession) -> None:
    roots = {session.config.data_path, *(f"{source.root}/" for source in session.config.indexed)}
    folders = sorted(roots | _folders_outside(session, tuple(roots)))
    session.rows(f"SET allowed_directories = [{', '.join(map(literal, folders))}]")
    session.rows("SET enable_external_access = false")
    session.rows("SET lock_configuration = true")


def _folders_outside(session: LakeSession, roots: tuple[str, ...]) -> set[str]:
    """Return the folders of the lake's files outside of these roots, where other clients have registered files."""
    if session.unknown_specification is not None:
        return set()
    folders = {folder for folder in table_folders(session) if not folder.startswith(roots)}
    return folders | folders_outside(session, roots)


def check_reads(sql: str, lake: Lake) -> None:
    """Refuse all but one statement that reads the lake, by a RefusedQueryError; no SQL is a duckdb.Error."""
    # PIVOT becomes two statements without a text.
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
        if lake.catalog.is_service and _OF_MOTHERDUCK.fullmatch(name):
            raise _refused("shows no credentials", name, "see the config")
        if _is_remote(lake) and _OPENS_FILES.fullmatch(name):
            raise _refused("reads the lake alone", name, _TABLES)
    if _is_remote(lake) and (address := _ADDRESS.search(sql)):
        raise _refused("reads the lake alone", address[0], _TABLES)


def _refused(why: str, what: str, hint: str) -> RefusedQueryError:
    return RefusedQueryError(f"`query` {why}, so {what} is refused: {hint}.")


def _is_remote(lake: Lake) -> bool:
    return any(not storage.is_local for storage in lake.storages)


def _functions(sql: str) -> Iterator[str]:
    """Yield the functions that a statement calls: every name before a parenthesis, without comments."""
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
    name = re.match(r"\w+", word)
    return name[0] if name else word

"""The commands about what a lake has: `query`, its rows by SQL, and `ledger`, the runs that made them."""

# ruff: noqa: PLC0415 - imports inside functions keep `--help` quick

import datetime as dt
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from lake_assets.base.errors import CatalogError, LakeAssetsError
from lake_assets.base.events import counting
from lake_assets.base.texts import count
from lake_assets.cli.common import Options, lake_option, named_partition, stream_argument
from lake_assets.cli.output import (
    Format,
    echo,
    format_option,
    output_format,
    print_json,
    print_table,
    text_table,
    write_csv,
    write_rows,
)

if TYPE_CHECKING:
    import duckdb

    from lake_assets.config.models import LakeConfig
    from lake_assets.lake.ledger.tables import LedgerRow, Status

TABLE_ROWS = 200  # most rows of a table; csv and json have all
FETCHED = 10_000  # rows at a time

_TEXT_OR_NO_NUMBER = re.compile(r'("(?:[^"\\]|\\.)*")|-?(?:NaN|Infinity)')  # of JSON

Follow = Callable[[], AbstractContextManager[None]]

_TEXTS = "CAST(COLUMNS(*) AS VARCHAR)"


@click.command()
@click.argument("sql")
@lake_option
@format_option
@click.pass_obj
def query(options: Options, sql: str, lake: str | None, form: Format | None) -> None:
    """Run a query on the lake.

    With `-`, SQL is read from standard input. The lake is the current database, so `select count(*) from flights`
    works. It is attached read-only. A query can read the lake's files only: no other files of this machine, no
    other addresses, no credentials.
    """
    import duckdb

    from lake_assets.base.duckdb_engine import counting_percent
    from lake_assets.lake.connecting import RefusedQueryError, check_reads, open_confined
    from lake_assets.lake.failures import outer_error

    if sql == "-":
        sql = _read_sql()
    ducklake = options.lake(lake)
    with open_confined(ducklake) as session:
        try:
            check_reads(sql, ducklake.config)
            follow = partial(counting_percent, session.connection, "query")
            with follow():  # DuckDB executes some statements, such as SUMMARIZE, at once
                relation = session.connection.sql(sql)
            write_relation(relation, output_format(form), follow)
        except RefusedQueryError as error:
            raise click.UsageError(str(error), click.get_current_context()) from error
        except duckdb.Error as error:
            raise (outer_error(error, ducklake.config) or _query_error(error)) from error


def _read_sql() -> str:
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as error:
        raise click.UsageError("the SQL on standard input is not UTF-8: write it in UTF-8.") from error


def _query_error(error: "duckdb.Error") -> CatalogError:
    """Return the error with DuckDB's text, which points at the position in the query."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    if "disabled by configuration" in lines[0]:
        return CatalogError(
            f"the query failed: {lines[0].rstrip('.')}:", "name tables. `query` opens only files of the lake."
        )
    return CatalogError("\n".join(["the query failed: " + lines[0], *lines[1:]]))


def write_relation(relation: "duckdb.DuckDBPyRelation", form: Format, follow: Follow = nullcontext) -> None:
    """Write the relation's rows; DuckDB casts each value to text. `follow` gives the context of the execution."""
    if form == "json":
        from lake_assets.base.duckdb_engine import identifier

        row = max(relation.columns, key=len) + "_"  # is not the name of a column
        texts = _rows(relation.set_alias(row).project(f"to_json({identifier(row)})"), follow)
        print_json(_valid_json(text) for (text,) in texts)
    elif form == "csv":
        write_csv(relation.columns, _rows(relation.project(_TEXTS), follow))
    else:
        print_relation(relation, follow)


def _valid_json(text: str) -> str:
    """Return the text with null for NaN and infinities, which JSON lacks and DuckDB writes."""
    if "NaN" not in text and "Infinity" not in text:
        return text
    return _TEXT_OR_NO_NUMBER.sub(lambda match: match[1] or "null", text)


def print_relation(relation: "duckdb.DuckDBPyRelation", follow: Follow = nullcontext) -> None:
    """Print the first rows as a table, then the number of rows."""
    texts = relation.project(_TEXTS)
    with follow():
        rows = texts.fetchmany(TABLE_ROWS)
        more = texts.fetchone() is not None
    right = {name for name, kind in zip(relation.columns, relation.types, strict=True) if _is_number(kind)}
    print_table(text_table(relation.columns, rows, right=right))
    echo(f"the first {len(rows)} rows; --format csv prints all" if more else count(len(rows), "row"))


def _rows(relation: "duckdb.DuckDBPyRelation", follow: Follow) -> Iterator[tuple[Any, ...]]:
    """Yield the rows, followed up to the last one, or on a terminal up to the first, where they are printed."""
    with follow():
        while (rows := relation.fetchmany(FETCHED)) and not sys.stdout.isatty():
            yield from rows
    while rows:
        yield from rows
        rows = relation.fetchmany(FETCHED)


def _is_number(kind: "duckdb.sqltypes.DuckDBPyType") -> bool:
    return str(kind).startswith("DECIMAL") or str(kind) in {
        *("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT"),
        *("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT"),
        *("FLOAT", "DOUBLE"),
    }


def _moment(context: click.Context, parameter: click.Parameter, text: str | None) -> dt.datetime | None:
    """Return a day or a time in ISO 8601; without a zone it is UTC, as in the output."""
    if text is None:
        return None
    try:
        moment = dt.datetime.fromisoformat(text)
    except ValueError:
        message = f"{text!r} is neither a day nor a time: write 2026-02-11, or 2026-02-11T06:00 in UTC."
        raise click.BadParameter(message, context, parameter) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)


@click.command()
@stream_argument
@click.option(
    "--partition", metavar="COLUMN=VALUE,…", help="Only runs of this partition, such as region=NW,date=2026-02-11."
)
@lake_option
@click.option(
    "--status",
    "statuses",
    multiple=True,
    type=click.Choice(["committed", "skipped", "failed", "cancelled"]),
    help="Only runs with this status; repeatable.",
)
@click.option(
    "--since",
    metavar="TIME",
    callback=_moment,
    help="Only runs that ended then or later, such as 2026-02-11 or 2026-02-11T06:00+01:00; without a zone in UTC.",
)
@click.option("--until", metavar="TIME", callback=_moment, help="Only runs that ended before then.")
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True, help="Number of runs, newest first.")
@format_option
@click.pass_obj
def ledger(  # noqa: PLR0913 - a parameter for each option
    options: Options,
    *,
    stream: str | None,
    partition: str | None,
    lake: str | None,
    statuses: "tuple[Status, ...]",
    since: dt.datetime | None,
    until: dt.datetime | None,
    limit: int,
    form: Format | None,
) -> None:
    """Show the newest runs and their results."""
    from lake_assets.lake.ledger.read import LedgerFilter, read_ledger
    from lake_assets.lake.ledger.tables import LedgerRow

    config = options.config
    ducklake = options.lake(lake, stream)
    path = _partition_path(config, stream, partition) if partition else None
    names = None if stream is None else options.stream(stream).names
    wanted = LedgerFilter(names, path, statuses, since, until)
    with counting("ledger", "rows"), ducklake.open(read_only=True) as session:
        rows = read_ledger(session, wanted, limit)
    write_rows(form, LedgerRow, rows, print_ledger)


def print_ledger(rows: "Sequence[LedgerRow]") -> None:
    """Print the rows as a table of the most important columns."""
    numbers = {
        "rows": "row_count",
        "before": "rows_before",
        "files": "files_written",
        "copied": "files_copied",
        "snapshot": "snapshot_id",
    }
    columns = ["finished (UTC)", "stream", "partition", "status", *numbers, "run"]
    has_errors = any(row.error for row in rows)
    texts = [
        [
            f"{row.finished_at:%Y-%m-%d %H:%M:%S}" if row.finished_at else "",
            *(row.stream, row.load_partition, row.status),
            *("" if (number := getattr(row, name)) is None else f"{number:,}" for name in numbers.values()),
            row.run_id[:8],
            *([row.error or ""] if has_errors else []),
        ]
        for row in rows
    ]
    least = ["copied", "files", "before", "run", "snapshot", "rows"]
    least.insert(0 if len({row.stream for row in rows}) == 1 else len(least), "stream")
    print_table(text_table(columns + ["error"] * has_errors, texts, right=numbers), least)


def _partition_path(config: "LakeConfig", stream: str | None, text: str) -> str:
    """Return the partition as the ledger writes it; without a stream, the first stream that the text fits parses it."""
    names = [stream] if stream else list(config.streams)
    for name in names[:-1]:
        try:
            return config.streams[name].partition(text).path
        except LakeAssetsError:  # another stream has other columns
            continue
    return named_partition(config.streams[names[-1]], text).path

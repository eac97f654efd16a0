"""The command `changes`: the rows that snapshots inserted and deleted."""

# ruff: noqa: PLC0415 - imports inside functions keep `--help` quick

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from lake_assets.cli.common import Options, partition_of
from lake_assets.cli.output import Format, output_format
from lake_assets.cli.terminal import info
from lake_assets.errors import LakeAssetsError
from lake_assets.layout.texts import count
from lake_assets.progress import Count, counting

if TYPE_CHECKING:
    import pyarrow as pa

Form = Literal["table", "csv", "json", "parquet"]
_SUFFIXES: dict[str, Form] = {".csv": "csv", ".json": "json", ".parquet": "parquet"}


@click.command()
@click.argument("stream")
@click.option("--from", "since", metavar="SNAPSHOT", type=click.IntRange(0), required=True, help="The first snapshot.")
@click.option("--to", "until", metavar="SNAPSHOT", type=click.IntRange(0), help="The last snapshot; default: newest.")
@click.option(
    "--partition", metavar="COLUMN=VALUE,…", help="Only rows of this partition, such as region=NW,date=2026-02-11."
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "csv", "json", "parquet"]),
    help="Default: that of the file's name; without a file, table on a terminal, csv into a pipe.",
)
@click.option(
    "--out",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write to this file, which appears when it is complete; required for parquet.",
)
@click.pass_obj
def changes(
    options: Options,
    *,
    stream: str,
    since: int,
    until: int | None,
    partition: str | None,
    form: Form | None,
    out: Path | None,
) -> None:
    """Show the rows that snapshots inserted and deleted.

    The columns are those of the table, then _change (insert or delete), _snapshot, _run_id and _committed_at. A row
    that a snapshot removed and added again unchanged is left out, and so are compactions. To continue after snapshot
    N, begin with --from N+1.
    """
    from lake_assets.lake.changes.feed import read_changes

    opened = options.stream(stream)
    wanted = None if partition is None else partition_of(opened.config, partition)
    form = form or _default(out)
    if out is None and form == "parquet":
        raise click.UsageError("--format parquet writes a file: name it with --out.", click.get_current_context())
    with opened.lake.open(read_only=True) as lake:
        reader = read_changes(lake, opened.table, since, until, wanted).reader
        if out is not None:
            with _complete(out) as unfinished:
                rows = _save(reader, form, unfinished, opened.name)
        elif form != "parquet":
            _show(reader, form, opened.name)
    if out is not None:
        info(f"{count(rows, 'change')} in {out}", err=True)


def _default(out: Path | None) -> Form:
    if out is None:
        return output_format(None)
    if out.suffix.lower() not in _SUFFIXES:
        raise click.UsageError(
            f"{out} ends in none of {', '.join(_SUFFIXES)}: give --format too.", click.get_current_context()
        )
    return _SUFFIXES[out.suffix.lower()]


@contextmanager
def _complete(out: Path) -> Iterator[Path]:
    """Yield a file beside another one, which replaces it at the end of the block, or is removed if the block raises."""
    unfinished = out.with_name(f".{out.name}.{os.getpid()}")
    try:
        yield unfinished
        unfinished.replace(out)
    except OSError as error:
        raise LakeAssetsError(f"{out} cannot be written: {error.strerror}:", "name another file with --out.") from error
    finally:
        with suppress(OSError):
            unfinished.unlink()


def _show(reader: "pa.RecordBatchReader", form: Format, stream: str) -> None:
    """Write all changes to standard output."""
    if form != "table" and sys.stdout.isatty():  # no bar below rows that are printed as they come
        _write(reader, form)
        return
    with counting(f"changes of {stream}", "rows") as count_of:
        _write(_Counted(reader, count_of).reader, form)


def _save(reader: "pa.RecordBatchReader", form: Form, path: Path, stream: str) -> int:
    """Write all changes to a file; returns their number."""
    if form == "parquet":
        with counting(f"changes of {stream}", "rows") as count_of:
            counted = _Counted(reader, count_of)
            _save_parquet(counted.reader, path)
        return counted.rows
    # The file is standard output before the count begins, since a progress bar takes over what is standard output then.
    with (
        path.open("w", encoding="utf-8", newline="") as file,
        redirect_stdout(file),
        counting(f"changes of {stream}", "rows") as count_of,
    ):
        counted = _Counted(reader, count_of)
        _write(counted.reader, form)
    return counted.rows


class _Counted:
    """A reader that counts the rows that are taken from it."""

    def __init__(self, reader: "pa.RecordBatchReader", count_of: Count) -> None:
        import pyarrow as pa

        self.rows = 0
        self._batches = reader
        self._count_of = count_of
        self.reader = pa.RecordBatchReader.from_batches(reader.schema, self._count())

    def _count(self) -> "Iterator[pa.RecordBatch]":
        for batch in self._batches:
            self.rows += batch.num_rows
            self._count_of.advance(batch.num_rows)
            yield batch


def _save_parquet(reader: "pa.RecordBatchReader", path: Path) -> None:
    import pyarrow.parquet as pq

    from lake_assets.parquet.write import row_groups

    with pq.ParquetWriter(path, reader.schema, compression="zstd", version="2.6", store_schema=False) as writer:
        for group in row_groups(reader):
            writer.write_table(group)


def _write(reader: "pa.RecordBatchReader", form: Format) -> None:
    """Write changes to standard output as texts; DuckDB casts the values, as for `lake-assets query`."""
    import duckdb

    from lake_assets.cli.query import write_relation

    with duckdb.connect() as engine:
        engine.execute("SET TimeZone = 'UTC'")
        engine.execute("SET threads = 1")
        write_relation(engine.from_arrow(reader), form)

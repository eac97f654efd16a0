"""The command `generate`: test records for a landing zone, on standard output."""

# ruff: noqa: PLC0415 - imports inside functions keep `--help` quick

import datetime as dt
import os
import stat
import sys
import time
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING, Literal

import click

from lake_assets.progress import counting

if TYPE_CHECKING:
    import pyarrow as pa

_TICKS = 10  # writes in a second, at most, if a rate is given


def _rate(ctx: click.Context, param: click.Parameter, text: str | None) -> float | None:
    """Return the records per second of `500` or `500/s`."""
    if text is None:
        return None
    try:
        rate = float(text.removesuffix("/s"))
    except ValueError:
        rate = 0.0
    if not 0 < rate < float("inf"):
        raise click.BadParameter(f"{text!r} is not a rate: write it as 500/s.", ctx, param)
    return rate


@click.group()
def generate() -> None:
    """Write generated records to standard output."""


@generate.command()
@click.option("--stores", type=click.IntRange(1, 100_000), default=50, show_default=True)
@click.option("--regions", default="NW,NE,MW,SE,SW", show_default=True, help="Names, separated by commas.")
@click.option("--days", type=click.IntRange(1, 36_500), default=1, show_default=True)
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="Same seed, same records.")
@click.option("--start", type=click.DateTime(["%Y-%m-%d"]), default="2026-02-11", show_default=True, help="First day.")
@click.option(
    "--per-store", type=click.IntRange(1), default=400, show_default=True, help="Transactions of a store in a day."
)
@click.option("--rate", callback=_rate, metavar="N/s", help="Records per second. Default: as fast as possible.")
@click.option("--format", "form", type=click.Choice(["jsonl", "arrow"]), default="jsonl", show_default=True)
def retail(  # noqa: PLR0917 - click gives them by name
    stores: int,
    regions: str,
    days: int,
    seed: int,
    start: dt.datetime,
    per_store: int,
    rate: float | None,
    form: Literal["jsonl", "arrow"],
) -> None:
    """Generate retail transactions with 26 columns.

    Some are bad and flagged as such.

    \b
    lake-assets generate retail --days 3 | lake-assets land transactions -
    """  # noqa: D301 - click reads the \b
    from lake_assets.landing.retail import Retail

    names = [name.strip() for name in regions.split(",") if name.strip()]
    if not names:
        raise click.UsageError("--regions is empty: write the names as NW,SW.")
    chain = Retail(stores, names, days, seed, start.date(), per_store)
    out = sys.stdout.buffer
    blocks = chain.blocks() if rate is None else _paced(chain.blocks(), rate)
    if _is_file(out):
        blocks = _counted(blocks, chain.rows)
    if form == "arrow":
        _write_arrow(blocks, out)
    else:
        _write_lines(blocks, out)


def _is_file(out: IO[bytes]) -> bool:
    """Return whether the output is a file. A terminal shows the records; the reader of a pipe has a bar of its own."""
    try:
        return stat.S_ISREG(os.fstat(out.fileno()).st_mode)
    except OSError:  # no real file, such as a buffer in memory
        return False


def _counted(blocks: "Iterator[pa.Table]", total: int) -> "Iterator[pa.Table]":
    with counting("generate", "records", total) as done:
        for block in blocks:
            yield block
            done.advance(block.num_rows)


def _paced(blocks: "Iterator[pa.Table]", rate: float) -> "Iterator[pa.Table]":
    """Return the rows in smaller blocks, at `rate` rows per second."""
    size = max(1, int(rate / _TICKS))
    start, rows = time.monotonic(), 0
    for block in blocks:
        for first in range(0, block.num_rows, size):
            piece = block.slice(first, size)
            rows += piece.num_rows
            time.sleep(max(0.0, start + rows / rate - time.monotonic()))
            yield piece


def _write_lines(blocks: "Iterator[pa.Table]", out: IO[bytes]) -> None:
    import duckdb

    with duckdb.connect() as connection:
        connection.execute("SET threads = 1")
        for block in blocks:
            lines = connection.from_arrow(block).query("t", "SELECT to_json(t)::VARCHAR FROM t").fetchall()
            out.write("\n".join(line for (line,) in lines).encode() + b"\n")
            out.flush()


def _write_arrow(blocks: "Iterator[pa.Table]", out: IO[bytes]) -> None:
    import pyarrow as pa

    first = next(blocks)
    with pa.ipc.new_stream(pa.PythonFile(out, "w"), first.schema) as writer:
        writer.write_table(first)
        for block in blocks:
            writer.write_table(block)
            out.flush()

"""The command `land`: writes records from files or a pipe into a stream's landing zone."""

# ruff: noqa: PLC0415 - imports inside functions keep `--help` quick

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from lake_assets.base.events import UNWATCHED, Count, counting
from lake_assets.base.texts import count, several, size
from lake_assets.cli.common import Options
from lake_assets.cli.interrupt import interrupt
from lake_assets.cli.output import echo, info, style

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa

    from lake_assets.streams.stream import OpenStream
    from lake_assets.wings.land.drain import Drained
    from lake_assets.wings.land.read_records import RecordForm, RecordSource
    from lake_assets.wings.land.writer import LandingCounts, LandingWriter


@click.command()
@click.argument("stream")
@click.argument("files", type=click.Path(allow_dash=True), nargs=-1, metavar="[FILE | -]…")
@click.option(
    "--format",
    "form",
    type=click.Choice(["jsonl", "csv", "arrow", "parquet"]),
    help="Format of all files. Default: from the ending of each name; JSON lines for standard input.",
)
@click.option("--drain", is_flag=True, help="Upload the batches in the stream's buffer; read no records.")
@click.pass_context
def land(ctx: click.Context, stream: str, files: tuple[str, ...], form: "RecordForm | None", *, drain: bool) -> None:
    """Write records as small Parquet files into a landing zone.

    Records are read from FILEs or, with `-`, from standard input. A record that does not fit is written to a
    dead-letter file with the reason; the others land. If none lands, the exit code is 1. After Ctrl-C or SIGTERM, the
    records that were read land.
    """
    options: Options = ctx.obj
    opened = options.stream(stream)
    if drain:
        if files:
            raise click.UsageError("--drain takes no FILE: it uploads the batches in the buffer.", ctx)
        from lake_assets.wings.land.drain import drain as drain_buffer

        drained = drain_buffer(stream, opened.config)
        _print_drained(drained)
        if drained.errors:
            ctx.exit(1)
        return
    if not files and sys.stdin.isatty():
        raise click.UsageError("nothing to land: name FILEs, or - for standard input.", ctx)
    from lake_assets.wings.land.read_records import RecordSource, form_of
    from lake_assets.wings.land.writer import LandingWriter

    writer = LandingWriter(stream, opened.config)
    paths = files or ("-",)
    try:
        with _counting(stream, paths) as (done, total):
            try:
                with _sigterm_as_sigint():
                    for path in paths:
                        pipe = sys.stdin.buffer if path == "-" else None
                        source = RecordSource(path, form or form_of(path), pipe, writer.gather_seconds, writer.integers)
                        _land(writer, opened, source, done, by_bytes=total is not None)
            finally:
                done.describe(f"upload {stream}")
                with interrupt.held_back():
                    writer.close()
    finally:
        _print_landed(landed := writer.landed())
    if landed.rejected and not landed.records:
        from lake_assets.base.errors import LandingError

        layout = f", with the layout {text!r}" if (text := opened.config.template.text) else ""
        raise LandingError(
            f"no record fits the stream {stream}{layout}: the first does not because {landed.reason}:",
            "correct the layout or the records; the folder _dead_letters of the output has each with its reason.",
        )


@contextmanager
def _counting(stream: str, paths: "Sequence[str]") -> Iterator[tuple[Count, int | None]]:
    """Count bytes with their total, or records if the total is unknown; nothing below what a user types."""
    from lake_assets.wings.land.read_records import size_of

    sizes = [size_of(path, sys.stdin.buffer) for path in paths]
    total = None if None in sizes else sum(size or 0 for size in sizes)
    if "-" in paths and sys.stdin.isatty():
        yield UNWATCHED, total
        return
    with counting(f"land {stream}", "records" if total is None else "bytes", total) as done:
        yield done, total


@contextmanager
def _sigterm_as_sigint() -> Iterator[None]:
    """Handle SIGTERM like Ctrl-C, so that a service that is stopped lands what it has read."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGINT))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _land(
    writer: "LandingWriter", stream: "OpenStream", source: "RecordSource", done: Count, *, by_bytes: bool
) -> None:
    from lake_assets.wings.land.destination import as_known
    from lake_assets.wings.land.read_records import read_records

    def schema(infer: "Callable[[], pa.Schema]") -> "pa.Schema":
        return writer.schema((lambda: as_known(infer(), stream)) if source.form in ("jsonl", "csv") else infer)

    for records in read_records(source, schema, (done if by_bytes else UNWATCHED).advance):
        # Interrupted only between two blocks: within one, a part of its records would land.
        with interrupt.held_back():
            writer.accept(records)
        if not by_bytes:
            done.advance(len(records))


def _print_landed(landed: "LandingCounts") -> None:
    info(
        f"{style('landed', fg='green')}  {count(landed.records, 'record')} in {count(landed.files, 'file')}, "
        f"{size(landed.bytes)}"
    )
    notes = [f"{warning}." for warning in landed.warnings]
    if landed.rejected and landed.records:
        notes.append(f"{count(landed.rejected, 'record')} rejected, because {landed.reason}: {several(landed.rejects)}")
    if landed.pending:
        notes.append(f"{count(landed.pending, 'upload')} pending in the buffer: run `lake-assets land … --drain`.")
    if landed.expired:
        notes.append(f"{landed.expired:,} of them are older than the retention, and are kept.")
    if landed.lost:
        notes.append(f"{count(landed.lost, 'record')} that were read did not land anywhere.")
    for note in notes:
        echo(note, err=True)


def _print_drained(drained: "Drained") -> None:
    info(
        f"{style('drained', fg='green')}  {count(drained.uploaded, 'upload')}, {drained.pending:,} pending, "
        f"{drained.deleted:,} deleted after their retention"
    )
    if drained.expired:
        echo(
            f"{drained.expired:,} pending uploads are older than the retention, the oldest "
            f"{drained.oldest / 86_400:.1f} days, and are kept.",
            err=True,
        )
    for error in drained.errors:
        echo(f"{style('Error: ', fg='red', bold=True)}{error}", err=True)

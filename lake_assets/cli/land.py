"""The command `land`: records from files or a pipe into a stream's landing zone."""

# ruff: noqa: PLC0415 - imports inside functions keep `--help` quick

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from lake_assets.cli.common import Options, stream_named
from lake_assets.cli.interrupt import interrupt
from lake_assets.cli.words import count, size

if TYPE_CHECKING:
    from lake_assets.landing.drain import Drained
    from lake_assets.landing.read import Form
    from lake_assets.landing.writer import Landed, LandingWriter


@click.command()
@click.argument("stream")
@click.argument("files", type=click.Path(allow_dash=True), nargs=-1, metavar="[FILE | -]…")
@click.option(
    "--format",
    "form",
    type=click.Choice(["jsonl", "csv", "arrow", "parquet"]),
    help="Of all files; without it by the name's end, and JSON lines for standard input.",
)
@click.option("--drain", is_flag=True, help="Only upload what the stream's buffer holds.")
@click.pass_context
def land(ctx: click.Context, stream: str, files: tuple[str, ...], form: "Form | None", *, drain: bool) -> None:
    """Write records as small Parquet files into a stream's landing zone.

    Records come from FILEs or, with `-`, from standard input. A record that does not fit goes to a dead-letter file
    with its reason, and the others land. Ctrl-C and SIGTERM land what was read.
    """
    options: Options = ctx.obj
    opened = stream_named(options.load(), stream)
    if drain:
        if files:
            raise click.UsageError("--drain takes no FILE: it uploads what the buffer holds.", ctx)
        from lake_assets.landing.drain import drain as drain_buffer

        drained = drain_buffer(stream, opened.config)
        _tell_drained(drained)
        if drained.errors:
            ctx.exit(1)
        return
    if not files and sys.stdin.isatty():
        raise click.UsageError("say what to land: FILEs, or - for standard input.", ctx)
    from lake_assets.landing.writer import LandingWriter

    writer = LandingWriter(stream, opened.config)
    try:
        with _stopped_like_interrupted():
            for file in files or ("-",):
                _land(writer, file, form)
    finally:
        try:
            with interrupt.held_back():
                writer.close()
        finally:
            _tell_landed(writer.landed())


@contextmanager
def _stopped_like_interrupted() -> Iterator[None]:
    """Let a service that is stopped land what it has read, as a command at a terminal does after Ctrl-C."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGINT))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _land(writer: "LandingWriter", path: str, form: "Form | None") -> None:
    from lake_assets.landing.read import form_of, read_records

    pipe = sys.stdin.buffer if path == "-" else None
    for records in read_records(pipe, path, form or form_of(path), writer.schema, writer.patience):
        # Between two blocks, and not amid one, whose records would be landed in part.
        with interrupt.held_back():
            writer.accept(records)


def _tell_landed(landed: "Landed") -> None:
    click.echo(
        f"{click.style('landed', fg='green')}  {count(landed.records, 'record')} in {count(landed.files, 'file')}, "
        f"{size(landed.bytes)}"
    )
    notes = [f"{warning}." for warning in landed.warnings]
    if landed.rejected:
        notes.append(f"{count(landed.rejected, 'record')} did not fit: see the folder _dead_letters of the output.")
    if landed.pending:
        notes.append(
            f"{count(landed.pending, 'upload')} still to be made from the buffer: `lake-assets land … --drain`."
        )
    if landed.expired:
        notes.append(f"{landed.expired:,} of them have waited longer than the retention; they are kept.")
    if landed.lost:
        notes.append(f"{count(landed.lost, 'record')} that were read did not land.")
    for note in notes:
        click.echo(note, err=True)


def _tell_drained(drained: "Drained") -> None:
    click.echo(
        f"{click.style('drained', fg='green')}  {count(drained.uploaded, 'upload')}, {drained.pending:,} pending, "
        f"{drained.deleted:,} deleted after their retention"
    )
    if drained.expired:
        click.echo(
            f"{drained.expired:,} pending have waited longer than the retention, the oldest for "
            f"{drained.oldest / 86_400:.1f} days; they are kept.",
            err=True,
        )
    for error in drained.errors:
        click.echo(f"{click.style('Error: ', fg='red', bold=True)}{error}", err=True)

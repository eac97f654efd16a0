"""The commands `report`, the state of every partition as a table or a page, and `metrics`."""

# ruff: noqa: PLC0415 - imports inside functions keep `--help` quick

import datetime as dt
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lake_assets.base.errors import LayoutError, PartitionError, StorageError
from lake_assets.base.events import counted
from lake_assets.base.texts import count, first_lines, size
from lake_assets.cli.common import Options, stream_argument, usage_errors
from lake_assets.cli.output import (
    Format,
    columns_of,
    echo,
    format_option,
    info,
    output_format,
    print_left_out,
    print_table,
    text_table,
    write_csv_of,
    write_documents,
    write_rows,
)
from lake_assets.cli.selecting import selected_or_all, selection_options

if TYPE_CHECKING:
    from lake_assets.base.json_dataclasses import Documented
    from lake_assets.streams.select import Wanted
    from lake_assets.streams.stream import OpenStream
    from lake_assets.upkeep.report.objects import FileEntry, ObjectState
    from lake_assets.upkeep.report.state import PartitionState, StreamState, Summary


OBJECT_STATES = ("loaded", "quarantined", "changed", "waiting", "gone", "left_out")


@click.command()
@stream_argument
@selection_options("the whole landing zone")
@click.option(
    "--state", "states", multiple=True, type=click.Choice(OBJECT_STATES), help="Only such objects; repeatable."
)
@format_option
@click.pass_obj
def files(
    options: Options, *, stream: str | None, wanted: "Wanted", states: "tuple[ObjectState, ...]", form: Format | None
) -> None:
    r"""Show what has become of each landed object.

    \b
    loaded       its rows are in the lake
    quarantined  a run left it out
    changed      it has changed since a run read it
    waiting      no run has read it
    gone         its rows are in the lake, and it is not in the landing zone
    left_out     no refresh reads it
    """
    from lake_assets.upkeep.report.objects import FileEntry, file_entries

    opened = options.stream(stream)
    selection = selected_or_all(opened, wanted, outside=True)
    all_entries = file_entries(opened, None if selection is None else selection.partitions)
    entries = [entry for entry in all_entries if not states or entry.state in states]
    root = f"{opened.config.source.root}/"
    write_rows(form, FileEntry, entries, lambda shown: _print(shown, root))


def _print(entries: "Sequence[FileEntry]", root: str) -> None:
    has_errors = any(entry.error for entry in entries)
    columns = ["object", "state", "rows", "size", "loaded (UTC)", "run"]
    texts = [
        [
            entry.uri.removeprefix(root),
            entry.state,
            "" if entry.rows is None else f"{entry.rows:,}",
            size(entry.bytes),
            f"{entry.loaded_at:%Y-%m-%d %H:%M:%S}" if entry.loaded_at else "",
            (entry.run_id or "")[:8],
            *([(entry.error or "").split("\n")[0]] if has_errors else []),
        ]
        for entry in entries
    ]
    table = text_table(columns + ["error"] * has_errors, texts, right={"rows", "size"})
    print_table(table, ["size", "run", "loaded (UTC)"])
    echo(count(len(entries), "object"))


_file = click.Path(dir_okay=False, path_type=Path)
_SELDOM = {"outside", "objects_quarantined", "held", "holder", "edited", "rows_dead_lettered", "retry", "next_try"}
FEW = 5  # folders and partitions that a table names


@click.command("report")
@stream_argument
@click.option("--html", type=_file, metavar="FILE", help="Write one HTML file with a heat map and tables.")
@click.option("--partitions", is_flag=True, help="Print a row for each partition instead of counts.")
@selection_options("all, including those of which nothing has landed")
@format_option
@click.pass_obj
def report_(
    options: Options, stream: str | None, wanted: "Wanted", *, html: Path | None, partitions: bool, form: Format | None
) -> None:
    """Show the state of every partition.

    \b
    committed  the lake has the landed objects
    held       restored with --hold, so no refresh changes it
    stale      the landed objects have changed since the last commit
    failed     the newest run failed; the earlier rows are kept
    missing    objects have landed and were never committed
    absent     the config has the partition, and nothing has landed
    outside    landed or in the lake, but not in the config

    Landed objects in no partition are named below the table; in JSON they are objects of their own.
    """  # noqa: D301 - click reads the \b
    from lake_assets.streams.stream import open_streams
    from lake_assets.upkeep.report.former_streams import former_streams

    config = options.config
    if stream is not None or wanted.texts:
        streams: Sequence[OpenStream] = [options.stream(stream)]
    else:
        streams = list(open_streams(config).values())
    former = [] if stream is not None or not wanted.is_empty else former_streams(config)
    states = [_read(opened, wanted) for opened in counted(streams, "report", "streams", len(streams))]
    if html is not None:
        _write_page(html, streams, states)
    else:
        from lake_assets.upkeep.report.state import PartitionState, Summary, summarize

        form = output_format(form)
        rows: list[Documented]
        if partitions:
            rows = [partition for state in states for partition in state.partitions]
        else:
            rows = [summary for state in states for summary in summarize(state)]
        if form == "json":
            unmatched = [state for state in states if not state.left_out.taking(outside=True).is_usual]
            write_documents([*rows, *unmatched, *former])
        else:
            _print_rows(PartitionState if partitions else Summary, rows, form)
            # A CSV has one kind of row.
            _print_ignored(states, err=form == "csv")
            for line in first_lines(list(map(str, former)), FEW, "and {more:,} more; --format json names all"):
                echo(line, err=form == "csv")


def _read(stream: "OpenStream", wanted: "Wanted") -> "StreamState":
    """Return the state of the selected partitions."""
    from lake_assets.streams.select import matching
    from lake_assets.upkeep.report.state import only_partitions, read_stream_state

    with usage_errors(PartitionError, LayoutError):
        is_wanted = matching(stream, wanted.texts)
    state = read_stream_state(stream)
    return state if wanted.is_empty else only_partitions(state, wanted, is_wanted)


def _write_page(file: Path, streams: "Sequence[OpenStream]", states: "Sequence[StreamState]") -> None:
    from lake_assets.upkeep.report.html import page, section

    sections = [section(stream, state) for stream, state in zip(streams, states, strict=True)]
    title = f"Partitions of {', '.join(stream.name for stream in streams)}"
    body = page(sections, title, dt.datetime.now(dt.UTC)).encode()
    try:
        file.write_bytes(body)
    except OSError as error:
        raise StorageError(f"{file} cannot be written: {error.strerror}:", "choose another file.") from error
    info(f"{file}: {size(len(body))}")


def _print_ignored(states: "Sequence[StreamState]", *, err: bool) -> None:
    """Print what no refresh changes now: objects in no partition, partitions that failed or are held, bad objects."""
    from lake_assets.upkeep.report.state import held_text

    for state in states:
        print_left_out(state.stream, state.left_out, err=err)
        outside = state.in_state("outside")
        retried = [partition for partition in state.partitions if partition.retry is not None]
        letters = count(sum(letter.rows for letter in state.dead_letters), "dead letter")
        for subject, lines in (
            (count(len(retried), "failed partition"), [f"{p.partition} is {p.retry_text}" for p in retried]),
            (f"{count(len(outside), 'partition')} outside the config", [_outside(p) for p in outside]),
            (count(len(state.held), "held partition"), [held_text(p) for p in state.held]),
            (f"{count(len(state.edited), 'partition')} with rows of another client", state.edited),
            (count(len(state.quarantined), "quarantined object"), list(state.quarantined.values())),
            (letters, list(map(str, state.dead_letters))),
        ):
            if lines:
                echo(f"{state.stream}: {subject}:", err=err)
                shown = first_lines(
                    [f"  {line}" for line in lines], FEW, "  and {more:,} more; --format json names all"
                )
                echo("\n".join(shown), err=err)


def _outside(state: "PartitionState") -> str:
    rows = "none of its rows are in the lake" if state.rows is None else f"{count(state.rows, 'row')} in the lake"
    return f"{state.partition} ({count(state.objects, 'object')} landed, {rows}): {state.outside}"


def _print_rows(kind: "type[Summary | PartitionState]", rows: "Sequence[Documented]", form: Format) -> None:
    if form == "csv":
        write_csv_of(kind, rows)
        return
    columns = columns_of(kind)
    values = [[getattr(row, name) for name in columns] for row in rows]
    for seldom in _SELDOM.intersection(columns):
        at = columns.index(seldom)
        if not any(row[at] for row in values):
            columns, values = columns[:at] + columns[at + 1 :], [row[:at] + row[at + 1 :] for row in values]
    texts = [[_text(value) for value in row] for row in values]
    numbers = {name for at, name in enumerate(columns) if any(isinstance(row[at], int) for row in values)}
    least = ("bytes", "size", "objects", "snapshot", "held", "outside", "newest_commit", "committed_at")
    print_table(text_table(columns, texts, right=numbers), least)


def _text(value: object) -> str:
    if isinstance(value, dt.datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}"
    if isinstance(value, int):
        return f"{value:,}"
    return "" if value is None else str(value)


@click.command()
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "json", "prometheus"]),
    default="table",
    show_default=True,
    help="prometheus: the text format of Prometheus, for the node exporter's textfile collector.",
)
@click.pass_obj
def metrics(options: Options, form: str) -> None:
    """Measure lag, partitions, files and catalogs.

    Landing zones are listed, and the ledgers and catalogs are read. If OpenTelemetry's environment variable
    OTEL_EXPORTER_OTLP_ENDPOINT is set, the figures are sent there too; this needs the extra `otel`.
    """
    from lake_assets.upkeep.exports import set_gauges
    from lake_assets.upkeep.report.metrics import gauges, prometheus_text

    values = list(gauges(options.config))
    set_gauges(values)
    if form == "prometheus":
        echo(prometheus_text(values).rstrip("\n"))
    elif form == "json":
        write_documents(values)
    else:
        rows = [
            (v.metric, " ".join(f"{k}={text}" for k, text in v.attributes.items()), f"{v.value:,.15g}") for v in values
        ]
        print_table(text_table(["metric", "of", "value"], rows, right=["value"]))

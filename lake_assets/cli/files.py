"""The command `files`: what has become of each landed object."""

# ruff: noqa: PLC0415 - imports inside functions keep `--help` quick

from typing import TYPE_CHECKING

import click

from lake_assets.cli.common import Options, stream_argument
from lake_assets.cli.output import Format, format_option, print_table, table_of, write_rows
from lake_assets.cli.selecting import selected_or_all, selection_options
from lake_assets.cli.terminal import echo
from lake_assets.layout.texts import count, size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lake_assets.report.objects import FileEntry, ObjectState
    from lake_assets.selection.select import Wanted

STATES = ("loaded", "quarantined", "changed", "waiting", "gone", "left_out")


@click.command()
@stream_argument
@selection_options("the whole landing zone")
@click.option("--state", "states", multiple=True, type=click.Choice(STATES), help="Only such objects; repeatable.")
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
    from lake_assets.report.objects import FileEntry, file_entries

    opened = options.stream(stream)
    selection = selected_or_all(opened, wanted, outside=True)
    found = file_entries(opened, None if selection is None else selection.partitions)
    entries = [entry for entry in found if not states or entry.state in states]
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
    table = table_of(columns + ["error"] * has_errors, texts, right={"rows", "size"})
    print_table(table, ["size", "run", "loaded (UTC)"])
    echo(count(len(entries), "object"))

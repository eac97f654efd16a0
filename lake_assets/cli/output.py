"""How results are written to standard output: a table for people, CSV or JSON for programs."""

# ruff: noqa: PLC0415 - imports inside functions keep `--help` quick

import csv
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import click

from lake_assets.cli.terminal import console, echo, table_width
from lake_assets.escapes import visible, visible_name
from lake_assets.layout.texts import first_lines

if TYPE_CHECKING:
    from rich.table import Table

    from lake_assets.streams.left_out import LeftOut

Format = Literal["table", "csv", "json"]
Command = TypeVar("Command", bound=Callable[..., Any])

FOLDERS = 10  # with objects in no partition, that are shown
CELL_WIDTH = 100  # characters; longer texts are folded

format_option = click.option(
    "--format",
    "form",
    type=click.Choice(["table", "csv", "json"]),
    help="Default: table on a terminal, csv into a pipe or file.",
)


def output_format(form: Format | None) -> Format:
    """The format of the option `--format`, or the default: a table on a terminal, CSV otherwise."""
    return form or ("table" if sys.stdout.isatty() else "csv")


def write_csv(columns: Sequence[str], rows: Iterable[Sequence[str | None]]) -> None:
    """Write a header and the rows; NULL is an empty field."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)


def write_json(objects: Iterable[str]) -> None:
    """Write a JSON array, one object per line; the objects are JSON texts."""
    before = "[\n"
    for text in objects:
        sys.stdout.write(before + text)
        before = ",\n"
    sys.stdout.write("[]\n" if before == "[\n" else "\n]\n")


def table_of(columns: Sequence[str], rows: Iterable[Sequence[str | None]], *, right: Collection[str] = ()) -> "Table":
    """A table of texts, control characters escaped; NULL is dimmed, and the columns in `right` are aligned right."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    for name in columns:
        table.add_column(
            Text(visible_name(name)),
            justify="right" if name in right else "left",
            max_width=CELL_WIDTH,
            overflow="fold",
        )
    for row in rows:
        table.add_row(*(Text("NULL", style="dim") if cell is None else Text(visible(cell)) for cell in row))
    return table


def print_table(table: "Table") -> None:
    """Print a table without cutting a cell.

    If `COLUMNS` is set, the table is at most that wide, and its cells are folded. Otherwise it has its full width, and
    a narrower terminal wraps the lines.
    """
    from rich.measure import Measurement

    width = table_width()
    if width is None:
        screen = console()
        width = max(screen.width, Measurement.get(screen, screen.options.update(max_width=10_000), table).maximum)
    console(width=width).print(table)


def print_left_out(stream: str, left_out: "LeftOut", *, err: bool = False) -> None:
    """Print how many objects no refresh reads, and the folders of those in no partition; nothing if that is usual."""
    if left_out.is_usual:
        return
    echo(f"{stream}: {left_out}: `lake-assets plan {stream} --left-out`", err=err)
    folders = [f"  {folder}" for folder in left_out.unmatched_folders]
    for line in first_lines(folders, FOLDERS, "  and {more:,} more folders"):
        echo(line, err=err)

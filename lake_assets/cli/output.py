"""How results are written to standard output: a table for people, CSV or JSON for programs."""

# ruff: noqa: PLC0415 - imports inside functions keep `--help` quick

import csv
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import click

from lake_assets.cli.terminal import console, wanted_width

if TYPE_CHECKING:
    from rich.table import Table

Format = Literal["table", "csv", "json"]
Command = TypeVar("Command", bound=Callable[..., Any])

CELL_WIDTH = 100  # characters; longer texts are folded


def format_option(command: Command) -> Command:
    """The option `--format`; see `chosen`."""
    choose = click.option(
        "--format",
        "form",
        type=click.Choice(["table", "csv", "json"]),
        help="Default: table on a terminal, csv into a pipe or file.",
    )
    return choose(command)


def chosen(given: Format | None) -> Format:
    """The format that was asked for, or the one that whoever reads the output can use."""
    return given or ("table" if sys.stdout.isatty() else "csv")


def write_csv(columns: Sequence[str], rows: Iterable[Sequence[str | None]]) -> None:
    """A header and the rows; NULL is an empty field."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)


def write_json(objects: Iterable[str]) -> None:
    """An array with an object a line, each of them JSON already."""
    before = "[\n"
    for text in objects:
        sys.stdout.write(before + text)
        before = ",\n"
    sys.stdout.write("[]\n" if before == "[\n" else "\n]\n")


def table_of(columns: Sequence[str], rows: Iterable[Sequence[str | None]], *, right: Collection[str] = ()) -> "Table":
    """A table of texts as they are, NULL dimmed, the columns named in `right` set to the right."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    for name in columns:
        table.add_column(
            Text(name), justify="right" if name in right else "left", max_width=CELL_WIDTH, overflow="fold"
        )
    for row in rows:
        table.add_row(*(Text("NULL", style="dim") if cell is None else Text(cell) for cell in row))
    return table


def print_table(table: "Table") -> None:
    """Print a table, of which no cell is cut.

    If `COLUMNS` is set, the table is no wider, and its cells are folded. Otherwise it has its full width: a terminal
    that is too narrow wraps the lines.
    """
    from rich.measure import Measurement

    width = wanted_width()
    if width is None:
        own = console()
        width = max(own.width, Measurement.get(own, own.options.update(max_width=10_000), table).maximum)
    console(width=width).print(table)

"""How results and errors are printed: a table for people, CSV or JSON for programs; an error that repeats once."""

# ruff: noqa: PLC0415 - imports inside functions keep `--help` quick

import csv
import datetime as dt
import json
import logging
import os
import re
import shutil
import sys
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import click

from lake_assets.base.errors import text_of
from lake_assets.base.events import VARIABLE, LogFormat, report, stop_json, write_json
from lake_assets.base.texts import count, first_lines, several, visible, visible_name
from lake_assets.cli.interrupt import interrupt

if TYPE_CHECKING:
    from pydantic import TypeAdapter
    from rich.console import Console
    from rich.table import Table

    from lake_assets.base.json_dataclasses import Documented
    from lake_assets.ingest.outcome import Refreshed
    from lake_assets.lake.commit.deltas import DeltaFile
    from lake_assets.streams.left_out import LeftOut


log_format_option = click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    envvar=VARIABLE,
    help=f"The log: text, or a JSON object a line on standard error. Default: ${VARIABLE}, then text.",
)

_handlers: list[logging.Handler] = []
_is_quiet = False


def set_log_format(form: LogFormat) -> None:
    """Write JSON lines from now on, or lines for people."""
    while _handlers:
        stop_json(_handlers.pop())
    if form == "json":
        _handlers.append(write_json())


def is_json() -> bool:
    """Return whether the log of this process is JSON lines."""
    return bool(_handlers)


def set_quiet(*, quiet: bool) -> None:
    """Print only errors and results from now on, or all."""
    global _is_quiet  # noqa: PLW0603 - the state of the process
    _is_quiet = quiet


def is_quiet() -> bool:
    """Return whether this process prints only errors and results."""
    return _is_quiet


_SGR = re.compile("\x1b\\[([0-9]{1,2})m")  # a code of colour or weight
_CODES = re.compile("\ufdd0([012]|3[1-7])\ufdd1")  # noncharacters of Unicode


def style(text: str, *, fg: str | None = None, bold: bool = False, dim: bool = False) -> str:
    """Return the text in a colour or weight, for `echo`."""
    before, after = click.style("\0", fg=fg, bold=bold or None, dim=dim or None).split("\0")
    return _SGR.sub("\ufdd0\\1\ufdd1", before) + text + _SGR.sub("\ufdd0\\1\ufdd1", after)


def echo(text: object = "", *, err: bool = False) -> None:
    """Print lines, with the colours of `style`; control characters of names and foreign texts are escaped.

    Lines for standard error are an event `message` if the log is JSON.
    """
    if err and is_json():
        report("message", message=_CODES.sub("", str(text)).strip())
        return
    parts = _CODES.split(str(text))
    codes = [f"\x1b[{number}m" for number in parts[1::2]] + [""]
    stream = sys.stderr if err else sys.stdout
    # While a progress bar is shown, the stream is one of rich's. It has no encoding, so click would write around it.
    above_a_bar = stream if hasattr(stream, "rich_proxied_file") else None
    text = "".join(visible(part) + code for part, code in zip(parts[::2], codes, strict=True))
    # In a thread of a run, click does not find the context, whose colours are off.
    click.echo(text, file=above_a_bar, err=err, color=False if is_plain() else None)


def info(text: object = "", *, err: bool = False) -> None:
    """Print lines about what a command has done or is about to do, as `echo` does; nothing if it is quiet."""
    if not is_quiet():
        echo(text, err=err)


def is_plain() -> bool:
    """Return whether escape codes are off: `NO_COLOR` is set to any text (https://no-color.org)."""
    return bool(os.environ.get("NO_COLOR"))


def table_width() -> int | None:
    """Return the width of tables in characters: that of the terminal, or of `COLUMNS`; None if there is neither."""
    if sys.stdout.isatty():
        return shutil.get_terminal_size().columns
    text = os.environ.get("COLUMNS", "")
    return int(text) if text.isascii() and text.isdigit() and int(text) > 0 else None


def console(*, stderr: bool = False, width: int | None = None) -> "Console":
    """Return a rich console, without colours and bold text if `NO_COLOR` is set."""
    from rich.console import Console

    return Console(stderr=stderr, width=width, color_system=None if is_plain() else "auto")


def exported_text(deltas: "Sequence[DeltaFile]") -> str:
    """Return how many changes a commit exported, and in how many files."""
    if not deltas:
        return "no row changed, so none was exported"
    inserted, deleted = sum(file.rows_inserted for file in deltas), sum(file.rows_deleted for file in deltas)
    return f"exported {count(inserted, 'insert')} and {count(deleted, 'delete')} in {count(len(deltas), 'file')}"


Form = Literal["text", "json"]
Format = Literal["table", "csv", "json"]
CommandFunction = TypeVar("CommandFunction", bound=Callable[..., Any])
DocumentRow = TypeVar("DocumentRow", bound="Documented")

FOLDERS = 10  # with objects in no partition, that are shown
CELL_WIDTH = 100  # characters; longer texts are folded where nothing is cut
KEYS = ("stream", "partition", "finished (UTC)", "time (UTC)")  # columns of texts that are never cut
FLOOR = 12  # characters that a narrow terminal leaves to texts
FLOORS = {"error": 16} | dict.fromkeys(KEYS, 32)  # and to those of some columns

format_option = click.option(
    "--format",
    "form",
    type=click.Choice(["table", "csv", "json"]),
    help="Default: table on a terminal, csv into a pipe or file.",
)


form_option = click.option(
    "--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Of the output."
)


JSON_COMMANDS = (  # with documents
    "doctor",
    "validate",
    "plan",
    "ingest",
    "apply",
    "index",
    "query",
    "ledger",
    "files",
    "history",
    "diff",
    "restore",
    "report",
    "check",
    "sync-dagster",
    "metrics",
    "maintain",
    "forget",
    "catalog backup",
    "catalog backups",
    "catalog restore",
    "catalog rebuild",
)


def output_format(form: Format | None) -> Format:
    """Return the format of the option `--format`, or the default: a table on a terminal, CSV otherwise."""
    return form or ("table" if sys.stdout.isatty() else "csv")


def write_csv(columns: Sequence[str], rows: Iterable[Sequence[str | None]]) -> None:
    """Write a header and the rows; NULL is an empty field."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)


def print_json(objects: Iterable[str]) -> None:
    """Write a JSON array, one object per line; the objects are JSON texts."""
    before = "[\n"
    for text in objects:
        sys.stdout.write(before + text)
        before = ",\n"
    sys.stdout.write("[]\n" if before == "[\n" else "\n]\n")


def text_table(columns: Sequence[str], rows: Iterable[Sequence[str | None]], *, right: Collection[str] = ()) -> "Table":
    """Return a table of texts, control characters escaped; NULL is dimmed, the columns in `right` are aligned right."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    for name in columns:
        table.add_column(Text(visible_name(name)), justify="right" if name in right else "left", max_width=CELL_WIDTH)
    for row in rows:
        table.add_row(*(Text("NULL", style="dim") if cell is None else Text(visible(cell)) for cell in row))
    return table


def print_table(table: "Table", least: Sequence[str] = ()) -> None:
    """Print a table of texts that is as wide as the terminal at most.

    On a terminal, texts that are too long end in an ellipsis. Numbers and the columns of `KEYS` are never cut: a long
    key is folded, as are columns whose overflow is `fold`. If that is not enough, columns are left out, those of
    `least` first, in this order, then the last ones, and a line names them. In a pipe or file nothing is cut; if
    `COLUMNS` is set, cells are folded.
    """
    from rich.measure import Measurement

    width, left_out = table_width(), list[str]()
    if width is not None and sys.stdout.isatty() and len(table.columns) > 1:
        left_out = _fit(table, width, least)
    else:
        for column in table.columns:
            column.overflow = "fold"
    if width is None:
        screen = console()
        width = max(screen.width, Measurement.get(screen, screen.options.update(max_width=10_000), table).maximum)
    console(width=width).print(table)
    if left_out:
        echo(style(f"left out: {several(left_out, 5)}; see --format json", dim=True))


def _fit(table: "Table", width: int, least: Sequence[str]) -> list[str]:
    """Narrow the table to a width; returns the names of columns that are left out."""
    from rich.cells import cell_len

    columns, gap = table.columns, 2 + (table.box is not None)
    names = [str(column.header) for column in columns]
    lines = ("\n".join([name, *map(str, column.cells)]) for name, column in zip(names, columns, strict=True))
    widths = [max(map(cell_len, text.split("\n"))) for text in lines]
    floors = [
        size if column.justify == "right" else min(size, max(cell_len(name), FLOORS.get(name, FLOOR)))
        for name, column, size in zip(names, columns, widths, strict=True)
    ]
    rank = {name: -number for number, name in enumerate(least, -len(least))}  # of one that is not among them: 0
    shown = [0]
    for at in sorted(range(1, len(columns)), key=lambda at: rank.get(names[at], 0)):
        if sum(floors[other] for other in (*shown, at)) + gap * len(shown) <= width:
            shown.append(at)
    shown.sort()
    free = width - gap * (len(shown) - 1)
    while sum(widths[at] for at in shown) > free and any(widths[at] > floors[at] for at in shown):
        widths[max(shown, key=lambda at: widths[at] - floors[at])] -= 1
    for index, at in enumerate(shown):
        if names[at] in KEYS:
            columns[at].overflow = "fold"
        columns[at].width, columns[at].no_wrap = widths[at], columns[at].overflow != "fold"
        columns[at]._index = index  # noqa: SLF001 - rich takes the column for the last one, without padding, by it
    table.columns = [columns[at] for at in shown]
    return [name for at, name in enumerate(names) if at not in shown]


def print_left_out(stream: str, left_out: "LeftOut", *, err: bool = False) -> None:
    """Print how many objects no refresh reads, and the folders of those in no partition; nothing if that is usual."""
    if left_out.is_usual:
        return
    echo(f"{stream}: {left_out}: `lake-assets plan {stream} --left-out`", err=err)
    folders = [f"  {folder}" for folder in left_out.unmatched_folders]
    for line in first_lines(folders, FOLDERS, "  and {more:,} more folders"):
        echo(line, err=err)


def json_of(document: "Documented", indent: int | None = None) -> str:
    """Return the document as a JSON text; times as ISO 8601."""
    kind: Any = type(document)
    values = _adapter(kind).dump_python(document, by_alias=True)
    return json.dumps(values, indent=indent, default=dt.datetime.isoformat)


@cache
def _adapter(kind: Any) -> "TypeAdapter[Any]":  # noqa: ANN401 - a type of documents
    """Return Pydantic's serializer of a kind of document, which takes longer to make than to use."""
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


def write_documents(documents: "Iterable[Documented]") -> None:
    """Print an array of documents, one a line."""
    print_json(map(json_of, documents))


@contextmanager
def collected(form: Form) -> "Iterator[list[Documented]]":
    """Collect a block's documents, and print them as an array when it ends, if the form is `json`.

    They are printed after an error too: what was done by then is done.
    """
    documents: list[Documented] = []
    try:
        yield documents
    finally:
        if form == "json":
            write_documents(documents)


def write_csv_of(kind: "type[Documented]", documents: "Iterable[Documented]") -> None:
    """Print documents of one kind as CSV: a column for each field; times as ISO 8601, NULL as an empty field."""
    names = columns_of(kind)
    write_csv(names, ([_cell(getattr(document, name)) for name in names] for document in documents))


def write_rows(
    form: Format | None,
    kind: "type[DocumentRow]",
    rows: "Sequence[DocumentRow]",
    show: "Callable[[Sequence[DocumentRow]], None]",
) -> None:
    """Print documents of one kind in the format of the option `--format`; `show` prints them as a table."""
    match output_format(form):
        case "json":
            write_documents(rows)
        case "csv":
            write_csv_of(kind, rows)
        case "table":
            show(rows)


def columns_of(kind: Any) -> list[str]:  # noqa: ANN401 - a type of documents
    """Return the names of a document's fields."""
    return list(_adapter(kind).json_schema(mode="serialization", by_alias=False)["properties"])


def _cell(value: object) -> str | None:
    if value is None:
        return None
    return value.isoformat() if isinstance(value, dt.datetime) else str(value)


@contextmanager
def documented(form: Form, run: "Refreshed") -> Iterator[None]:
    """Print what a run did when the block ends, also by an error, which is raised again; nothing if not `json`."""
    try:
        yield
    except BaseException as error:
        # A library may have turned the interrupt into an error of its own.
        run.error = KeyboardInterrupt() if interrupt.pressed else error
        raise
    finally:
        if form == "json":
            echo(json_of(run, indent=1))


_FAILED = style("failed", fg="red")


class Failures:
    """The errors of a command that continues after an error. Each different error is printed once."""

    def __init__(self, *, debug: bool, noun: str = "partition", reported: bool = False, err: bool = False) -> None:
        self._err = err  # print all on standard error, because standard output has a document
        self._debug = debug  # print tracebacks too
        self._reported = reported  # each failure is an event already, which the JSON log has
        self._noun = noun
        self._names_by_text: dict[str, list[str]] = {}

    @property
    def count(self) -> int:
        """The number of failures so far."""
        return sum(map(len, self._names_by_text.values()))

    def add(self, name: str, error: Exception) -> None:
        """Count a failure, and print its error unless it was printed before."""
        names = self._names_by_text.setdefault(text_of(error), [])
        names.append(name)
        if is_json():
            if not self._reported:
                report_error(error, debug=self._debug, name=name)
        elif len(names) == 1:
            echo(f"{_FAILED}     {name}", err=self._err)
            print_error(error, debug=self._debug)

    def print_repeated(self) -> None:
        """Print the failures whose error was printed for another one; call it when the command ends."""
        for first, *others in self._names_by_text.values():
            if others and not is_json():
                more = count(len(others), f"more {self._noun}")
                echo(f"{_FAILED}     {more} with the same error as {first}: {several(others)}", err=self._err)


def print_error(error: Exception, *, debug: bool) -> None:
    """Print the error as one paragraph, after its traceback with `debug`; an unexpected error is called a bug."""
    if is_json():
        report_error(error, debug=debug)
        return
    if debug:
        echo("".join(traceback.format_exception(error)), err=True)
    echo(style("Error: ", fg="red", bold=True) + text_of(error), err=True)


def report_error(error: Exception, *, debug: bool, name: str | None = None) -> None:
    """Report the error as an event, with its traceback with `debug`."""
    text = text_of(error) if name is None else f"{name}: {text_of(error)}"
    if debug:
        text += "\n" + "".join(traceback.format_exception(error))
    report("error", level=logging.ERROR, kind=type(error).__name__, message=text)

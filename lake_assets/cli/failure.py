"""Errors on standard error: an error that several partitions share is printed once."""

import logging
import traceback

from lake_assets.base.errors import text_of
from lake_assets.base.events import report
from lake_assets.base.texts import count, several
from lake_assets.cli.output import echo, is_json, style

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

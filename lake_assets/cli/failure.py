"""Errors on standard error: one that several partitions share is printed once."""

import traceback

import click

from lake_assets.cli.words import count
from lake_assets.errors import LakeAssetsError
from lake_assets.layout.texts import several

_FAILED = click.style("failed", fg="red")


class Failures:
    """The errors of a command that goes on after one, each told when it first comes.

    Args:
        debug: tell the traceback too.
        noun: what has the errors.
    """

    def __init__(self, *, debug: bool, noun: str = "partition") -> None:
        self._debug = debug
        self._noun = noun
        self._by_text: dict[str, list[str]] = {}

    @property
    def count(self) -> int:
        """How many failed so far."""
        return sum(map(len, self._by_text.values()))

    def tell(self, name: str, error: Exception) -> None:
        """Note that this one failed; the error is printed if it is a new one."""
        names = self._by_text.setdefault(text_of(error), [])
        names.append(name)
        if len(names) == 1:
            click.echo(f"{_FAILED}     {name}")
            report(error, debug=self._debug)

    def tell_rest(self) -> None:
        """Print which others had an error that was printed for the first of them; called when the command ends."""
        for first, *others in self._by_text.values():
            if others:
                more = count(len(others), f"more {self._noun}")
                click.echo(f"{_FAILED}     {more} by the same error as {first}: {several(others)}")


def report(error: Exception, *, debug: bool) -> None:
    """Print the error as one paragraph; one that nobody meant says that it is a bug. `debug`: its traceback too."""
    if debug:
        click.echo("".join(traceback.format_exception(error)), err=True)
    click.echo(click.style("Error: ", fg="red", bold=True) + text_of(error), err=True)


def text_of(error: Exception) -> str:
    """What is printed of an error, with its notes."""
    notes = " ".join(getattr(error, "__notes__", ()))
    text = str(error) if isinstance(error, LakeAssetsError) else _bug(error)
    return f"{text} {notes}".rstrip()


def _bug(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    what = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
    return f"{what} (this is a bug of lake-assets: run `lake-assets --debug …` to see where, and report it)"

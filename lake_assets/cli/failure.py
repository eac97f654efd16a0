"""Telling an error on standard error."""

import traceback

import click

from lake_assets.errors import LakeAssetsError


def report(error: Exception, *, debug: bool) -> None:
    """Print the error as one paragraph; one that nobody meant says that it is a bug. `debug`: its traceback too."""
    if debug:
        click.echo("".join(traceback.format_exception(error)), err=True)
    notes = " ".join(getattr(error, "__notes__", ()))
    text = str(error) if isinstance(error, LakeAssetsError) else _bug(error)
    click.echo(click.style("Error: ", fg="red", bold=True) + f"{text} {notes}".rstrip(), err=True)


def _bug(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    what = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
    return f"{what} (this is a bug of lake-assets: run `lake-assets --debug …` to see where, and report it)"

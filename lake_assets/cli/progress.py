"""Progress bars: on standard error, so that output into a pipe stays clean, and only on a terminal."""

import sys

from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from lake_assets.cli.terminal import console, is_plain


def progress() -> Progress:
    """A bar for the time of a `with`; it leaves nothing behind, and lines may be printed meanwhile."""
    error = console(stderr=True)
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=error,
        transient=True,
        disable=is_plain() or not error.is_terminal,  # it moves the cursor, by escape codes
        # Otherwise rich takes what is printed to the bar's own stream, and a pipe would get nothing.
        redirect_stdout=sys.stdout.isatty(),
    )

"""Progress bars: on standard error, so that piped output stays clean, and only on a terminal."""

import sys

from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from lake_assets.cli.logs import is_json
from lake_assets.cli.terminal import console, is_plain


def progress() -> Progress:
    """A progress bar that is shown within a `with` block and removed after it; lines can be printed above it."""
    error = console(stderr=True)
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=error,
        transient=True,
        disable=is_plain() or is_json() or not error.is_terminal,  # it moves the cursor, by escape codes
        # Otherwise rich sends printed lines to the bar's own stream, and a pipe gets nothing.
        redirect_stdout=sys.stdout.isatty(),
    )

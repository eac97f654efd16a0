"""Progress bars: on standard error, so that output into a pipe stays clean, and only on a terminal."""

import sys

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn


def progress() -> Progress:
    """A bar for the time of a `with`; it leaves nothing behind, and lines may be printed meanwhile."""
    console = Console(stderr=True)
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
        # Otherwise rich takes what is printed to the bar's own stream, and a pipe would get nothing.
        redirect_stdout=sys.stdout.isatty(),
    )

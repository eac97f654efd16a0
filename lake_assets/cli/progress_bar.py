"""The progress bar: on standard error, so that piped output stays clean, and only on a terminal."""

# ruff: noqa: PLC0415 - imports inside functions keep `--help` quick

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock, Timer
from typing import TYPE_CHECKING

from lake_assets.base.events import Count, watching
from lake_assets.cli.output import console, is_plain, is_quiet

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

SECONDS = 2.0  # a quicker operation has no bar


@contextmanager
def progress_bar(*, is_off: bool = False) -> Iterator[None]:
    """Show what the block counts as one bar, which is removed after it; lines can be printed above it.

    The bar appears when an operation has taken two seconds. There is none if standard error is not a terminal or the
    command is quiet, and none if `NO_COLOR` is set, because a bar moves the cursor by escape codes.
    """
    if is_off or is_plain() or not sys.stderr.isatty():  # by FORCE_COLOR a pipe is a terminal for rich
        yield
        return
    bar = _Bar()
    try:
        with watching(bar.count):
            yield
    finally:
        bar.close()


class _Bar:
    """The counts that are under way, outermost first. The innermost is shown."""

    def __init__(self) -> None:
        self._lock = RLock()
        self._tasks: list[TaskID] = []
        self._progress: Progress | None = None
        self._timer: Timer | None = None

    @contextmanager
    def count(self, title: str, unit: str, total: int | None) -> Iterator[Count]:
        with self._lock:
            if self._progress is None:
                self._progress = _progress()
                self._timer = Timer(SECONDS, _start, [self._progress])
                self._timer.daemon = True
                self._timer.start()
            progress = self._progress
            self._show_innermost(visible=False)
            task = progress.add_task(title, total=total, unit=unit)
            self._tasks.append(task)
        try:
            yield _Count(progress, task, title)
        finally:
            with self._lock:
                if task in self._tasks:  # else the bar was closed meanwhile
                    self._tasks.remove(task)
                    progress.remove_task(task)
                    self._show_innermost(visible=True)
                    if not self._tasks:
                        self.close()

    def close(self) -> None:
        """Remove the bar, with all counts that are under way."""
        with self._lock:
            progress, timer = self._progress, self._timer
            self._progress = self._timer = None
            self._tasks.clear()
        if progress is not None and timer is not None:
            timer.cancel()
            timer.join()  # it may be drawing the bar
            progress.stop()

    def _show_innermost(self, *, visible: bool) -> None:
        if self._tasks and self._progress is not None:
            self._progress.update(self._tasks[-1], visible=visible)


class _Count(Count):
    """A count, as a task of rich's."""

    def __init__(self, progress: "Progress", task: "TaskID", title: str) -> None:
        self._progress = progress
        self._task = task
        self._title = title

    def advance(self, number: int = 1, /) -> None:
        if self._task in self._progress.task_ids:
            self._progress.advance(self._task, number)

    def describe(self, doing: str | None, /) -> None:
        if self._task in self._progress.task_ids:
            self._progress.update(self._task, description=doing or self._title)


def _start(progress: "Progress") -> None:
    if not is_quiet():  # an option after the command's name says so when the block has begun
        progress.start()


def _progress() -> "Progress":
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[unit]}", markup=False),
        TimeRemainingColumn(),
        console=console(stderr=True),
        transient=True,
        # Otherwise rich sends printed lines to the bar's own stream, and a pipe gets nothing.
        redirect_stdout=sys.stdout.isatty(),
    )

"""How far an operation is, which a command shows as a progress bar, and whether it is to end.

Code that does a long thing many times counts here, and has a checkpoint between its steps. In a library's use and in
Dagster nobody watches, and both cost nothing.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TypeVar

Item = TypeVar("Item")


class Count:
    """What has been done so far; nobody sees it here. The methods may be called by any thread, and do not raise."""

    def advance(self, number: int = 1, /) -> None:
        """Count so many more as done."""

    def describe(self, doing: str | None, /) -> None:
        """Show what is being done at this moment in place of the title; the title again with None."""


Watcher = Callable[[str, str, int | None], AbstractContextManager[Count]]
"""Gets title, unit and total of each count; its context is that of the count."""


UNWATCHED = Count()

_watcher: Watcher | None = None  # of all threads of the process


@contextmanager
def watching(watcher: Watcher) -> Iterator[None]:
    """Show all counts to the watcher, within the block."""
    global _watcher  # noqa: PLW0603 - of all threads
    before, _watcher = _watcher, watcher
    try:
        yield
    finally:
        _watcher = before


def is_watched() -> bool:
    """Return whether counts are shown."""
    return _watcher is not None


def counting(title: str, unit: str, total: int | None = None) -> AbstractContextManager[Count]:
    """Return a count for the duration of a block, which tells it what is done.

    The title is what is being done, such as `plan sales`, and the unit what is counted, in the plural; `bytes` and `%`
    are shown as sizes and shares. `total` is None if it is unknown.
    """
    return nullcontext(UNWATCHED) if _watcher is None else _watcher(title, unit, total)


def counted(items: Iterable[Item], title: str, unit: str, total: int | None = None) -> Iterator[Item]:
    """Yield the items; each is done when the next one is asked for. The arguments are those of `counting`."""
    with counting(title, unit, total) as count:
        for item in items:
            yield item
            count.advance()


_check: Callable[[], object] | None = None  # of all threads of the process


@contextmanager
def ended_by(check: Callable[[], object]) -> Iterator[None]:
    """Call `check` at each checkpoint within the block; it raises what ends the operation, such as an interrupt."""
    global _check  # noqa: PLW0603 - of all threads
    before, _check = _check, check
    try:
        yield
    finally:
        _check = before


def checkpoint() -> None:
    """End the operation if it is to end. Called between two steps; a partition that has begun is then cancelled."""
    if _check is not None:
        _check()

"""Retries and polling: the errors that are retried, the limits, and the pauses between calls."""

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import tenacity
from tenacity import RetryCallState, wait_exponential, wait_random, wait_random_exponential

from lake_assets.base.events import report

Result = TypeVar("Result")
Transient = type[Exception] | Callable[[BaseException], object]
"""The errors that are retried."""
Pause = Callable[[RetryCallState], float]
"""Seconds between a call and the next one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """The limit of retries; the limit that is reached first ends them, and None means no limit."""

    retries: int | None = None  # calls after the first one
    seconds: float | None = None  # since the first call began

    def is_reached(self, state: RetryCallState) -> bool:
        """Return whether another call would exceed the limit."""
        if self.retries is not None and state.attempt_number > self.retries:
            return True
        return self.seconds is not None and (state.seconds_since_start or 0) >= self.seconds


def pause_between(least: float, most: float) -> Pause:
    """Return a random pause that does not grow. Seconds."""
    return wait_random(least, most)


def pause_up_to(first: float, longest: float) -> Pause:
    """Return a random pause from zero to a bound that doubles with each call, for competing writers. Seconds."""
    return wait_random_exponential(multiplier=first, max=longest)


def pause_from(first: float, longest: float) -> Pause:
    """Return a pause that doubles with each call, plus a random pause of up to `first`. Seconds."""
    return wait_exponential(multiplier=first, max=longest) + wait_random(0, first)


def pause_around(first: float, longest: float) -> Pause:
    """Return a random pause between half and all of a bound that doubles with each call. Seconds."""
    return wait_exponential(multiplier=first / 2, max=longest / 2) + wait_random_exponential(
        multiplier=first / 2, max=longest / 2
    )


def doublings(first: float, total: float) -> int:
    """Return the fewest pauses, each twice as long as the last one and the first of `first` seconds, up to `total`.

    Some clients only take a number of pauses that they double themselves.
    """
    return math.ceil(math.log2(total / first + 1)) if total > 0 else 0


def retry(
    work: Callable[[], Result], *, transient: Transient, limit: Limit | Callable[[BaseException], Limit], pause: Pause
) -> Result:
    """Call `work` until it returns; retry it after each transient error. Each retry is an event.

    The limit says how often, or for how long; it may depend on the last error, which is raised when it is reached. The
    event has the word for an error that `transient` returns, or else its type. Its text may have a secret.
    """

    def is_enough(state: RetryCallState) -> bool:
        error = state.outcome.exception() if state.outcome is not None else None
        of_error = limit if isinstance(limit, Limit) or error is None else limit(error)
        return isinstance(of_error, Limit) and of_error.is_reached(state)

    kind = ""

    def is_transient(error: BaseException) -> bool:
        nonlocal kind
        found = isinstance(error, transient) if isinstance(transient, type) else transient(error)
        kind = found if isinstance(found, str) else type(error).__name__
        return bool(found)

    def note(state: RetryCallState) -> None:
        report("retry", retry=state.attempt_number, kind=kind)

    condition = tenacity.retry_if_exception(is_transient)
    return tenacity.Retrying(retry=condition, stop=is_enough, wait=pause, reraise=True, before_sleep=note)(work)


def poll(
    is_done: Callable[[], bool], *, pause: Pause, limit: Limit = Limit(), stopped: threading.Event | None = None
) -> bool:
    """Call `is_done` until it returns True; False if the limit is reached or `stopped` is set first.

    When `stopped` is set, the pause ends at once and no further call is made.
    """
    event = stopped or threading.Event()
    return tenacity.Retrying(
        retry=tenacity.retry_if_result(lambda done: not (done or event.is_set())),
        stop=limit.is_reached,
        wait=pause,
        sleep=tenacity.sleep_using_event(event),
        retry_error_callback=lambda _: False,
    )(lambda: not event.is_set() and is_done())

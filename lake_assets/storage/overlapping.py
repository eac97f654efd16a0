"""Requests to a store for many objects or folders, which wait for it together."""

import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import TypeVar

from lake_assets.config.storages import AnyStorage

AT_ONCE = 16  # most of a request's time is network latency
LONG = 0.003  # seconds of work in a folder that is worth a thread, as on a network drive; most of it takes a tenth

In = TypeVar("In")
Out = TypeVar("Out")


def requested(storage: AnyStorage, work: Callable[[In], Out], items: Iterable[In]) -> Iterator[Out]:
    """Yield what the work on each item returns, in the order of the items; up to `AT_ONCE` of them wait together.

    In a folder they follow each other until one takes long.
    """
    remaining = iter(items)
    for item in remaining if storage.is_local else ():
        begun = time.perf_counter()
        result = work(item)
        is_long = time.perf_counter() - begun > LONG
        yield result
        if is_long:
            break
    if (first := next(remaining, None)) is not None:
        with ThreadPoolExecutor(AT_ONCE) as pool:
            yield from pool.map(work, chain([first], remaining))

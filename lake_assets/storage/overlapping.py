"""Requests to a store for many objects or folders, which wait for it together, or are one for neighbours."""

import time
from bisect import bisect
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, pairwise
from typing import TYPE_CHECKING, TypeVar

from lake_assets.config.storages import AnyStorage

if TYPE_CHECKING:
    from obstore import ObjectMeta

AT_ONCE = 16  # most of a request's time is network latency
LONG = 0.003  # seconds of work in a folder that is worth a thread, as on a network drive; most of it takes a tenth

WORTH = 64  # folders whose own listings take as long as a listing of 1,000 objects

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


def neighbours(prefixes: Collection[str]) -> list[list[str]]:
    """Return the prefixes that are to be listed together, sorted: many in one folder, or more in one around theirs.

    Prefixes that begin like others are in none, and those that one round of requests lists. Nor are any beside one with
    an empty name, which a client leaves out of its request.
    """
    rest = sorted(prefixes)
    if any("//" in f"/{prefix}" for prefix in rest) or any(
        following.startswith(prefix) for prefix, following in pairwise(rest)
    ):
        return []
    near: list[list[str]] = []
    places, least = {prefix: prefix.rstrip("/").rpartition("/")[0] for prefix in rest}, AT_ONCE
    while len(rest) >= least:
        by_folder: dict[str, list[str]] = defaultdict(list)
        for prefix in rest:
            by_folder[places[prefix]].append(prefix)
        near += [of_folder for of_folder in by_folder.values() if len(of_folder) >= least]
        rest = sorted(chain.from_iterable(of_folder for of_folder in by_folder.values() if len(of_folder) < least))
        places, least = {prefix: places[prefix].rpartition("/")[0] for prefix in rest}, 2 * least
    return near


def listing_position(text: str, *, tree: bool) -> str:
    """Return a text that sorts as the key, or its beginning, in a store that lists whole keys, or in tree order."""
    return text.replace("/", "\0") if tree else text


def passed(pages: Iterable[Sequence["ObjectMeta"]], prefixes: Sequence[str]) -> dict[str, list["ObjectMeta"]]:
    """Return the objects below those of the sorted prefixes that a listing passes while its pages are worth it.

    The listing begins before the first of them. One that turns out to be in no order passes those of its end only.
    """
    found: dict[str, list[ObjectMeta]] = defaultdict(list)
    last, orders, done = "", [False, True], 0
    for page in pages:
        keys = [meta["path"] for meta in page]
        for key, meta in zip(keys, page, strict=True):
            if (place := bisect(prefixes, key)) and key.startswith(prefixes[place - 1]):
                found[prefixes[place - 1]].append(meta)
        for tree in tuple(orders):
            at = [listing_position(key, tree=tree) for key in (last, *keys)]
            if any(key > following for key, following in pairwise(at)):
                orders.remove(tree)
        last = keys[-1]
        behind = {prefix for prefix in prefixes if orders and _is_behind(last, prefix, orders)}
        if len(behind) - done < WORTH * len(page) / 1000 or len(behind) == len(prefixes):
            return {prefix: found[prefix] for prefix in behind}
        done = len(behind)
    return {prefix: found[prefix] for prefix in prefixes}


def _is_behind(key: str, prefix: str, orders: Iterable[bool]) -> bool:
    """Return whether a listing that has come to a key has passed all keys that begin with the prefix."""
    return not key.startswith(prefix) and all(
        listing_position(key, tree=tree) > listing_position(prefix, tree=tree) for tree in orders
    )

"""What becomes of landed objects once their rows are in the lake, by a stream's `after_load`.

A run takes each object that its commit has read, under the ETag of that moment, and no object that it left out. What a
run did not get to, because it was killed or the store refused, maintenance does: it looks for landed objects that are
those of their partition's rows.
"""

import datetime as dt
import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from lake_assets.base.documented import Documented
from lake_assets.base.errors import SourceChangedError, StorageError
from lake_assets.base.texts import count
from lake_assets.config.sections import AfterLoad, Move
from lake_assets.config.storages import AnyStorage
from lake_assets.ingest.compare_objects import compare_partition, read_noted
from lake_assets.lake.ledger.read import last_runs
from lake_assets.storage.manifest import LandedObject
from lake_assets.storage.store import Store
from lake_assets.streams.landing_zone import list_landed
from lake_assets.streams.stream import OpenStream

_LOG = logging.getLogger(__name__)

_REQUESTS = 16  # in parallel: most of the time is network latency
_DONE = {"tag": "tagged", "delete": "deleted"}
_TAG = ("lake_assets", "loaded")
_TAGGED_LATER = dt.timedelta(days=7)  # after its commit: each object costs a request


@dataclass(frozen=True, slots=True)
class LoadedObject(Documented):
    """A landed object whose rows are in the lake, and what became of it by `after_load`."""

    uri: str
    """Its path or URI in the landing zone."""
    becomes: str
    """`tagged`, `deleted` or `moved`; or, if it was left, why."""


def after_load(stream: OpenStream, objects: Sequence[LandedObject]) -> list[LoadedObject]:
    """Tag, delete or move landed objects that the lake has the rows of; an object that has changed since is left.

    Objects that the store refuses are left too, with one warning for all: their rows are in the lake.
    """
    policy = stream.config.after_load
    if policy == "keep" or not objects:
        return []
    source, done = Store(stream.config.source), "moved" if isinstance(policy, Move) else _DONE[policy]

    def act(landed: LandedObject) -> str | StorageError:
        try:
            is_same = _take_away(source, landed, policy)
        except SourceChangedError:
            is_same = False
        except StorageError as error:
            return error
        return done if is_same else "changed since it was read"

    with ThreadPoolExecutor(_REQUESTS) as pool:
        ends = list(pool.map(act, objects))
    if errors := [end for end in ends if isinstance(end, StorageError)]:
        left = f"{stream.name}: after_load left {count(len(errors), 'loaded object')}"
        _LOG.warning("%s, which `lake-assets maintain` tries again: %s", left, errors[0])
    return [LoadedObject(landed.uri, str(end)) for landed, end in zip(objects, ends, strict=True)]


def _take_away(source: Store, landed: LandedObject, policy: AfterLoad) -> bool:
    """Return whether it was done; False if the object has changed."""
    if policy == "tag":
        return source.tag_unchanged(landed, *_TAG)
    if isinstance(policy, Move):
        _copy(source, landed, policy.move)
    return source.delete_unchanged(landed)


def _copy(source: Store, landed: LandedObject, archive: AnyStorage) -> None:
    """Copy an object to its key in the archive, unless a run has that was killed before it deleted the object."""
    if archive.is_local:
        Path(archive.root, landed.key).parent.mkdir(parents=True, exist_ok=True)
    target = Store(archive)
    copied = target.find(landed.key)
    if copied is None:
        target.copy(source.storage, landed, landed.key)
    elif copied.size != landed.size or source.get(landed.key, landed.etag) != target.get(landed.key, copied.etag):
        raise StorageError(f"{copied.uri} is another object than {landed.uri}:", "rename the one in the archive.")


def left_behind(stream: OpenStream, now: dt.datetime) -> list[LandedObject]:
    """Return the landed objects that the rows of their partitions were made of, and that `after_load` is to take.

    Partitions that a restore holds, or whose newest commit is one, are left out: their rows may be of other objects.
    """
    if stream.config.after_load == "keep":
        return []
    landed, _ = list_landed(stream)
    with stream.lake.open_if_exists() as session:
        noted = read_noted(session, stream, None)
        runs = {} if session is None else last_runs(session, stream.table)
    left: list[LandedObject] = []
    for partition, manifest in landed.items():
        last = runs.get(partition.path)
        if last is None or last.commit is None or last.is_held or last.commit.mode == "restore":
            continue
        is_old = last.committed_at is not None and last.committed_at < now - _TAGGED_LATER
        if stream.config.after_load == "tag" and is_old:
            continue
        left += compare_partition(stream, noted.get(partition.path, {}), manifest, quarantines=True).same
    return left

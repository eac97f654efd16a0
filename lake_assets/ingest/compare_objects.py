"""The objects that the rows of a partition were made of, compared with what has landed."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Annotated

from lake_assets.base.errors import ObjectRefusedError, SourceChangedError, SourceError
from lake_assets.base.json_dataclasses import AsFailure, AsText, Documented, NotInJson, in_json
from lake_assets.config.layout.partition import Partition
from lake_assets.lake.commit.change import ExpectedManifest
from lake_assets.lake.ledger.object_history import KnownObject, partition_objects
from lake_assets.lake.ledger.tables import MANIFEST, LedgerRow, Values, manifest_values, record
from lake_assets.lake.session import LakeSession
from lake_assets.storage.manifest import LandedObject, Manifest
from lake_assets.storage.overlapping import requested
from lake_assets.streams.stream import OpenStream

NAMED = 3  # changed objects of one partition, in its error


@dataclass(frozen=True, slots=True)
class Comparison:
    """The landed objects of a partition, compared with those that its rows were made of."""

    noted: Mapping[str, KnownObject] = field(default_factory=dict)  # by key: read, or left out
    names: Mapping[str, KnownObject] = field(default_factory=dict)  # the same, also by URI
    new: Manifest = Manifest(())  # noqa: RUF009 - it is frozen; unknown, or left out and tried again
    same: tuple[LandedObject, ...] = ()  # that the rows were made of
    new_versions: tuple[LandedObject, ...] = ()  # those of them that are other versions of the same content
    changed: tuple[LandedObject, ...] = ()  # known with other content
    vanished: tuple[KnownObject, ...] = ()  # their rows stay
    quarantined: tuple[LandedObject, ...] = ()  # were left out, and have not changed since
    taken: tuple[KnownObject, ...] = ()  # whose rows only the lake has, because `after_load` took the object away

    def known_as(self, landed: LandedObject | KnownObject) -> KnownObject | None:
        """Return the noted object that has this key, or else this URI."""
        return self.names.get(landed.key) or self.names.get(landed.uri)

    @property
    def known(self) -> Mapping[str, KnownObject]:
        """The objects that the rows were made of, by key."""
        return {key: obj for key, obj in self.noted.items() if obj.reason is None}

    def expected(self, streams: tuple[str, ...], *, adds: bool) -> ExpectedManifest:
        """Return what a commit expects: that nobody else has changed the partition or, if it adds, the new objects."""
        keys = tuple(landed.key for landed in self.new.objects)
        of_keys = {key: self.noted[key] for key in keys if key in self.noted}
        return ExpectedManifest(of_keys, streams, keys) if adds else ExpectedManifest(self.noted, streams)

    def refusal(self, partition: Partition) -> SourceError:
        """Return the error for changed objects if `on_changed` is fail."""
        first, *others = [landed.uri for landed in self.changed]
        names = ", ".join([first, *others[: NAMED - 1]])
        more = f" and {len(others) + 1 - NAMED:,} more" if len(others) >= NAMED else ""
        what = f"the objects {names}{more} have" if others else f"the object {first} has"
        if {obj.key for obj in self.taken} & {obj.key for obj in self.changed}:
            return SourceError(
                f"{what} landed again with other content, after after_load had taken away what was appended under the "
                f"name to partition {partition}:",
                "land it under a new name.",
            )
        return SourceError(
            f"{what} changed since the rows were appended to partition {partition}:",
            "restore it, or land its content under a new name. To replace the whole partition by the objects that "
            "are there now, use --force, or set on_changed: refresh.",
        )


@dataclass(frozen=True, slots=True)
class ChangedObject(Documented):
    """A registered object that has been replaced, so that its rows are not in the lake."""

    stream: Annotated[str, NotInJson]
    partition: Annotated[Partition, AsText]
    """As a path, such as `region=NW/date=2026-02-11`."""
    before: Annotated[KnownObject, NotInJson]
    now: LandedObject
    """The object that is there now."""
    is_live: bool
    """Whether it is a file of the table, which `--repair` updates; otherwise it had no rows, was removed from
    the table, or was read by mode replace."""

    @in_json
    def error(self) -> Annotated[SourceError, AsFailure]:
        """What is wrong, and the fix."""
        if self.is_live:
            return SourceError(
                f"the object {self.now.uri} has changed since it was registered, and readers of the lake fail on it or "
                "miss its rows:",
                f"run `lake-assets index {self.stream} --repair`, or restore the registered object with its time.",
            )
        if self.before.has_ended:
            # If it were registered again, DuckLake would delete it when no snapshot needs the entry that has ended.
            return SourceError(
                f"the object {self.now.uri} has landed again after it vanished and was removed from the table:",
                "land it under another name.",
            )
        # A replacement may have read its rows: under another name they would be in the lake twice.
        return SourceError(
            f"the object {self.now.uri} changed after the lake recorded it, and is not a file of the table:",
            "ingest the partition once with mode: replace, which reads it again.",
        )


def needs_rows(stream: OpenStream, adds_to: Comparison | None) -> bool:
    """Return whether a partition fails if no object that is read has rows; `adds_to` is what rows are added to."""
    return stream.config.on_empty == "fail" and not (adds_to is not None and adds_to.known)


def compare(
    lake: LakeSession | None, stream: OpenStream, landed: Mapping[Partition, Manifest]
) -> dict[Partition, Comparison]:
    """Compare the landed objects of some partitions with those that the lake knows."""
    noted = read_noted(lake, stream, list(landed)) if landed else {}
    quarantines = stream.config.on_bad_object == "quarantine"
    return {p: compare_partition(stream, noted.get(p.path, {}), m, quarantines=quarantines) for p, m in landed.items()}


def note_new_versions(lake: LakeSession, stream: OpenStream, comparisons: Mapping[Partition, Comparison]) -> None:
    """Note other versions of the same content, so that no later run reads it to find that out."""
    values: list[Values] = []
    pairs = [(p, obj, c.known_as(obj)) for p, c in comparisons.items() for obj in c.new_versions]
    for partition, obj, known in pairs:
        if known is not None:
            run = LedgerRow.of(["run_id", "stream", "load_partition"], [known.run_id, stream.name, partition.path])
            rows = {} if known.rows is None else {obj.key: known.rows}
            now = Manifest((replace(obj, digest=known.digest or ""),))
            values += MANIFEST.rows(run, manifest_values(now, rows, known.after_load))
    record(lake, [], {MANIFEST: values})


def read_noted(
    lake: LakeSession | None, stream: OpenStream, partitions: Sequence[Partition] | None
) -> Mapping[str, Mapping[str, KnownObject]]:
    """Return the objects that the rows of some partitions, or of all, were made of: by partition's path, then by key.

    Those that were left out have a reason.
    """
    if lake is None or not (lake.exists(stream.table) and lake.exists(MANIFEST.name(lake.config))):
        return {}
    return partition_objects(lake, stream.ledger_scope(partitions))


def compare_partition(
    stream: OpenStream, noted: Mapping[str, KnownObject], landed: Manifest, *, quarantines: bool
) -> Comparison:
    """Return the noted objects of a partition, as of `read_noted`, compared with those that have landed.

    This is the one place that says whether a landed object is a known one. It is known by its key, or its URI. It is
    the same if version and size are, or if the size is and the content, which is read then. `landed` has those that
    this run leaves out too. With `quarantines` an object that was left out is left alone until it changes; otherwise it
    is new.
    """
    comparison = Comparison(noted, {**{obj.uri: obj for obj in noted.values()}, **noted})
    pairs = [(obj, comparison.known_as(obj)) for obj in landed.objects]
    if landed.folder:  # rows may have left the partition with a new version of the object
        listed = {obj.key for obj in landed.objects}
        others = [(obj, comparison.known_as(obj)) for obj in landed.folder.objects if obj.key not in listed]
        pairs += [(obj, before) for obj, before in others if before is not None and before.reason is None]
    kinds: defaultdict[str, list[LandedObject]] = defaultdict(list)
    new_versions = _new_versions(stream, [(obj, before) for obj, before in pairs if before is not None])
    for obj, before in pairs:
        is_same = before is not None and (before.is_now(obj) or obj.key in new_versions)
        # An ended one under another path may be registered: a path is, once.
        is_tried = before is not None and before.reason is not None and not (is_same and quarantines)
        if before is None or is_tried or (before.has_ended and before.uri != obj.uri):
            kinds["new"].append(obj)
        elif before.reason is not None:
            kinds["quarantined"].append(obj)
        elif is_same:
            kinds["new_version" if obj.key in new_versions else "same"].append(obj)
        else:
            kinds["changed"].append(obj)
    still_landed = {before.key for _, before in pairs if before is not None}
    vanished = [o for key, o in noted.items() if o.reason is None and key not in still_landed and not o.has_ended]
    keys = {obj.key for obj in kinds["new"]}
    replaced = [before for obj in kinds["changed"] if (before := comparison.known_as(obj)) is not None]
    return replace(
        comparison,
        new=Manifest(tuple(kinds["new"]), {key: reason for key, reason in landed.left_out.items() if key in keys}),
        same=(*kinds["same"], *kinds["again"]),
        new_versions=tuple(kinds["new_version"]),
        changed=tuple(kinds["changed"]),
        vanished=tuple(vanished),
        quarantined=tuple(kinds["quarantined"]),
        taken=tuple(o for o in (*vanished, *replaced) if stream.config.empties_source or o.after_load),
    )


def _new_versions(stream: OpenStream, pairs: Sequence[tuple[LandedObject, KnownObject]]) -> AbstractSet[str]:
    """Return the keys of those objects that are other versions of the known content, which is read."""
    doubtful = [pair for pair in pairs if _is_doubtful(*pair)]
    if not doubtful:
        return frozenset()
    has_content = requested(stream.source.storage, lambda pair: _has_content(stream, *pair), doubtful)
    return {obj.key for (obj, _), is_same in zip(doubtful, has_content, strict=True) if is_same}


def _is_doubtful(landed: LandedObject, known: KnownObject) -> bool:
    return bool(known.digest) and known.size == landed.size and not known.is_now(landed)


def _has_content(stream: OpenStream, landed: LandedObject, known: KnownObject) -> bool:
    is_of_store = ":" in (known.digest or "")
    try:
        content_of = stream.source.checksum if is_of_store else stream.source.digest
        return content_of(landed.key, landed.etag) == known.digest
    except (SourceChangedError, ObjectRefusedError):
        return False


def changed_objects(
    stream: OpenStream, partition: Partition, compared: Comparison, live: AbstractSet[str]
) -> list[ChangedObject]:
    """Return the landed objects of a partition that have changed since the lake registered or read them."""
    befores = [(obj, compared.known_as(obj)) for obj in compared.changed]
    return [
        ChangedObject(stream.name, partition, before, obj, obj.uri in live)
        for obj, before in befores
        if before is not None
    ]

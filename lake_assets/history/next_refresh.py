"""What the next refresh does with a partition that a restore has put back, as a sentence."""

from lake_assets.errors import LakeAssetsError
from lake_assets.ingest.decide import Decider, Facts
from lake_assets.ingest.known import compare
from lake_assets.layout.partition import Partition
from lake_assets.storage.manifest import Manifest
from lake_assets.streams.stream import OpenStream


def next_refresh(
    stream: OpenStream, partition: Partition, fingerprint: str | None, restored: Manifest, *, is_held: bool
) -> str:
    """What the next refresh does with a restored partition, in a sentence or two.

    Args:
        stream: of the partition.
        partition: the partition.
        fingerprint: of the landed objects that its rows were made of; None if they are unknown.
        restored: the objects that its rows were made of, as they were then.
        is_held: refreshes leave it alone.
    """
    text = partition.option
    appends = stream.config.mode == "append"
    if is_held:
        return (
            "Refreshes leave the partition alone. `lake-assets restore "
            f"{stream.name} --partition {text} --release` ends that; `ingest --force` replaces it at any time."
        )
    try:
        manifest = stream.manifest(partition)
        with stream.lake.open_if_exists() as session:
            # A restore leaves the objects known whose rows it takes away.
            known = compare(session, stream, {partition: manifest})[partition] if appends else None
            then = {obj.uri: (obj.etag, obj.size) for obj in restored.read}
            changed = {obj.uri for obj in (known.changed if known else ())} - {*then}
            changed |= {o.uri for o in manifest.objects if then.get(o.uri, (o.etag, o.size)) != (o.etag, o.size)}
            facts = Facts(
                len(manifest.objects),
                table_exists=True,
                is_unchanged=fingerprint is not None and stream.fingerprint(manifest) == fingerprint,
                was_committed=True,
                new=len(known.new.objects) if known else 0,
                changed=len(changed),
                known=len(known.known) if known else 0,
            )
            decision = Decider(stream).decide(partition, facts, session)
    except LakeAssetsError as error:
        return f"What the next refresh does is unknown: {error}"
    match decision.action:
        case "skip" if appends:
            return "The next refresh leaves it as it is; only `ingest --force` reads objects again that it has read."
        case "append":
            return f"The next refresh adds the rows of {decision.why}. --hold keeps refreshes off."
        case "skip":
            return "The next refresh leaves it as it is, because the landing zone has the objects of that snapshot."
        case "replace":
            return (
                "The next refresh replaces it again, because the landing zone has other objects than that snapshot. "
                "--hold keeps refreshes off."
            )
        case "fail":
            return f"The next refresh fails and leaves it as it is: {decision.why}."
        case "clear":
            return f"The next refresh empties it again: {decision.why}. --hold keeps refreshes off."
        case _:
            return f"The next refresh leaves it as it is: {decision.why}."

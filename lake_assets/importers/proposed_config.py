"""The text of a `lake.yaml` with proposed streams."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import yaml

from lake_assets.config.bucket_requests import Reached
from lake_assets.config.storages import AnyStorage, GcsStorage, LocalStorage, S3Storage
from lake_assets.escapes import visible
from lake_assets.importers.proposals import Proposal
from lake_assets.importers.sampler import Sampler
from lake_assets.layout.texts import count
from lake_assets.layout.times import TIME_TYPES

_HEAD = """\
# yaml-language-server: $schema=lake.schema.json
#
# Proposed by `lake-assets init --from` from a part of the landing zone:
# {looked}.
# Comments beginning with "unsure" say what to check. `lake-assets validate` checks this file.

lakes:
  lake:
    # The catalog: the database of tables, files and snapshots. SQLite is for several processes of one machine.
    catalog: {{type: sqlite, path: catalog.sqlite}}
    # The storage of the tables' Parquet files: a folder, or s3://bucket/prefix.
    storage: lake

streams:
"""
_WIDTH = 120
_SENSOR = "`sensor: {type: objects}`"


def looked(look: Sampler) -> str:
    """Return what a look has read, in words."""
    read = ", ".join([count(look.listings, "listing"), count(look.footers, "footer")])
    return f"{look.storage.root}: {count(len(look.seen), 'object')} read with {read}"


def config_text(look: Sampler, proposals: Sequence[Proposal]) -> str:
    """Return the config of all proposals that have a stream, in the order of their folders; secrets are never in it."""
    parts = [_HEAD.format(looked=visible(looked(look)))]
    for proposal in proposals:
        parts += _stream(look.storage, proposal)
    return "\n".join(parts).replace(":\n\n  ", ":\n  ", 1)


def _stream(storage: AnyStorage, proposal: Proposal) -> Iterator[str]:
    lines = [f"  # unsure: {visible(note)}." for note in proposal.notes]
    if not proposal.config:
        yield "\n".join([*lines, f"  # No stream: {visible(proposal.folder or storage.root)}.", ""])
        return
    keys = {"source": _source(storage, proposal.folder), **proposal.config}
    text = yaml.safe_dump(
        {proposal.name: keys}, default_flow_style=None, sort_keys=False, allow_unicode=True, width=_WIDTH
    )
    written = _commented(text.splitlines(), proposal.config["partitions"])
    yield "\n".join([*lines, *(f"  {line}" for line in written), ""])


def _commented(lines: Sequence[str], partitions: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Yield the lines of a stream, with a comment above each partition column that is not a time."""
    comments = {
        f"    {key}:": _comment(key, field)
        for name, field in partitions.items()
        if field.get("type", "string") not in TIME_TYPES
        for key in [yaml.safe_dump({name: None}).partition(":")[0]]  # in quotes, if it is a word of YAML
    }
    is_inside = False
    for line in lines:
        if not line.startswith("    "):
            is_inside = line == "  partitions:"
        elif is_inside:
            yield from next((texts for start, texts in comments.items() if line.startswith(start)), ())
        yield line


def _comment(key: str, field: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what becomes of a new value of a column, and how to change that: lines above the column."""
    if "values" not in field:
        return (f"    # Each value that lands is accepted. {_SENSOR} adds new ones in Dagster.",)
    kind = "type: integer" if field.get("type") == "integer" else ""
    return (
        "    # A value that lands later is outside the config until it is in this list. To accept each one that lands,",
        f"    # write `{key}: {{{kind}}}` and {_SENSOR}, which adds new ones in Dagster.",
    )


def _source(storage: AnyStorage, folder: str) -> str | Mapping[str, Any]:
    """Return the folder of a stream: its path or URI, or a mapping if the storage has settings of its own."""
    if isinstance(storage, LocalStorage):
        return "/".join(part for part in (storage.root.rstrip("/"), folder) if part)
    # Certificates and proxy are those of this machine's environment.
    kept = storage.model_dump(mode="json", exclude_defaults=True, exclude={*Reached.model_fields}) | {
        "type": storage.type
    }
    prefix = "/".join(part for part in (kept.pop("prefix", ""), folder) if part)
    place = {"type": kept.pop("type"), **kept, **({"prefix": prefix} if prefix else {})}
    if isinstance(storage, S3Storage | GcsStorage) and kept.keys() == {"bucket"}:
        return "/".join(part for part in (storage.root.partition("://")[0] + ":/", storage.bucket, prefix) if part)
    return place

"""What a shell completes: streams, partition columns and their values; nothing if the config cannot be read."""

# ruff: noqa: PLC0415 - imports inside functions keep `--help` quick

from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING

from click.shell_completion import CompletionItem

from lake_assets.errors import LakeAssetsError

if TYPE_CHECKING:
    import click

    from lake_assets.config.models import LakeConfig
    from lake_assets.layout.partition import PartitionColumn
    from lake_assets.streams.stream import OpenStream

MOST = 200  # values that are offered


def streams(ctx: "click.Context", parameter: "click.Parameter", incomplete: str) -> list[CompletionItem]:  # noqa: ARG001
    """Return the streams of the config."""
    if (config := _config(ctx)) is None:
        return []
    return _items(name for name in config.streams if name.startswith(incomplete))


def lakes(ctx: "click.Context", parameter: "click.Parameter", incomplete: str) -> list[CompletionItem]:  # noqa: ARG001
    """Return the lakes of the config."""
    if (config := _config(ctx)) is None:
        return []
    return _items(name for name in config.lakes if name.startswith(incomplete))


def selections(ctx: "click.Context", parameter: "click.Parameter", incomplete: str) -> list[CompletionItem]:  # noqa: ARG001
    """Complete a partition column, and after its name a value: `region=N` becomes `region=NE` and `region=NW`."""
    config = _config(ctx)
    if config is None:
        return []
    # Before the option has a value, click has not divided the words into arguments yet.
    name = ctx.params.get("stream") or next((word for word in ctx.args if word in config.streams), None)
    if name is None and len(config.streams) == 1:
        name = next(iter(config.streams))
    if name not in config.streams:
        return []
    from lake_assets.streams.stream import open_streams

    try:
        opened = open_streams(config)[name]
        before, comma, condition = incomplete.rpartition(",")
        head, column_name, equals, text = before + comma, *condition.partition("=")
        if not equals:
            used = {part.partition("=")[0] for part in before.split(",")}
            names = (c.name for c in opened.config.columns if c.name not in used and c.name.startswith(column_name))
            return _items(f"{head}{name}=" for name in names)
        earlier, bar, value = text.rpartition("|")
        column = next((c for c in opened.config.columns if c.name == column_name), None)
        found = () if column is None else (v for v in _values(opened, column) if v.startswith(value))
        return _items(f"{head}{column_name}={earlier}{bar}{v}" for v in islice(found, MOST))
    except LakeAssetsError:  # a shell has no place for the error; the command itself prints it
        return []


def _config(ctx: "click.Context") -> "LakeConfig | None":
    from lake_assets.config.load import load_config

    try:
        return load_config(ctx.find_root().params.get("config"))
    except LakeAssetsError:
        return None


def _values(opened: "OpenStream", column: "PartitionColumn") -> Iterable[str]:
    """Return the values of a column as the selection grammar writes them; of a time the newest first."""
    from lake_assets.layout.times import TIME_TYPES
    from lake_assets.selection.selection_grammar import written
    from lake_assets.streams.calendar import Calendar
    from lake_assets.streams.unknown import first_landed

    calendar = Calendar(opened.config)
    if calendar.has_values(column):
        values = calendar.values(column)
        if column.type in TIME_TYPES:
            values.reverse()
    else:
        landed = first_landed(opened)
        values = [p.values[p.columns.index(column)] for p in landed if column in p.columns]
    texts = [written(column, value) for value in dict.fromkeys(values)]
    return texts if column.type in TIME_TYPES else sorted(texts)


def _items(texts: Iterable[str]) -> list[CompletionItem]:
    return [CompletionItem(text) for text in texts]

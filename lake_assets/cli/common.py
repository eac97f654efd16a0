"""What the commands share: the global options, and names and partitions read from the command line."""

# ruff: noqa: PLC0415 - imports inside functions keep `--help` quick

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lake_assets.cli.output import Command
from lake_assets.errors import LayoutError, PartitionError
from lake_assets.layout.texts import is_unicode, shown

if TYPE_CHECKING:
    from lake_assets.config.models import LakeConfig
    from lake_assets.config.streams import Stream
    from lake_assets.lake.session import DuckLake
    from lake_assets.layout.partition import Partition
    from lake_assets.streams.stream import OpenStream


NO_WILDCARDS = "A wildcard names no partition: give --partition once for each."


@dataclass(frozen=True, slots=True)
class Options:
    """The options that stand before the command's name."""

    config: Path | None
    debug: bool

    def load(self) -> "LakeConfig":
        """The config.

        Raises:
            ConfigError: it is absent or not valid.
        """
        from lake_assets.config.load import load_config

        return load_config(self.config)


def stream_named(config: "LakeConfig", name: str | None) -> "OpenStream":
    """The stream of that name, or the only one.

    Raises:
        click.UsageError: there is none of that name, or several and none is named.
    """
    from lake_assets.streams.stream import open_stream

    if name is None and len(config.streams) > 1:
        raise _wrong(f"the config has several streams: name one of {', '.join(config.streams)}.")
    name = name or next(iter(config.streams))
    _among(config.streams, "stream", name)
    return open_stream(config, name)


def partition_of(stream: "Stream", text: str) -> "Partition":
    """The partition that `region=NW,date=2026-02-11` names.

    Raises:
        click.UsageError: the text does not fit the stream's partition columns.
    """
    from lake_assets.streams.nearest import has_wildcard

    try:
        return stream.partition(text)
    except (PartitionError, LayoutError) as error:
        raise _wrong(f"{error} {NO_WILDCARDS}" if has_wildcard(text) else str(error)) from error


def partitions_of(stream: "Stream", texts: Sequence[str]) -> "list[Partition]":
    """The partitions that the texts name, each once; the only one there is, if there are no texts.

    Raises:
        click.UsageError: a text does not fit the stream's partition columns, or none is given and there are several.
    """
    if texts:
        return [partition_of(stream, text) for text in dict.fromkeys(texts)]
    from lake_assets.layout.partition import Partition
    from lake_assets.streams.calendar import configured_values

    values = [configured_values(column, stream.partitions[column.name].values or ()) for column in stream.columns]
    if any(len(found) != 1 for found in values):
        form = ",".join(f"{column.name}=…" for column in stream.columns)
        raise _wrong(f"the stream has several partitions: name one or more by --partition {form}.")
    return [Partition(stream.columns, tuple(found[0] for found in values))]


def partition_option(help: str, *, required: bool = False) -> Callable[[Command], Command]:  # noqa: A002 - click's word
    """The option `--partition` of a command that takes any number of them as `texts`; see `partition_of`."""
    return click.option("--partition", "texts", multiple=True, required=required, metavar="COLUMN=VALUE,…", help=help)


outside_option = click.option(
    "--outside", is_flag=True, help="Also partitions that the config does not have: of other values, or other dates."
)


def refuse_outside(stream: "Stream", partitions: "Iterable[Partition]", *, outside: bool) -> None:
    """Refuse partitions that the config does not have, unless they are meant.

    Raises:
        click.UsageError: some are outside the config.
    """
    from lake_assets.errors import OutsidePartitionError
    from lake_assets.streams import calendar
    from lake_assets.streams.nearest import has_wildcard

    partitions = list(partitions)
    try:
        if not outside:
            calendar.refuse_outside(stream, partitions)
    except OutsidePartitionError as error:
        wild = any(isinstance(value, str) and has_wildcard(value) for p in partitions for value in p.values)
        hint = NO_WILDCARDS if wild else "With --outside the partitions are taken all the same."
        text = str(error)
        raise _wrong(text + ("\n" if "\n" in text else " ") + hint) from error


def lake_named(config: "LakeConfig", name: str | None, stream: str | None = None) -> "DuckLake":
    """The lake of that name, or the stream's, or the only one.

    Raises:
        click.UsageError: there is none of that name, or several and none is named.
    """
    from lake_assets.lake.session import DuckLake

    if stream is not None:
        _among(config.streams, "stream", stream)
        name = name or config.lake_name(stream)
    if name is None and len(config.lakes) > 1:
        raise _wrong(f"the config has several lakes: choose one with --lake ({', '.join(config.lakes)}).")
    name = name or next(iter(config.lakes))
    _among(config.lakes, "lake", name)
    return DuckLake(config.lakes[name])


def only_texts(command: click.Command) -> None:
    """Let the command, and those below it, refuse words that are not UTF-8; paths of files may be any bytes."""
    if isinstance(command, click.Group):
        for below in command.commands.values():
            only_texts(below)
    for parameter in command.params:
        if isinstance(parameter.type, click.types.StringParamType):
            parameter.callback = _checking(parameter.callback)


def _checking(before: Callable[..., Any] | None) -> Callable[..., Any]:
    def check(ctx: click.Context, parameter: click.Parameter, value: Any) -> Any:  # noqa: ANN401 - click's signature
        for text in value if isinstance(value, tuple | list) else (value,):
            if isinstance(text, str) and not is_unicode(text):
                raise click.BadParameter(f"{shown(text)} is not UTF-8: write it in UTF-8.", ctx, parameter)
        return before(ctx, parameter, value) if before else value

    return check


def _among(known: Iterable[str], kind: str, name: str) -> None:
    if name not in known:
        raise _wrong(f"there is no {kind} {name!r}: the config has {', '.join(known)}.")


def _wrong(text: str) -> click.UsageError:
    return click.UsageError(text, click.get_current_context())

"""What the commands share: global options, arguments that several of them take with what these name, and a session."""

# ruff: noqa: PLC0415 - imports inside functions keep `--help` quick

import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import click

from lake_assets.base.errors import ConfigError, LakeAssetsError, LayoutError, PartitionError
from lake_assets.base.texts import is_unicode, shown
from lake_assets.cli.interrupt import interrupt
from lake_assets.cli.output import CommandFunction

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lake_assets.config.layout.partition import Partition
    from lake_assets.config.models import LakeConfig
    from lake_assets.config.streams import StreamConfig
    from lake_assets.lake.ducklake import DuckLake
    from lake_assets.streams.stream import OpenStream


NO_WILDCARDS = "A wildcard names no partition here: give --partition with the values of one."

stream_argument = click.argument("stream", required=False)
lake_option = click.option("--lake", metavar="NAME", help="The lake; required if the config has several.")
all_lakes_option = click.option("--lake", metavar="NAME", help="Only this lake. Default: all lakes of the config.")
dry_run_option = click.option("--dry-run", is_flag=True, help="Show what would be done; change nothing.")
outside_option = click.option(
    "--outside", is_flag=True, help="Accept partitions outside the config: other values or other dates."
)


@dataclass(frozen=True)
class Options:
    """The options before the command's name, and the streams and lakes of their config."""

    file: str | None
    debug: bool

    @cached_property
    def config(self) -> "LakeConfig":
        """The config."""
        from lake_assets.streams.load import load_config

        return load_config(self.file)

    def stream(self, name: str | None) -> "OpenStream":
        """Return the stream with that name, or the only one."""
        from lake_assets.streams.stream import open_streams

        return open_streams(self.config)[_chosen("stream", self.config.streams, name)]

    def lake(self, name: str | None, stream: str | None = None) -> "DuckLake":
        """Return the lake with that name, the stream's lake, or the only one."""
        from lake_assets.lake.ducklake import DuckLake

        if stream is not None:
            of_stream = self.config.lake_name(_chosen("stream", self.config.streams, stream))
            name = name or of_stream
        if name is None and len(self.config.lakes) > 1:
            raise usage_error(f"the config has several lakes: choose one with --lake ({', '.join(self.config.lakes)}).")
        return DuckLake(self.config.lakes[_chosen("lake", self.config.lakes, name)])

    def lakes(self, name: str | None) -> list[str]:
        """Return the name of the lake with that name, or of all lakes."""
        return list(self.config.lakes) if name is None else [_chosen("lake", self.config.lakes, name)]


def _chosen(kind: Literal["stream", "lake"], known: Collection[str], name: str | None) -> str:
    from lake_assets.streams.load import chosen

    with usage_errors(ConfigError):
        return chosen(kind, known, name)


def partition_option(help: str, *, required: bool = False) -> Callable[[CommandFunction], CommandFunction]:  # noqa: A002 - click's word
    """Return the repeatable option `--partition`, passed to the command as `texts`; see `named_partitions`."""
    return click.option("--partition", "texts", multiple=True, required=required, metavar="COLUMN=VALUE,…", help=help)


def named_partition(stream: "StreamConfig", text: str) -> "Partition":
    """Return the partition that `region=NW,date=2026-02-11` names."""
    try:
        return stream.partition(text)
    except (PartitionError, LayoutError) as error:
        raise usage_error(f"{error} {NO_WILDCARDS}" if "*" in text or "?" in text else str(error)) from error


def named_partitions(stream: "StreamConfig", texts: Iterable[str]) -> "list[Partition]":
    """Return the partitions that the texts name, each once; also those outside the config."""
    return [named_partition(stream, text) for text in dict.fromkeys(texts)]


def partitions_or_only(stream: "StreamConfig", texts: Sequence[str]) -> "list[Partition]":
    """Return the partitions that the texts name; without texts, the stream's only partition; see `named_partitions`."""
    return named_partitions(stream, texts) if texts else [the_only_partition(stream)]


def the_only_partition(stream: "StreamConfig", otherwise: str = "") -> "Partition":
    """Return the stream's only partition; if there are several, a click.UsageError that ends by `otherwise`."""
    from lake_assets.streams.select import only_partition

    if (only := only_partition(stream)) is None:
        form = ",".join(f"{column.name}=…" for column in stream.partition_columns)
        raise usage_error(f"the stream has several partitions: name one or more with --partition {form}{otherwise}.")
    return only


def require_unicode(command: click.Command) -> None:
    """Let the command and its subcommands refuse words that are not UTF-8; paths of files may have any bytes."""
    if isinstance(command, click.Group):
        for subcommand in command.commands.values():
            require_unicode(subcommand)
    for parameter in command.params:
        if isinstance(parameter.type, click.types.StringParamType):
            parameter.callback = _checking(parameter.callback)


def _checking(callback: Callable[..., Any] | None) -> Callable[..., Any]:
    def check(ctx: click.Context, parameter: click.Parameter, value: Any) -> Any:  # noqa: ANN401 - click's signature
        for text in value if isinstance(value, tuple | list) else (value,):
            if isinstance(text, str) and not is_unicode(text):
                raise click.BadParameter(f"{shown(text)} is not UTF-8: write it in UTF-8.", ctx, parameter)
        return callback(ctx, parameter, value) if callback else value

    return check


@contextmanager
def usage_errors(*kinds: type[LakeAssetsError]) -> Iterator[None]:
    """Raise errors of the block as those of a command that was called in a wrong way."""
    try:
        yield
    except kinds as error:
        raise usage_error(str(error)) from error


def usage_error(text: str) -> click.UsageError:
    """Return the error of a command that was called in a wrong way; click prints the command's usage above it."""
    return click.UsageError(text, click.get_current_context())


class Session:
    """Starts the session at the first call, and returns the same one at later calls.

    With `debug` Spark's errors are logged to standard error, unless the settings have a log level. `transforms` is as
    in `spark_config`.
    """

    def __init__(self, settings: Mapping[str, str], *, debug: bool = False, transforms: bool = True) -> None:
        self._transforms = transforms
        self._settings = settings
        self._debug = debug
        self._session: SparkSession | None = None
        self.announce: Callable[[str | None], None] = lambda _: None
        """Called with a text before Spark starts, and with None after that."""
        self.seconds = 0.0
        """Duration of the start."""

    def __call__(self) -> "SparkSession":
        """Return the session."""
        from lake_assets.spark.cluster import has_stopped
        from lake_assets.spark.spark_session import LOG_LEVEL, spark_config, start_session

        if self._session is None or has_stopped(self._session):
            start = time.perf_counter()
            settings = {LOG_LEVEL: "ERROR", **self._settings} if self._debug else self._settings
            self.announce("starting Spark")
            try:
                # An interrupt would leave a JVM running that is not connected yet.
                with interrupt.held_back():
                    self._session = start_session(spark_config(settings=settings, transforms=self._transforms))
            finally:
                self.announce(None)
            self.seconds = time.perf_counter() - start
        return self._session

    @contextmanager
    def stopped(self) -> Iterator["Session"]:
        """Stop the session at the end of the block, unless it ran before."""
        running = "pyspark" in sys.modules and sys.modules["pyspark"].sql.SparkSession.getActiveSession() is not None
        try:
            yield self
        finally:
            if self._session is not None and not running:
                from py4j.protocol import Py4JError
                from pyspark.sql import SparkSession

                from lake_assets.spark.jvm import stop_session

                if interrupt.pressed and isinstance(self._session, SparkSession):  # not a Spark Connect client
                    with suppress(Py4JError, ConnectionError):  # its JVM has ended
                        self._session.sparkContext.setLogLevel("OFF")  # otherwise each stopped task logs an error
                stop_session(self._session)

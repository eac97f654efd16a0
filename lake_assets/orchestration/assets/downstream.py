"""What assets downstream read from a lake: the rows of a stream's partitions, by a resource or as a parameter.

The partitions are those of the run, by Dagster's partition mapping between the asset and the stream.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar, overload

import dagster as dg
import duckdb
import pyarrow as pa
from pydantic import Field

from lake_assets.api import ROWS_CLASSES, connect, rows_class, rows_of
from lake_assets.base.errors import ConfigError
from lake_assets.base.texts import count
from lake_assets.config.layout.partition import Partition
from lake_assets.lake.connecting import connected
from lake_assets.lake.failures import translated
from lake_assets.lake.ledger.read import rows_of_run
from lake_assets.orchestration.dagster_private import tag_run
from lake_assets.orchestration.partition_keys import StreamKeys, user_text
from lake_assets.streams.load import chosen, load_config
from lake_assets.streams.stream import OpenStream, open_streams

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lake_assets.spark.spark_session import Sessions

RowsAs = TypeVar("RowsAs")

_CONFIG = "Path or URI of the `lake.yaml`; without it `$LAKE_CONFIG`, then `./lake.yaml`."
_ASSET_KEYS = "Keys of streams' assets by the streams' names, such as `shop/sales`, where a translator changes them."


class _ReadOnly(dg.IOManager):
    def handle_output(self, context: dg.OutputContext, obj: object) -> None:  # noqa: ARG002 - Dagster's signature
        """Refuse a value: the rows of streams come from their landing zones."""
        raise ConfigError(
            f"the asset {user_text(context.asset_key)} returned a value, and this IO manager only reads streams:",
            "give the asset another io_manager_key, or annotate it with -> None.",
        )


class StreamIOManager(_ReadOnly):
    """Hands the partitions of one stream to parameters of assets downstream; each stream's asset has its own.

    The class of the rows is the parameter's annotation: a `pyarrow.Table` (also without one), a pandas or Polars
    DataFrame, a Polars LazyFrame, a `pyarrow.RecordBatchReader`, a `duckdb.DuckDBPyRelation` or a
    `pyspark.sql.DataFrame`. The metadata `columns` of `dagster.AssetIn`, a list of names, limits the columns.

    A Spark DataFrame is of the session of the resource `pyspark`. All of a run are of one snapshot of a lake, but for
    streams that the run itself commits to later.
    """

    def __init__(self, stream: OpenStream, spark: "Sessions | None" = None) -> None:
        self._stream = stream
        self._spark = spark

    @classmethod
    def definition(cls, stream: OpenStream) -> dg.IOManagerDefinition:
        """Return the IO manager of a stream's asset, with the session of its resource."""
        from lake_assets.orchestration.resources import PYSPARK, sessions  # noqa: PLC0415 - see `_frame`

        return dg.IOManagerDefinition(
            lambda context: cls(stream, sessions(getattr(context.resources, PYSPARK), stream.spark)),
            required_resource_keys={PYSPARK},
        )

    def load_input(self, context: dg.InputContext) -> Any:  # noqa: ANN401 - an instance of the annotation
        """Return the rows of the input's partitions.

        Raises:
            ConfigError: the annotation is not a class of rows, or Dagster has no partitions of the stream's asset.
            LakeAssetsError: the lake cannot be read, or has no such table or column.
        """
        return _loaded(context, self._stream, self._spark)


class LakeIOManager(_ReadOnly, dg.ConfigurableIOManager):
    """Hands the partitions of a config's streams to parameters, where another code location has the streams' assets.

    Name it as `input_manager_key` of `dagster.AssetIn`. It reads as `StreamIOManager`, which the streams' own assets
    have without being named.

    Attributes:
        config: the `lake.yaml`.
        asset_keys: keys of streams' assets, where they are not those of the config.
    """

    config: str | None = Field(default=None, description=_CONFIG)
    asset_keys: dict[str, str] = Field(default_factory=dict, description=_ASSET_KEYS)

    def load_input(self, context: dg.InputContext) -> Any:  # noqa: ANN401 - an instance of the annotation
        """Return the rows of the input's partitions.

        Raises:
            ConfigError: the config cannot be read or has no stream with the input's key, the annotation is no class
                of rows, or Dagster has no partitions of the stream's asset.
            LakeAssetsError: the lake cannot be read, or has no such table or column.
        """
        return _loaded(context, _stream_of(_streams(self.config, self.asset_keys), context.asset_key))


class LakeResource(dg.ConfigurableResource["LakeResource"]):
    """A lake for assets downstream, read-only.

    Attributes:
        config: the `lake.yaml`.
        lake: the lake's name; may be absent where the config has one lake.
        asset_keys: keys of streams' assets, where they are not those of the config.
    """

    config: str | None = Field(default=None, description=_CONFIG)
    lake: str | None = Field(default=None, description="The lake's name, where the config has several.")
    asset_keys: dict[str, str] = Field(default_factory=dict, description=_ASSET_KEYS)

    @contextmanager
    def connection(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A connection to the lake as of `lake_assets.connect`, read-only, closed at the end of the block.

        Raises:
            LakeAssetsError: as of `lake_assets.connect`.
        """
        with connect(self.config, self.lake) as connection:
            yield connection

    @overload
    def read(
        self, context: dg.AssetExecutionContext, stream: str | None = None, *, columns: Sequence[str] | None = None
    ) -> pa.Table: ...

    @overload
    def read(
        self,
        context: dg.AssetExecutionContext,
        stream: str | None = None,
        *,
        into: type[RowsAs],
        columns: Sequence[str] | None = None,
    ) -> RowsAs: ...

    def read(
        self,
        context: dg.AssetExecutionContext,
        stream: str | None = None,
        *,
        into: object = pa.Table,
        columns: Sequence[str] | None = None,
    ) -> Any:
        """The rows of a stream in the partitions of the run, by Dagster's partition mapping to the stream's asset.

        Args:
            context: of the asset that reads, which depends on the stream's asset (`deps=["sales"]`).
            stream: the stream's name; may be None where the asset depends on one stream.
            into: the class of the rows: `pyarrow.Table`, a pandas or Polars DataFrame, a Polars LazyFrame, a
                `pyarrow.RecordBatchReader`, a `duckdb.DuckDBPyRelation` or a `pyspark.sql.DataFrame`. The last four
                read while they are used, and all but Spark's keep a connection open until they are dropped.
            columns: to read, in this order; all of the table when None.

        Raises:
            ConfigError: the config cannot be read or has no such stream, the asset does not depend on it or on several,
                `into` is not such a class, or Dagster has no partitions of the stream's asset.
            LakeAssetsError: the lake cannot be read, or has no such table or column.
        """
        inputs = {key: name for name, key in context.assets_def.keys_by_input_name.items()}
        streams = _streams(self.config, self.asset_keys)
        names = [opened.name for opened in streams.values()]
        if stream is not None:
            chosen("stream", names, stream)
        fitting = [key for key in inputs if key in streams and stream in {None, streams[key].name}]
        if len(fitting) != 1:
            raise _not_one(context.asset_key, stream, [streams[key].name for key in fitting], streams)
        (key,) = fitting
        name = inputs[key]
        if not _is_partitioned(context, name):
            raise _no_partitions(key)
        keys = context.asset_partition_keys_for_input(name)
        return _rows(context, streams[key], keys, into, columns)


def _is_partitioned(context: dg.AssetExecutionContext, input_name: str) -> bool:
    try:
        context.asset_partitions_def_for_input(input_name)
    except (dg.DagsterError, ValueError):
        return False
    return True


def _loaded(context: dg.InputContext, stream: OpenStream, spark: "Sessions | None" = None) -> Any:  # noqa: ANN401
    if not context.has_asset_partitions:
        raise _no_partitions(context.asset_key)
    annotation = context.dagster_type.typing_type
    into = pa.Table if annotation is Any else annotation
    columns = context.definition_metadata.get("columns")
    return _rows(context, stream, context.asset_partition_keys, into, columns, spark)


def _rows(
    context: dg.InputContext | dg.AssetExecutionContext,
    stream: OpenStream,
    keys: Sequence[str],
    into: object,
    columns: Sequence[str] | None,
    spark: "Sessions | None" = None,
) -> Any:  # noqa: ANN401 - an instance of `into`
    if (form := rows_class(into)) is None:
        raise ConfigError(
            f"rows of {stream.name} cannot be read as {getattr(into, '__name__', into)}:",
            f"use one of {', '.join(ROWS_CLASSES)}.",
        )
    of_stream = StreamKeys(stream)
    partitions = {partition for key in keys for partition in of_stream.partitions(key)}
    context.log.info(f"Reading {count(len(partitions), 'partition')} of {stream.name}")
    if form.read is None:
        return _frame(context, stream, partitions, columns, spark)
    connection = connected(stream.lake_config, read_only=True)
    relation = rows_of(connection, stream, partitions, columns)
    if form.is_lazy:
        return form.read(relation)  # keeps the connection
    with connection, translated(stream.lake_config):
        return form.read(relation)


def _frame(
    context: dg.InputContext | dg.AssetExecutionContext,
    stream: OpenStream,
    partitions: Collection[Partition],
    columns: Sequence[str] | None,
    spark: "Sessions | None",
) -> "DataFrame":
    # Other classes of rows need no Spark.
    from lake_assets.spark.spark_session import spark_config, start_session  # noqa: PLC0415
    from lake_assets.spark_reader import TablePart, partitions_frame  # noqa: PLC0415

    session = spark() if spark else start_session(spark_config(settings=stream.spark.settings))
    run_id = context.step_context.run_id if isinstance(context, dg.InputContext) else context.run.run_id
    wanted = TablePart(columns, _snapshot(context.instance, run_id, stream))
    return partitions_frame(session, stream, partitions, wanted)


def _snapshot(instance: dg.DagsterInstance, run_id: str, stream: OpenStream) -> int:
    """Return the snapshot of the lake that a run reads; a tag of the run keeps it for its other steps.

    A stream that the run has committed to since is read in the newest one.
    """
    tag, record = f"lake_assets/snapshot_{stream.lake_name}", instance.get_run_record_by_id(run_id)
    with stream.lake.open(read_only=True) as lake:
        if record is not None and (kept := record.dagster_run.tags.get(tag)) is not None:
            rows = rows_of_run(lake, stream.names, run_id, record.create_timestamp)
            if int(kept) >= max((row.snapshot for row in rows), default=0):
                return int(kept)
        newest = lake.current_snapshot()
    if record is not None:
        tag_run(instance, run_id, {tag: str(newest)})
    return newest


def _streams(config: str | None, asset_keys: Mapping[str, str]) -> Mapping[dg.AssetKey, OpenStream]:
    loaded = load_config(config)
    for name in asset_keys:
        chosen("stream", loaded.streams, name)
    return {
        dg.AssetKey(asset_keys[stream.name].split("/"))
        if stream.name in asset_keys
        else dg.AssetKey([*stream.key_prefix, stream.name]): stream
        for stream in open_streams(loaded).values()
    }


def _stream_of(streams: Mapping[dg.AssetKey, OpenStream], key: dg.AssetKey) -> OpenStream:
    if key not in streams:
        keys = ", ".join(map(user_text, streams))
        raise ConfigError(
            f"the config has no stream with the asset {user_text(key)}:",
            f"its assets are {keys}. Name another key of a stream in asset_keys.",
        )
    return streams[key]


def _not_one(
    asset: dg.AssetKey, stream: str | None, fitting: Sequence[str], streams: Mapping[dg.AssetKey, OpenStream]
) -> ConfigError:
    if fitting:
        return ConfigError(
            f"the asset {user_text(asset)} depends on several streams, {', '.join(fitting)}:",
            f'name one: read(context, "{fitting[0]}").',
        )
    wanted = [user_text(key) for key, of_key in streams.items() if stream in {None, of_key.name}]
    return ConfigError(
        f"the asset {user_text(asset)} depends on no asset of {'a stream' if stream is None else stream}:",
        f'add it, as in deps=["{wanted[0]}"], or name the key of its asset in asset_keys.',
    )


def _no_partitions(key: dg.AssetKey) -> ConfigError:
    text = user_text(key)
    return ConfigError(
        f"Dagster has no partitions of the asset {text} here:",
        f'add dg.AssetSpec("{text}", partitions_def=partitions_def(open_stream("lake.yaml", "{key.path[-1]}"))).',
    )

"""Suggestions for unknown keys: the intended key, or the counterpart of another system's key."""

import difflib
import types
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Any, get_args, get_origin

from lake_assets.config.model import Model

_CREDENTIALS = "write key_id and secret, or provider: credential_chain, here beside type"
_NAMELESS = "secrets are made for each session under names of their own, so remove it"
_OUTPUTS = "records are landed by a stream, so write streams.NAME.landing.outputs"
_TO_ATTACH = "write it below attach_options of the lake"
_MODES = "write mode: replace for whole partitions, append for the rows of new files, index for files as they are"
_FOLDERS = "write prefix, the folder of all keys"
_IMPORT = "run `lake-assets import olake catalog.json` to convert an OLake catalog"
_TABLE_NAMES = "write it as destination.table of the stream"

_OF_A_FILE = {"uri": "write path, the catalog's file", "database": "write path, the catalog's file"}
_OF_A_BUCKET = {
    "uri": "write bucket and prefix",
    "url": "write bucket and prefix",
    "path": _FOLDERS,
    "access_key_id": "write key_id",
    "secret_access_key": "write secret",
    "endpoint_url": "write endpoint",
}

# By the name of the model that has the unknown key.
_HERE: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "SqliteCatalog": _OF_A_FILE,
        "DuckdbCatalog": _OF_A_FILE,
        "PostgresCatalog": {
            "uri": "write host, port, database, user and password", "dbname": "write database",
            "username": "write user", "schema": "write metadata_schema below attach_options of the lake",
        },
        "MotherDuckCatalog": {
            "uri": "write database", "token": "set the environment's MOTHERDUCK_TOKEN, and remove it",
        },
        "LocalStorage": {"uri": "write path", "bucket": "write type: s3, r2 or gcs for a bucket"},
        "S3Storage": _OF_A_BUCKET,
        "R2Storage": _OF_A_BUCKET,
        "GcsStorage": _OF_A_BUCKET,
        "AzureStorage": {"uri": "write account, container and prefix", "path": _FOLDERS, "bucket": "write container"},
        "WebStorage": {"uri": "write url", "path": "write url"},
        "Destination": {
            "lake": "write it one level higher, as lake of the stream",
            "database": "write database below catalog of the lake",
        },
        "Lake": {"database": "write it below catalog", "type": "write it below catalog and below storage"},
        "Stream": {
            "name": "a stream's name is its key below streams, so remove it", "type": "write it below source",
            "path": "write source, and layout for the folders below it", "bucket": "write it below source",
            "batching": "write landing.batch", "max_in_flight": "write landing.max_in_flight", "uri": "write source",
            "stream": "write its keys one level higher", "namespace": "write destination.schema",
        },
        "Landing": {
            "batching": "write batch", "path": "write the stream's source and layout: files get names of their own",
            "output": "write outputs, a list", "max_retries": "write retries",
        },
        "Batch": {"count": "write records", "byte_size": "write bytes", "period": "write age, in seconds"},
        "LakeConfig": {
            "stores": "write lakes, with catalog and storage of each", "ducklake": "write it as a lake below lakes",
            "config": "write its keys one level higher", "catalog": "write it below a lake's name in lakes",
            "storage": "write it below a lake's name in lakes",
        },
    }
)  # fmt: skip

# In any model: the keys of Metaxy's DuckLake store, of OLake's catalog, of Bento's outputs, of pg_trickle's sink, and
# the variables of MotherDuck's Flight.
_ELSEWHERE: Mapping[str, str] = MappingProxyType(
    {
        "access_token_name": "set the environment's MOTHERDUCK_TOKEN, and remove it",
        "alias": "a lake's name is its key below lakes, and in queries it is `lake`, so remove it",
        "auto_create_tables": "the first run always creates the table, so remove it",
        "aws_s3": _OUTPUTS,
        "batching": "write streams.NAME.landing.batch",
        "broker": f"every output gets every batch; {_OUTPUTS}",
        "codec": "files are Parquet, so remove it",
        "content_type": "files are Parquet, so remove it",
        "data_inlining_row_limit": _TO_ATTACH,
        "delta_export_compression": "write deltas.compression of the stream",
        "delta_export_path": "write deltas.to of the stream",
        "destination_database": "write database below catalog of the lake",
        "destination_schema": "write it as destination.schema of the stream",
        "destination_table": _TABLE_NAMES,
        "ducklake_s3_access_key": "write key_id below storage of the lake",
        "ducklake_s3_secret_key": "write secret below storage of the lake",
        "ducklake_sink_mode": _MODES,
        "enable_map_datatype": "MAP columns are always kept, so remove it",
        "encrypted": _TO_ATTACH,
        "encryption_key": "DuckLake makes a key for each file; write encrypted: true below attach_options of the lake",
        "entrypoints": "no Python is needed, so remove it",
        "fan_out": _OUTPUTS,
        "hive_partitioning": "folders are read as column=value; write in: rows at a partition column of the files",
        "load_partition": "name partitions by `lake-assets ingest --partition`, and remove it",
        "max_in_flight": "write streams.NAME.landing.max_in_flight",
        "metadata_schema": _TO_ATTACH,
        "motherduck_token": "set the environment's MOTHERDUCK_TOKEN, and remove it",
        "namespace": "write destination.schema of the stream",
        "output": _OUTPUTS,
        "outputs": _OUTPUTS,
        "override_data_path": _TO_ATTACH,
        "partition_column": "write it as a key of partitions of the stream",
        "partition_regex": "write layout: {template: …, compat: olake} of the stream",
        "pattern": f"every output gets every batch; {_OUTPUTS}",
        "processors": "write transform of the stream to change rows",
        "project": "a config has no name, so remove it",
        "requirements_txt": "packages are installed beside this one, so remove it",
        "run_ledger_table": "write ledger of the lake",
        "schedule_cron": "write schedule of the stream",
        "secret_name": _NAMELESS,
        "secret_parameters": _CREDENTIALS,
        "selected_streams": _IMPORT,
        "sink": "the lake is the only sink, so remove it",
        "sink_mode": _MODES,
        "source_code": "no Python is needed, so remove it",
        "source_glob": "write it as source of the stream",
        "storage_retries": "write requests: {retries: …} below storage of the lake",
        "stream_name": "a stream's name is its key below streams, so remove it",
        "sync_mode": "a refresh reads all landed files of a partition, or in mode: append the new ones, so remove it",
    }
)


def advice(root: type[Model], location: Sequence[str | int]) -> str:
    """Return how to fix an unknown key; begins with a colon.

    Args:
        root: the model of the whole file.
        location: pydantic's location, whose last part is the key.
    """
    key = str(location[-1])
    model = _model(root, location[:-1])
    if model is None:
        return ": remove it"
    names = sorted(field.alias or name for name, field in model.model_fields.items())
    plain = key.lower().replace("-", "_")
    if plain in names:
        return f": did you mean {plain}?"
    if hint := _HERE.get(model.__name__, {}).get(plain) or _ELSEWHERE.get(plain):
        return f": {hint}"
    close = difflib.get_close_matches(plain[:100], names, n=1)
    return f": did you mean {close[0]}?" if close else f": remove it, or write one of {', '.join(names)}"


def _model(annotation: Any, location: Sequence[str | int]) -> type[Model] | None:  # noqa: ANN401 - any type
    """Return the model at pydantic's location below a type; None if there is no model, or there are several."""
    members = list(_members(annotation))
    models = [member for member in members if isinstance(member, type) and issubclass(member, Model)]
    if not location:
        return models[0] if len(models) == 1 else None
    first, rest = location[0], location[1:]
    for model in models:
        if len(models) > 1 and first in _tags(model):
            return _model(model, rest)
        for name, field in model.model_fields.items():
            if len(models) == 1 and first == (field.alias or name):
                return _model(field.annotation, rest)
    for member in members:
        if get_origin(member) in {dict, tuple, list}:
            return _model(get_args(member)[1 if get_origin(member) is dict else 0], rest)
    return None


def _members(annotation: Any) -> Iterator[Any]:  # noqa: ANN401 - any type
    origin = get_origin(annotation)
    if origin is Annotated:
        yield from _members(get_args(annotation)[0])
    elif isinstance(annotation, types.UnionType) or str(origin) == "typing.Union":
        for member in get_args(annotation):
            yield from _members(member)
    else:
        yield annotation


def _tags(model: type[Model]) -> tuple[Any, ...]:
    return get_args(model.model_fields["type"].annotation) if "type" in model.model_fields else ()

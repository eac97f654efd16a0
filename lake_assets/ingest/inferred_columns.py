"""The columns of a stream's table as the config can declare them."""

from collections.abc import Mapping
from typing import Any

from pyarrow import types as t

from lake_assets.errors import SourceError
from lake_assets.lake.schema.table_setup import data_schema, is_never_filled
from lake_assets.lake.schema.types import sql_type
from lake_assets.streams.landing_zone import list_landed
from lake_assets.streams.stream import OpenStream


def inferred_columns(stream: OpenStream) -> Mapping[str, Mapping[str, Any]]:
    """Return the value of `columns` with each column of the table, and with what the config says of it now.

    They are those of the table, or, if it has never had rows, those that the objects of the landing zone would give
    it. A column without a value in any object has no type.

    Raises:
        LakeAssetsError: the lake or the landing zone cannot be read, or nothing has landed.
    """
    config, landed, schema = stream.config, stream.landed, None
    with stream.lake.open_if_exists() as lake:
        if lake is not None and lake.exists(stream.table) and not is_never_filled(lake, stream.table):
            schema = data_schema(lake, stream.table, config.columns)
    if schema is None:
        keys = [obj.key for manifest in list_landed(stream)[0].values() for obj in manifest.read]
        if not keys:
            raise SourceError(
                f"nothing has landed in {stream.layout_uri}:", "land an object, or correct the stream's source."
            )
        schema = landed.declared.created(landed.sampled(keys))
    declared = {name.lower(): column for name, column in config.declared.items()}
    partitions = {name.lower() for name in config.partitions}
    columns: dict[str, dict[str, Any]] = {}
    for field in schema:
        if field.name.lower() in partitions:
            continue
        column = declared.get(field.name.lower())
        written = {} if column is None else column.model_dump(by_alias=True, exclude={"type"}, exclude_defaults=True)
        columns[field.name] = ({} if t.is_null(field.type) else {"type": sql_type(field.type, field.name)}) | written
    return columns | {name: column.rules for name, column in config.declared.items() if column.omit}

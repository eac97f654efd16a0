"""The types that a stream's columns have already: columns of a text that were inferred otherwise get these."""

from contextlib import suppress

import pyarrow as pa

from lake_assets.config.column_types import COLUMN_TYPES
from lake_assets.config.landing import Landing
from lake_assets.errors import LakeAssetsError
from lake_assets.lake.schema.table_setup import data_schema
from lake_assets.layout.names import is_hidden
from lake_assets.parquet.read import read_schema
from lake_assets.storage.arrow import ArrowStore
from lake_assets.storage.store import Store
from lake_assets.streams.stream import OpenStream


def as_known(inferred: pa.Schema, stream: OpenStream) -> pa.Schema:
    """Return the columns with the known type of each whose inferred type the stream could not ingest beside it.

    Records whose values do not fit the known type are rejected then, and the others land. The types are known from the
    stream's table, or else from the newest file in the last of the output's folders. Of neither catalog nor output an
    error is raised: the columns are then as inferred.
    """
    of_path = {column.name.lower() for column in (*stream.config.columns, *stream.config.path_typed)}
    known = {field.name.lower(): field.type for field in _known(stream) if field.name.lower() not in of_path}
    rules = stream.landed.declared.rules

    def settled(field: pa.Field) -> pa.Field:
        typed = field.with_type(known.get(field.name.lower(), field.type))
        is_read_from_texts = typed.type in COLUMN_TYPES.values() or pa.types.is_decimal(typed.type)
        return typed if is_read_from_texts and not rules.takes(field, typed) else field

    return pa.schema(map(settled, inferred))


def _known(stream: OpenStream) -> pa.Schema:
    if stream.config.transform is None:  # otherwise the table has other columns than the files
        with suppress(LakeAssetsError), stream.lake.open_if_exists() as lake:
            if lake is not None and lake.exists(stream.table):
                return data_schema(lake, stream.table, stream.config.columns)
    landing = stream.config.landing or Landing()
    store, folder = Store((landing.outputs or (stream.config.source,))[0]), ""
    with suppress(LakeAssetsError):
        while folders := [path for path in store.folders(folder) if not is_hidden((path.rpartition("/")[2],))]:
            folder = folders[-1]
        if objects := store.list(folder, stream.config.files):
            newest = max(objects, key=lambda landed: landed.last_modified)
            return read_schema(ArrowStore(store.storage), newest.key)
    return pa.schema([])

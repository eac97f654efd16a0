"""The footers of landed objects that an ingest would read: their rows and columns, without the ingest."""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa

from lake_assets.errors import LakeAssetsError
from lake_assets.escapes import visible_name
from lake_assets.layout.partition import PartitionColumn
from lake_assets.parquet.path_columns import PathColumns, with_types
from lake_assets.parquet.read import FOOTERS, read_footer
from lake_assets.progress import counted
from lake_assets.storage.arrow import ArrowStore
from lake_assets.storage.manifest import Manifest
from lake_assets.streams.stream import OpenStream

MOST = 1_000  # objects of a partition whose footers are read


class Footers:
    """The footers of several partitions' objects, read in parallel, each once.

    Nothing is read for a stream with a transform, whose rows and columns the footers do not tell.

    Args:
        stream: of the objects.
        reads: the objects of each partition; of one with more than `MOST`, none is read.
    """

    def __init__(self, stream: OpenStream, reads: Iterable[Manifest]) -> None:
        self._stream = stream
        self._store = ArrowStore(stream.config.source)
        columns = tuple(PartitionColumn(name, column.type) for name, column in stream.config.path_columns.items())
        self._paths = PathColumns(stream.layout, columns) if columns else None
        few = [manifest.read for manifest in reads if len(manifest.read) <= MOST]
        keys = [] if stream.config.transform is not None else [landed.key for read in few for landed in read]
        with ThreadPoolExecutor(FOOTERS) as pool:
            found = counted(pool.map(self._read, keys), f"read {stream.name}", "footers", len(keys))
            self._found = dict(zip(keys, found, strict=True))

    def rows(self, reads: Manifest) -> int | str:
        """The number of rows of a partition's objects in the lake, or why the footers do not tell it: a clause."""
        if self._stream.config.transform is not None:
            return "the stream has a transform"
        if self._stream.config.selects_rows:
            return "a partition column is in the rows"
        if len(reads.read) > MOST:
            return f"there are more than {MOST:,} objects"
        try:
            return sum(self._footer(landed.key)[0] for landed in reads.read)
        except LakeAssetsError as error:
            return str(error).rstrip(".")

    def schemas(self, reads: Manifest) -> list[tuple[str, pa.Schema]]:
        """The Arrow schemas of a partition's objects, with the columns of their paths, each with the object's name.

        Raises:
            LakeAssetsError: as `read_schema`.
        """
        return [(f"the object {visible_name(landed.uri)}", self._schema(landed.key)) for landed in reads.read]

    def _schema(self, key: str) -> pa.Schema:
        _, schema = self._footer(key)
        return with_types(schema, self._paths.values(key, self._store.uri(key), schema)) if self._paths else schema

    def _footer(self, key: str) -> tuple[int, pa.Schema]:
        found = self._found[key]
        if isinstance(found, LakeAssetsError):
            raise found
        return found

    def _read(self, key: str) -> tuple[int, pa.Schema] | LakeAssetsError:
        try:
            return read_footer(self._store, key, as_it_is=self._stream.config.mode == "index")
        except LakeAssetsError as error:
            return error

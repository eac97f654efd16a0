"""The rows that a partition would have after an ingest, from the footers of its landed objects."""

from concurrent.futures import ThreadPoolExecutor

from lake_assets.errors import LakeAssetsError
from lake_assets.parquet.read import FOOTERS, count_rows
from lake_assets.storage.arrow import ArrowStore
from lake_assets.storage.manifest import Manifest
from lake_assets.streams.stream import OpenStream

MOST = 1_000  # objects whose footers are read


def rows_of_footers(stream: OpenStream, manifest: Manifest) -> int | str:
    """The number of rows of these objects in the lake, or why the footers do not tell it: a clause."""
    if stream.config.transform is not None:
        return "the stream has a transform"
    if stream.config.selects_rows:
        return "a partition column is in the rows"
    if len(manifest.read) > MOST:
        return f"there are more than {MOST:,} objects"
    store = ArrowStore(stream.config.source)
    try:
        with ThreadPoolExecutor(FOOTERS) as pool:
            return sum(pool.map(lambda obj: count_rows(store, obj.key), manifest.read))
    except LakeAssetsError as error:
        return str(error).rstrip(".")

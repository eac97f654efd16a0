"""The landed objects that may hold rows of a partition, if a partition column is in the rows."""

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from lake_assets.config.streams import Stream
from lake_assets.errors import SourceError
from lake_assets.layout.partition import Partition
from lake_assets.parquet.derived_columns import Made
from lake_assets.parquet.read import FOOTERS
from lake_assets.parquet.row_groups import Bounds, read_bounds, rules_out
from lake_assets.progress import counted
from lake_assets.storage.arrow import ArrowStore
from lake_assets.storage.manifest import LandedObject, Manifest

_REMEMBERED = 65_536  # objects

Groups = Sequence[Mapping[str, Bounds | None]] | None
"""The bounds of the columns that select rows, by their names in lower case, for each row group; None: unknown."""


class Holdings:
    """Finds these objects by the statistics in their footers. Each version of an object is read once.

    An object whose footer cannot be read, or that lacks the column, may hold rows of every partition. The run that
    reads it reports what is wrong.

    Args:
        config: of a stream with a partition column in the rows.
    """

    def __init__(self, config: Stream) -> None:
        self._store = ArrowStore(config.source)
        self._known: dict[tuple[str, str], Groups] = {}
        derived = {source.name: source for source in config.derived}
        self._columns = [
            (index, column, derived.get(column.name)) for index, column in enumerate(config.columns) if column.in_rows
        ]
        self._names = [(source.column if source else column.name).lower() for _, column, source in self._columns]

    def of(self, landed: Manifest, partitions: Iterable[Partition]) -> dict[Partition, Manifest]:
        """Return for each of some partitions those of the landed objects that may hold rows of it.

        Raises:
            StorageError: an object cannot be reached.
        """
        known = self._known
        self._read(known, [obj for obj in landed.objects if (obj.key, obj.etag) not in known])
        objects = [(obj, known[obj.key, obj.etag]) for obj in landed.objects]
        if len(known) > _REMEMBERED:
            self._known = {(obj.key, obj.etag): groups for obj, groups in objects}
        return {
            p: Manifest(tuple(obj for obj, groups in objects if self._may_hold(groups, p)), folder=landed)
            for p in partitions
        }

    def _read(self, known: dict[tuple[str, str], Groups], objects: Sequence[LandedObject]) -> None:
        if not objects:
            return
        with ThreadPoolExecutor(FOOTERS) as pool:
            for obj, groups in counted(pool.map(self._groups, objects), "read statistics", "footers", len(objects)):
                known[obj.key, obj.etag] = groups

    def _groups(self, landed: LandedObject) -> tuple[LandedObject, Groups]:
        try:
            return landed, read_bounds(self._store, landed.key, self._names) if landed.size else None
        except SourceError:
            return landed, None

    def _may_hold(self, groups: Groups, partition: Partition) -> bool:
        return groups is None or any(not self._excludes(group, partition) for group in groups)

    def _excludes(self, group: Mapping[str, Bounds | None], partition: Partition) -> bool:
        for (index, column, source), name in zip(self._columns, self._names, strict=True):
            value, bounds = partition.values[index], group[name]
            if source is None or source.is_whole:
                is_excluded = rules_out(value, bounds)
            else:
                is_excluded = Made(source, column, value, name, partition, "").rules_out(bounds)
            if is_excluded:
                return True
        return False

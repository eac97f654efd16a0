"""The live data files of one partition of a table."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from lake_assets.lake.catalog import spec
from lake_assets.lake.catalog.database import CatalogDatabase


@dataclass(frozen=True, slots=True)
class PartitionFile:
    """A live data file of a partition."""

    file_id: int
    path: str  # in the catalog's form
    rows: int  # with deleted ones
    begin_snapshot: int


def partition_files(
    database: CatalogDatabase, table_id: int, partition_id: int, values: Sequence[str | None]
) -> list[PartitionFile]:
    """Return the live data files of a partition, by id.

    Args:
        database: the catalog.
        table_id: of the table.
        partition_id: of its partitioning; files of another partitioning are left out.
        values: of the partition, as texts of the catalog, in the order of the partitioning's keys.
    """
    condition, parameters = of_partition(table_id, values)
    rows = database.rows(
        f"SELECT f.data_file_id, f.path, f.record_count, f.begin_snapshot FROM {spec.DATA_FILE} f "
        f"WHERE {condition} AND f.end_snapshot IS NULL AND f.partition_id = ? ORDER BY f.data_file_id",
        [*parameters, partition_id],
    )
    return [PartitionFile(*row) for row in rows]


def all_partition_files(
    database: CatalogDatabase, table_id: int, partition_id: int, keys: int
) -> dict[tuple[str | None, ...], list[PartitionFile]]:
    """Return the live data files of every partition of a partitioning with `keys` keys, by the partition's values."""
    values, joins = values_of_files(range(keys))
    files: dict[tuple[str | None, ...], list[PartitionFile]] = {}
    for file_id, path, rows, begin, *texts in database.rows(
        f"SELECT f.data_file_id, f.path, f.record_count, f.begin_snapshot, {values} "
        f"FROM {spec.DATA_FILE} f {joins} "
        "WHERE f.table_id = ? AND f.end_snapshot IS NULL AND f.partition_id = ? ORDER BY f.data_file_id",
        [table_id, partition_id],
    ):
        files.setdefault(tuple(texts), []).append(PartitionFile(file_id, path, rows, begin))
    return files


def files_of_partitions(
    database: CatalogDatabase, table_id: int, partition_id: int, wanted: Collection[tuple[str | None, ...]]
) -> dict[tuple[str | None, ...], list[PartitionFile]]:
    """Return the live data files of some partitions of a partitioning, by the partition's values, in one query.

    The database returns the files of all combinations of these values: few more, where the partitions are those of a
    region's or a day's range.

    Args:
        database: the catalog.
        table_id: of the table.
        partition_id: of its partitioning; files of another partitioning are left out.
        wanted: the values of each partition, as texts of the catalog, in the order of the partitioning's keys.
    """
    if len(wanted) == 1:
        (values,) = wanted
        return {values: partition_files(database, table_id, partition_id, values)}
    files: dict[tuple[str | None, ...], list[PartitionFile]] = {values: [] for values in wanted}
    keys = [list(dict.fromkeys(of_key)) for of_key in zip(*wanted, strict=True)]
    columns, joins = values_of_files(range(len(keys)))
    conditions = ["f.table_id = ?", "f.end_snapshot IS NULL", "f.partition_id = ?"]
    parameters: list[object] = [table_id, partition_id]
    for number, texts in enumerate(keys):
        condition, more = _among(f"p{number}.partition_value", texts)
        conditions.append(condition)
        parameters += more
    for file_id, path, rows, begin, *texts in database.rows(
        f"SELECT f.data_file_id, f.path, f.record_count, f.begin_snapshot, {columns} "
        f"FROM {spec.DATA_FILE} f {joins} WHERE {' AND '.join(conditions)} ORDER BY f.data_file_id",
        parameters,
    ):
        if (of_partition := files.get(tuple(texts))) is not None:
            of_partition.append(PartitionFile(file_id, path, rows, begin))
    return files


def _among(column: str, texts: Sequence[str | None]) -> tuple[str, list[object]]:
    """Return the condition that a column has one of these texts, or is NULL where they have None."""
    known = [text for text in texts if text is not None]
    found = [f"{column} IN ({', '.join('?' for _ in known)})"] if known else []
    found += [f"{column} IS NULL"] if None in texts else []
    return f"({' OR '.join(found)})", [*known]


def of_partition(
    table_id: int, values: Sequence[str | None], places: Sequence[int] | None = None
) -> tuple[str, list[object]]:
    """Return the condition for the data files `f` of a partition, under any partitioning, with its parameters.

    Args:
        table_id: of the table.
        values: of the partition, as texts of the catalog.
        places: the index of each value's key in the partitioning; their order is that of the keys when None.
    """
    conditions: list[str] = ["f.table_id = ?"]
    parameters: list[object] = [table_id]
    for index, value in zip(range(len(values)) if places is None else places, values, strict=True):
        compared = "IS NULL" if value is None else "= ?"
        conditions.append(
            f"f.data_file_id IN (SELECT data_file_id FROM {spec.FILE_PARTITION_VALUE} "
            f"WHERE table_id = ? AND partition_key_index = ? AND partition_value {compared})"
        )
        parameters += [table_id, index, *([] if value is None else [value])]
    return " AND ".join(conditions), parameters


def values_of_files(places: Sequence[int]) -> tuple[str, str]:
    """The columns of the partition values of the data files `f` under keys of these indexes, and the joins for them."""
    columns = ", ".join(f"p{key}.partition_value" for key in places)
    joins = " ".join(
        f"JOIN {spec.FILE_PARTITION_VALUE} p{key} ON p{key}.data_file_id = f.data_file_id "
        f"AND p{key}.table_id = f.table_id AND p{key}.partition_key_index = {key}"
        for key in places
    )
    return columns, joins

"""Rules of DuckLake's catalog tables: each row refers to what exists, and the numbers agree. No code of ours."""

import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from lake_assets_tests.faults.independent import Row, Tables

# The column of a table, and the table and column that it refers to. NULL refers to nothing.
REFERENCES = [
    ("ducklake_column", "table_id", "ducklake_table", "table_id"),
    ("ducklake_column", "parent_column", "ducklake_column", "column_id"),
    ("ducklake_column_mapping", "table_id", "ducklake_table", "table_id"),
    ("ducklake_column_tag", "table_id", "ducklake_table", "table_id"),
    ("ducklake_data_file", "mapping_id", "ducklake_column_mapping", "mapping_id"),
    ("ducklake_data_file", "partition_id", "ducklake_partition_info", "partition_id"),
    ("ducklake_data_file", "table_id", "ducklake_table", "table_id"),
    ("ducklake_delete_file", "data_file_id", "ducklake_data_file", "data_file_id"),
    ("ducklake_delete_file", "table_id", "ducklake_table", "table_id"),
    ("ducklake_file_column_stats", "data_file_id", "ducklake_data_file", "data_file_id"),
    ("ducklake_file_column_stats", "table_id", "ducklake_table", "table_id"),
    ("ducklake_file_partition_value", "data_file_id", "ducklake_data_file", "data_file_id"),
    ("ducklake_file_partition_value", "table_id", "ducklake_table", "table_id"),
    ("ducklake_file_variant_stats", "data_file_id", "ducklake_data_file", "data_file_id"),
    ("ducklake_inlined_data_tables", "table_id", "ducklake_table", "table_id"),
    ("ducklake_macro_impl", "macro_id", "ducklake_macro", "macro_id"),
    ("ducklake_name_mapping", "mapping_id", "ducklake_column_mapping", "mapping_id"),
    ("ducklake_partition_column", "partition_id", "ducklake_partition_info", "partition_id"),
    ("ducklake_partition_info", "table_id", "ducklake_table", "table_id"),
    ("ducklake_snapshot", "snapshot_id", "ducklake_snapshot_changes", "snapshot_id"),
    ("ducklake_snapshot_changes", "snapshot_id", "ducklake_snapshot", "snapshot_id"),
    ("ducklake_sort_expression", "sort_id", "ducklake_sort_info", "sort_id"),
    ("ducklake_sort_info", "table_id", "ducklake_table", "table_id"),
    ("ducklake_table", "schema_id", "ducklake_schema", "schema_id"),
    ("ducklake_table_column_stats", "table_id", "ducklake_table", "table_id"),
    ("ducklake_table_stats", "table_id", "ducklake_table", "table_id"),
]
# The columns that no two rows of a table have alike.
KEYS = {
    "ducklake_column_mapping": ("mapping_id",),
    "ducklake_data_file": ("data_file_id",),
    "ducklake_delete_file": ("delete_file_id",),
    "ducklake_file_column_stats": ("data_file_id", "column_id"),
    "ducklake_file_partition_value": ("data_file_id", "partition_key_index"),
    "ducklake_files_scheduled_for_deletion": ("path",),
    "ducklake_inlined_data_tables": ("table_name",),
    "ducklake_name_mapping": ("mapping_id", "column_id"),
    "ducklake_snapshot": ("snapshot_id",),
    "ducklake_snapshot_changes": ("snapshot_id",),
    "ducklake_table_column_stats": ("table_id", "column_id"),
    "ducklake_table_stats": ("table_id",),
}
# The tables whose rows name columns of a table, and the name that they have for them.
OF_COLUMNS = {
    "ducklake_column_tag": "column_id",
    "ducklake_file_column_stats": "column_id",
    "ducklake_file_variant_stats": "column_id",
    "ducklake_partition_column": "column_id",
    "ducklake_table_column_stats": "column_id",
}
# A snapshot's number of things that has given them their ids.
NEXT = {
    "next_catalog_id": [("ducklake_table", "table_id"), ("ducklake_schema", "schema_id"), ("ducklake_view", "view_id")],
    "next_file_id": [
        ("ducklake_data_file", "data_file_id"),
        ("ducklake_delete_file", "delete_file_id"),
        ("ducklake_column_mapping", "mapping_id"),
    ],
}
# Tables whose rows go when no snapshot has them any more.
VERSIONED = ("ducklake_data_file", "ducklake_delete_file", "ducklake_table")


@dataclass(frozen=True)
class Catalog:
    """The tables, and what most rules ask of them."""

    tables: Tables

    def rows(self, name: str) -> Sequence[Row]:
        return self.tables.get(name, ())

    def values(self, name: str, column: str) -> set[object]:
        return {row[column] for row in self.rows(name)}

    @property
    def snapshots(self) -> list[int]:
        return sorted(int(row["snapshot_id"]) for row in self.rows("ducklake_snapshot"))

    @property
    def newest(self) -> int:
        return max(self.snapshots, default=-1)

    def live_files(self, table_id: object = None) -> list[Row]:
        return [
            row
            for row in self.rows("ducklake_data_file")
            if row["end_snapshot"] is None and table_id in (None, row["table_id"])
        ]

    def path(self, row: Row) -> str:
        """The URI of a data file, a file of deletes, or a scheduled file."""
        if not row["path_is_relative"]:
            return str(row["path"])
        root = next(str(r["value"]) for r in self.rows("ducklake_metadata") if r["key"] == "data_path")
        if "table_id" not in row:
            return root + str(row["path"])
        table = next(r for r in self.rows("ducklake_table") if r["table_id"] == row["table_id"])
        schema = next(r for r in self.rows("ducklake_schema") if r["schema_id"] == table["schema_id"])
        folder = ""
        for part in (table, schema):
            folder = f"{part['path']}{folder}"
            if not part["path_is_relative"]:
                return folder + str(row["path"])
        return root + folder + str(row["path"])


def complaints(tables: Tables) -> Iterator[str]:
    """What is stale or contradicts itself in the catalog's tables."""
    catalog = Catalog(tables)
    rules: Iterable[Callable[[Catalog], Iterator[str]]] = (
        _references,
        _keys,
        _columns,
        _snapshots,
        _versions,
        _files,
        _statistics,
        _inlined,
        _options,
        _scheduled,
    )
    for rule in rules:
        yield from rule(catalog)


def _references(catalog: Catalog) -> Iterator[str]:
    for name, column, other, key in REFERENCES:
        known = catalog.values(other, key)
        for row in catalog.rows(name):
            if row[column] is not None and row[column] not in known:
                yield f"{name} has a row of {column} {row[column]}, which {other} does not have"


def _keys(catalog: Catalog) -> Iterator[str]:
    for name, columns in KEYS.items():
        for key, count in Counter(tuple(row[c] for c in columns) for row in catalog.rows(name)).items():
            if count > 1:
                yield f"{name} has {count} rows of {', '.join(columns)} {key}"


def _columns(catalog: Catalog) -> Iterator[str]:
    known = {(row["table_id"], row["column_id"]) for row in catalog.rows("ducklake_column")}
    for name, column in OF_COLUMNS.items():
        for row in catalog.rows(name):
            if (row["table_id"], row[column]) not in known:
                yield f"{name} has a row of the column {row[column]} that table {row['table_id']} never had"
    tables = {row["mapping_id"]: row["table_id"] for row in catalog.rows("ducklake_column_mapping")}
    for row in catalog.rows("ducklake_name_mapping"):
        table = tables.get(row["mapping_id"])
        if table is not None and (table, row["target_field_id"]) not in known:
            yield f"ducklake_name_mapping has a row of the column {row['target_field_id']} that table {table} never had"
    live = [row for row in catalog.rows("ducklake_column") if row["end_snapshot"] is None]
    names = Counter((row["table_id"], row["parent_column"], str(row["column_name"]).lower()) for row in live)
    yield from (f"ducklake_column has {n} live rows of {key}" for key, n in names.items() if n > 1)


def _snapshots(catalog: Catalog) -> Iterator[str]:
    rows = sorted(catalog.rows("ducklake_snapshot"), key=lambda row: row["snapshot_id"])
    for before, after in itertools.pairwise(rows):
        yield from (
            f"snapshot {after['snapshot_id']} has a smaller {column} than the one before it"
            for column in ("schema_version", "next_catalog_id", "next_file_id")
            if after[column] < before[column]
        )
    for column, things in NEXT.items():
        for name, key in things:
            largest = max((int(row[key]) for row in catalog.rows(name)), default=-1)
            if rows and largest >= rows[-1][column]:
                yield f"{name} has {key} {largest}, and the newest snapshot says {column} {rows[-1][column]}"


def _versions(catalog: Catalog) -> Iterator[str]:
    snapshots = catalog.snapshots
    for name, rows in catalog.tables.items():
        for row in rows:
            begin, end = row.get("begin_snapshot"), row.get("end_snapshot")
            if begin is not None and begin > catalog.newest:
                yield f"{name} has a row from snapshot {begin} on, and the newest is {catalog.newest}"
            if end is not None and (end > catalog.newest or (begin is not None and end <= begin)):
                yield f"{name} has a row of the snapshots from {begin} to {end}, and the newest is {catalog.newest}"
            if name in VERSIONED and not any(
                row["begin_snapshot"] <= s and (end is None or s < end) for s in snapshots
            ):
                yield f"{name} has a row of the snapshots from {begin} to {end}, which have all expired"


def _files(catalog: Catalog) -> Iterator[str]:
    tables = {row["data_file_id"]: row["table_id"] for row in catalog.rows("ducklake_data_file")}
    for name in ("ducklake_delete_file", "ducklake_file_column_stats", "ducklake_file_partition_value"):
        for row in catalog.rows(name):
            table = tables.get(row["data_file_id"], row["table_id"])
            if table != row["table_id"]:
                yield f"{name} says that file {row['data_file_id']} is of table {row['table_id']}, not {table}"
    paths = Counter(map(catalog.path, catalog.rows("ducklake_data_file")))
    yield from (f"the file {path} is registered {count} times" for path, count in paths.items() if count > 1)
    indexes: dict[object, set[object]] = defaultdict(set)
    for row in catalog.rows("ducklake_partition_column"):
        indexes[row["partition_id"]].add(row["partition_key_index"])
    values: dict[object, set[object]] = defaultdict(set)
    for row in catalog.rows("ducklake_file_partition_value"):
        values[row["data_file_id"]].add(row["partition_key_index"])
    for row in catalog.rows("ducklake_data_file"):
        if values[row["data_file_id"]] != indexes[row["partition_id"]]:
            yield f"file {row['data_file_id']} has values of the partition keys {values[row['data_file_id']]}"


def _statistics(catalog: Catalog) -> Iterator[str]:
    statistics = {row["table_id"]: row for row in catalog.rows("ducklake_table_stats")}
    nulls = {
        (row["table_id"], row["column_id"])
        for row in catalog.rows("ducklake_table_column_stats")
        if row["contains_null"] is not None and not row["contains_null"]
    }
    for table_id in {row["table_id"] for row in catalog.live_files()}:
        files = catalog.live_files(table_id)
        row = statistics.get(table_id)
        if row is None:
            yield f"table {table_id} has files and no row in ducklake_table_stats"
            continue
        # DuckLake adds what is inserted, and never takes away what is deleted.
        for column, of_file in (("record_count", "record_count"), ("file_size_bytes", "file_size_bytes")):
            total = sum(int(file[of_file]) for file in files)
            if int(row[column]) < total:
                yield f"ducklake_table_stats says {column} {row[column]} of table {table_id}; its files have {total}"
        ranges = sorted(
            (int(f["row_id_start"]), int(f["row_id_start"]) + int(f["record_count"]))
            for f in files
            if f["row_id_start"] is not None and f["record_count"]
        )
        if ranges and max(end for _, end in ranges) > int(row["next_row_id"]):
            yield f"ducklake_table_stats says next_row_id {row['next_row_id']} of table {table_id}, which a file has"
        if any(after < end for (_, end), (after, _) in itertools.pairwise(ranges)):
            yield f"two live files of table {table_id} have the same row ids: {ranges}"
    live = {row["data_file_id"] for row in catalog.live_files()}
    for row in catalog.rows("ducklake_file_column_stats"):
        key = row["table_id"], row["column_id"]
        if row["data_file_id"] in live and row["null_count"] and key in nulls:
            yield f"ducklake_table_column_stats says that column {key} has no NULL, and a file has {row['null_count']}"


def _inlined(catalog: Catalog) -> Iterator[str]:
    files = {(row["table_id"], row["data_file_id"]) for row in catalog.rows("ducklake_data_file")}
    listed = {row["table_name"] for row in catalog.rows("ducklake_inlined_data_tables")}
    for name in listed - set(catalog.tables):
        yield f"ducklake_inlined_data_tables has {name}, and there is no such table"
    for name, rows in catalog.tables.items():
        if name.startswith("ducklake_inlined_data_") and name != "ducklake_inlined_data_tables" and name not in listed:
            yield f"there is a table {name}, which ducklake_inlined_data_tables does not have"
        if name.startswith("ducklake_inlined_delete_"):
            table_id = int(name.rpartition("_")[2])
            for row in rows:
                if (table_id, row["file_id"]) not in files:
                    yield f"{name} has a row of file {row['file_id']}, which ducklake_data_file does not have"


def _options(catalog: Catalog) -> Iterator[str]:
    tables = catalog.values("ducklake_table", "table_id")
    for row in catalog.rows("ducklake_metadata"):
        if row["scope"] == "table" and row["scope_id"] not in tables:
            yield f"ducklake_metadata has the option {row['key']} of table {row['scope_id']}, which does not exist"
    objects = tables.union(*(catalog.values(f"ducklake_{kind}", f"{kind}_id") for kind in ("schema", "view")))
    for row in catalog.rows("ducklake_tag"):
        if row["object_id"] not in objects:
            yield f"ducklake_tag has a row of object {row['object_id']}, which does not exist"
    for row in catalog.rows("ducklake_schema_versions"):
        if row.get("table_id") is not None and row["table_id"] not in tables:
            yield f"ducklake_schema_versions has a row of table {row['table_id']}, which does not exist"


def _scheduled(catalog: Catalog) -> Iterator[str]:
    named = {catalog.path(row) for name in VERSIONED[:2] for row in catalog.rows(name)}
    for row in catalog.rows("ducklake_files_scheduled_for_deletion"):
        if catalog.path(row) in named:
            yield f"ducklake_files_scheduled_for_deletion has {catalog.path(row)}, which a snapshot has"

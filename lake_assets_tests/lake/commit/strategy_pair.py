"""Two lakes with the same commits, one by each strategy, and a comparison of their catalogs."""

import dataclasses
import datetime as dt
import decimal
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from dev.plain_client import plain_client
from lake_assets.config.lake import Lake
from lake_assets.config.layout.partition import Partition, PartitionColumn
from lake_assets.lake.commit.candidates import Inspection, inspect_candidates
from lake_assets.lake.commit.change import Change, LandedFile, LandedFiles, Requirements, Written
from lake_assets.lake.commit.direct import replace_directly
from lake_assets.lake.commit.extension import replace_by_extension
from lake_assets.lake.commit.strategy import Strategy
from lake_assets.lake.ducklake import DuckLake
from lake_assets.lake.file_checker import FileChecker, PartitionKeys
from lake_assets.lake.ledger.tables import MANIFEST, LedgerRow, create_ledger, manifest_values
from lake_assets.lake.session import PartitionedTable, TableName
from lake_assets.lake.table_setup import create_table, data_schema, prepare_table
from lake_assets.schema.column_rules import REGISTERED
from lake_assets.schema.fitter import Target
from lake_assets.spark.task.job import DataFile
from lake_assets.storage.manifest import LandedObject, Manifest

TABLE = TableName("main", "t")
COLUMNS = (PartitionColumn("region", "string"), PartitionColumn("date", "date"))
NOON = dt.datetime(2026, 2, 11, 12, tzinfo=dt.UTC)

SCHEMA = pa.schema(
    [
        ("i8", pa.int8()),
        ("i64", pa.int64()),
        ("u32", pa.uint32()),
        ("f32", pa.float32()),
        ("f64", pa.float64()),
        ("flag", pa.bool_()),
        ("text", pa.string()),
        ("bytes", pa.binary()),
        ("id", pa.uuid()),
        ("amount", pa.decimal128(12, 2)),
        ("day", pa.date32()),
        ("clock", pa.time64("us")),
        ("local", pa.timestamp("us")),
        ("nanos", pa.timestamp("ns")),
        ("instant", pa.timestamp("us", "UTC")),
        ("tags", pa.list_(pa.string())),
        ("shape", pa.struct([("x", pa.int32()), ("deep", pa.struct([("y", pa.list_(pa.float64()))]))])),
        ("counts", pa.map_(pa.string(), pa.struct([("n", pa.int64())]))),
    ]
)


def row(n: int) -> dict[str, Any]:
    """A row of every type, that differs from others in all columns."""
    return {
        "i8": n % 100,
        "i64": n * 10,  # as text 100 comes before 90
        "u32": n,
        "f32": n / 2,
        "f64": n * 1e10,
        "flag": n % 2 == 0,
        "text": f"ü{n} 'quoted'",
        "bytes": bytes([n % 256, 0, 255]),
        "id": uuid.UUID(int=n).bytes,
        "amount": decimal.Decimal(n) / 4,
        "day": dt.date(2026, 1, 1) + dt.timedelta(days=n),
        "clock": dt.time(n % 24, 1, 2, n),
        "local": dt.datetime(2026, 1, 1, n % 24, 0, 0, n),  # noqa: DTZ001 - a column without a zone
        "nanos": 1_700_000_000_000_000_000 + n,
        "instant": NOON + dt.timedelta(seconds=n),
        "tags": [f"t{n}", None],
        "shape": {"x": n, "deep": {"y": [float(n), n + 0.5]}},
        "counts": [(f"k{n}", {"n": n})],
    }


NOTHING: dict[str, Any] = dict.fromkeys(SCHEMA.names)


@dataclass
class StrategyLake:
    """One of the two lakes."""

    strategy: Strategy
    lake: Lake
    folder: Path  # of the data

    def __post_init__(self) -> None:
        self.ducklake = DuckLake(self.lake)
        self._commits = 0
        with self.ducklake.open(create=True) as session:
            create_ledger(session)
            create_table(session, PartitionedTable(TABLE, COLUMNS), SCHEMA)
            prepare_table(session, TABLE)

    def write(self, partition: Partition, rows: Sequence[dict[str, Any]], name: str, row_group_size: int) -> str:
        path = self.folder / "main" / "t" / partition.path / f"{name}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        with self.ducklake.open() as session:
            schema = data_schema(session, PartitionedTable(TABLE, COLUMNS))
        keys = [*SCHEMA.names, *schema.names[len(SCHEMA) :]]  # by place: columns may be renamed, or added at the end
        columns = [
            pa.array([row.get(key) for row in rows], field.type) for key, field in zip(keys, schema, strict=True)
        ]
        table = pa.Table.from_arrays(columns, schema=schema)
        pq.write_table(table, path, row_group_size=row_group_size)
        return str(path)

    def replace(
        self, text: str, *files: Sequence[dict[str, Any]], strategy: Strategy | None = None, row_group_size: int = 1000
    ) -> LedgerRow:
        """Replace a partition by files with these rows."""
        self._commits += 1
        partition = Partition.parse(COLUMNS, text)
        uris = [self.write(partition, rows, f"{self._commits}-{n}", row_group_size) for n, rows in enumerate(files)]
        objects = tuple(LandedObject(f"/landed/{n}", f"{n}", "etag", 7, NOON) for n in range(len(files)))
        ledger_row = dataclasses.replace(self._ledger_row(partition, "replace"), row_count=sum(map(len, files)))
        with self.ducklake.open() as session:
            appends = {MANIFEST: manifest_values(Manifest(objects))}
            new, requires = Written([DataFile(uri, 0, 0) for uri in uris]), Requirements(may_be_held=True)
            change = Change(TABLE, partition, ledger_row, new, appends=appends, requires=requires)
            return (strategy or self.strategy)(session, [change])[0]

    def _ledger_row(self, partition: Partition, mode: str) -> LedgerRow:
        return LedgerRow(
            run_id=f"run {self._commits}",
            run_at=NOON,
            stream="s",
            source_glob="/landed/*",
            destination_table=str(TABLE),
            partition_columns="region,date",
            load_partition=partition.path,
            mode=mode,
            status="committed",
            started_at=NOON,
        )

    def register(self, files: Mapping[str, Sequence[dict[str, Any]]], strategy: Strategy) -> list[LedgerRow]:
        """Register a file of these rows in each partition, by one commit."""
        self._commits += 1
        candidates = []
        for text, rows in files.items():
            partition = Partition.parse(COLUMNS, text)
            uri = self.write(partition, rows, f"{self._commits}-0", 1000)
            size = Path(uri).stat().st_size
            candidates.append((LandedObject(uri, f"{partition.path}/x", "etag", size, NOON), partition))
        with self.ducklake.open() as session:
            schema = data_schema(session, PartitionedTable(TABLE, COLUMNS))
            checker = FileChecker(session, PartitionKeys(COLUMNS), Target(schema, REGISTERED), lambda _: schema)
            inspection = inspect_candidates(TABLE, checker, candidates, probe=list)
            assert not inspection.errors
            return strategy(session, [self._registration(inspection, file) for file in inspection.files])

    def _registration(self, inspection: Inspection, file: LandedFile) -> Change:
        row, landed = self._ledger_row(file.partition, "index"), LandedFiles(inspection.described, [file])
        appends = {MANIFEST: manifest_values(Manifest((file.object,)))}
        return Change(TABLE, file.partition, row, landed, adds=True, appends=appends)

    def execute(self, sql: str) -> None:
        with self.ducklake.open() as session:
            session.rows(sql)

    def query(self, sql: str, *parameters: object) -> list[tuple[Any, ...]]:
        """What a client sees that knows nothing of us."""
        with self.client() as client:
            return client.execute(sql, parameters).fetchall()

    @contextmanager
    def client(self) -> Iterator[duckdb.DuckDBPyConnection]:
        with plain_client(self.lake, read_only=False) as client:
            client.execute("SET TimeZone = 'UTC'")
            yield client

    def catalog(self) -> dict[str, list[tuple[Any, ...]]]:
        """All that the catalog says, but for what differs between any two lakes: times, UUIDs, and file ids."""
        with self.client() as client:
            return {
                title: client.execute(sql.replace("META", "__ducklake_metadata_lake")).fetchall()
                for title, sql in _CATALOG.items()
            }


_FILES = "META.ducklake_data_file"
# The extension compares bytes as the texts that stand for them, and so takes 4D for less than 02.
_BYTES = "SELECT column_id FROM META.ducklake_column WHERE column_name = 'bytes'"
_CATALOG = {
    "snapshots": "SELECT snapshot_id, schema_version, next_catalog_id FROM META.ducklake_snapshot ORDER BY ALL",
    "changes": "SELECT snapshot_id, list_sort(string_split(changes_made, ',')), author, commit_message, "
    "commit_extra_info FROM META.ducklake_snapshot_changes ORDER BY ALL",
    "files": f"SELECT * EXCLUDE (data_file_id, path_is_relative), path_is_relative::BOOLEAN FROM {_FILES} ORDER BY ALL",
    "partitions": "SELECT f.path, v.* EXCLUDE (data_file_id) FROM META.ducklake_file_partition_value v "
    f"JOIN {_FILES} f USING (data_file_id) ORDER BY ALL",
    "file statistics": "SELECT f.path, s.* EXCLUDE (data_file_id, contains_nan), s.contains_nan::BOOLEAN "
    f"FROM META.ducklake_file_column_stats s JOIN {_FILES} f USING (data_file_id) "
    f"WHERE column_id NOT IN ({_BYTES}) ORDER BY ALL",
    "table statistics": "SELECT * FROM META.ducklake_table_stats ORDER BY ALL",
    "column statistics": "SELECT * EXCLUDE (contains_null, contains_nan), contains_null::BOOLEAN, "
    "contains_nan::BOOLEAN FROM META.ducklake_table_column_stats "
    # The ledger's times are not the same.
    "WHERE table_id = (SELECT table_id FROM META.ducklake_table WHERE table_name = 't') "
    f"AND column_id NOT IN ({_BYTES}) ORDER BY ALL",
    "mappings": "SELECT * FROM META.ducklake_name_mapping ORDER BY ALL",
    "ledger": "SELECT rowid, * EXCLUDE (finished_at) FROM lake.ingest_runs ORDER BY ALL",
    "manifest": "SELECT rowid, * FROM lake.ingest_files ORDER BY ALL",
    "rows": "SELECT rowid, * FROM lake.t ORDER BY ALL",
}


StrategyPair = tuple[StrategyLake, StrategyLake]
Catalogs = Callable[[str], dict[str, Any]]
"""Gives the config of a new catalog by a name."""


def empty_lake(
    catalog: Catalogs, folder: Path, strategy: Strategy, options: Mapping[str, Any] = MappingProxyType({})
) -> StrategyLake:
    """A lake with an empty table.

    Args:
        catalog: makes the catalog, which has the name of the folder.
        folder: of the data files.
        strategy: of the commits.
        options: the `attach_options`.
    """
    config = {"catalog": catalog(folder.name), "storage": str(folder), "attach_options": dict(options)}
    return StrategyLake(strategy, Lake.model_validate(config), folder)


def empty_pair(catalog: Catalogs, folder: Path, options: Mapping[str, Any] = MappingProxyType({})) -> StrategyPair:
    """A lake whose commits go directly and one whose commits go by the extension, each with an empty table."""
    direct = empty_lake(catalog, folder / "direct", replace_directly, options)
    return direct, empty_lake(catalog, folder / "extension", replace_by_extension, options)

"""A whole small world for tests: a landing zone, a lake, a stream between them, and readers that are not ours."""

import datetime as dt
import io
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self
from unittest import mock

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from pyspark.sql import SparkSession

from dev.plain_client import plain_client, reading_client
from lake_assets.api import Stream, open_stream
from lake_assets.config.layout.partition import Partition
from lake_assets.config.models import LakeConfig
from lake_assets.config.storages import LocalStorage
from lake_assets.ingest.dry_run import plan_stream
from lake_assets.ingest.ingest_all import ingest
from lake_assets.ingest.outcome import IngestOptions, Outcome
from lake_assets.ingest.plan import PartitionPlan
from lake_assets.lake.ledger.read import LedgerFilter, read_ledger
from lake_assets.lake.ledger.tables import LedgerRow
from lake_assets.storage.store import Store
from lake_assets.streams.stream import OpenStream
from lake_assets.upkeep.maintenance.maintenance_run import Maintained, maintain
from lake_assets_tests.template_lakes import create_by_copy

NW = "region=NW,date=2026-02-11"
SW = "region=SW,date=2026-02-11"

STREAM: dict[str, Any] = {
    "partitions": {"region": {}, "date": {"type": "date", "start": "2026-01-01"}},
    "destination": {"table": "sales"},
}


def sales(*totals: float) -> pa.Table:
    """Some rows: id 0, 1, … and these totals."""
    return pa.table({"id": pa.array(range(len(totals)), pa.int64()), "total": pa.array(totals, pa.float64())})


def plan(stream: OpenStream, partition: Partition, *, force: bool = False) -> PartitionPlan:
    """What an ingest of one partition would do now."""
    (planned,) = plan_stream(stream, [partition], IngestOptions(force=force)).partitions
    return planned


def maintained_at(moment: dt.datetime) -> AbstractContextManager[object]:
    """Let maintenance count ages from this moment."""
    return mock.patch("lake_assets.upkeep.maintenance.maintenance_run._now", return_value=moment)


@dataclass
class World:
    """One stream `sales` with all that it needs."""

    catalog: dict[str, Any]
    storage: dict[str, Any]
    source: dict[str, Any]
    sessions: Callable[[], SparkSession]
    options: dict[str, Any] = field(default_factory=dict)
    lake_options: dict[str, Any] = field(default_factory=dict)
    sections: dict[str, Any] = field(default_factory=dict)  # of the config, beside lakes and streams
    _opened: tuple[LakeConfig, Stream] | None = None

    @classmethod
    def in_folder(cls, folder: Path, sessions: Callable[[], SparkSession], **options: Any) -> Self:
        """A world of local files with a SQLite catalog, below a folder."""
        storage, landing = ({"type": "local", "path": str(folder / name)} for name in ("data", "landing"))
        return cls({"type": "sqlite", "path": str(folder / "catalog.sqlite")}, storage, landing, sessions, options)

    @property
    def document(self) -> dict[str, Any]:
        """The config as a user writes it."""
        lake = {"catalog": self.catalog, "storage": self.storage} | self.lake_options
        stream = STREAM | {"source": self.source} | self.options
        return {"lakes": {"test": lake}, "streams": {"sales": stream}} | self.sections

    @property
    def config(self) -> LakeConfig:
        return LakeConfig.model_validate(self.document)

    def config_file(self, folder: Path, **sections: Any) -> Path:
        """Write the config, and more sections of it, to `lake.yaml` in a folder."""
        file = folder / "lake.yaml"
        file.write_text(yaml.safe_dump(self.document | sections, sort_keys=False), encoding="utf-8")
        return file

    @property
    def stream(self) -> Stream:
        """The stream; the same while the config is, for its engine takes longer to load than most of what is tested."""
        config = self.config
        if self._opened is None or self._opened[0] != config:
            self._opened = config, open_stream(config, "sales")
        return self._opened[1]

    def partition(self, text: str) -> Partition:
        return self.config.streams["sales"].partition(text)

    def land(self, text: str, rows: pa.Table | bytes, name: str = "batch_1.parquet", **writer: Any) -> str:
        """Put one object into a partition's folder, or its values into the object's name; returns its URI."""
        if isinstance(rows, bytes):
            body = rows
        else:
            buffer = io.BytesIO()
            pq.write_table(rows, buffer, **writer)
            body = buffer.getvalue()
        key = self._key(text, name)
        with self.landing.create(key) as file:
            file.write(body)
        return self.landing.uri(key)

    def _key(self, text: str, name: str) -> str:
        template, partition = self.config.streams["sales"].template, self.partition(text)
        if template.file_parts:
            return template.glob(partition.path_part.texts()).replace("*", name.removesuffix(".parquet"))
        return f"{partition.path}/{name}"

    @property
    def landing(self) -> Store:
        if isinstance(self.config.streams["sales"].source, LocalStorage):
            Path(self.source["path"]).mkdir(parents=True, exist_ok=True)
        return Store(self.config.streams["sales"].source)

    def unland(self, text: str, name: str = "batch_1.parquet") -> None:
        Store(self.config.streams["sales"].source).delete((self._key(text, name),))

    def ingest(self, text: str, **options: Any) -> Outcome:
        create_by_copy(self.config.lakes["test"])
        return ingest(self.stream, self.partition(text), self.sessions, IngestOptions(**options))

    def commit(self, text: str, *totals: float, name: str = "batch_1.parquet", **options: Any) -> LedgerRow:
        """Land an object with these totals, and ingest its partition; returns the ledger row."""
        self.land(text, sales(*totals), name)
        return self.ingest(text, **options).row

    def execute(self, *statements: str) -> None:
        """Change the lake or its catalog by statements of another client, each in a transaction of its own."""
        with self.stream.lake.open() as lake:
            for sql in statements:
                lake.rows(sql)

    def tidy(self, days: float = 0, **options: Any) -> Maintained:
        """Maintain the lake as of so many days from now."""
        with maintained_at(dt.datetime.now(dt.UTC) + dt.timedelta(days=days)):
            return maintain(self.config, "test", self.sessions, **options)

    def query(self, sql: str, *parameters: object) -> list[tuple[Any, ...]]:
        """The lake as a plain DuckDB client sees it, through a connection of its own."""
        with reading_client(self.config.lakes["test"]) as client:
            return client.execute(sql, parameters).fetchall()

    def arrow(self, sql: str) -> pa.Table:
        """What `query` finds, as Arrow has it."""
        with reading_client(self.config.lakes["test"]) as client:
            return client.execute(sql).to_arrow_table()

    @contextmanager
    def reader(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A plain client with the lake attached, for several queries."""
        with plain_client(self.config.lakes["test"]) as client:
            yield client

    def totals(self, text: str | None = None) -> list[float]:
        """The totals in the lake, sorted; of one partition or of all."""
        rows = self.query("SELECT region, date::VARCHAR, total FROM lake.sales ORDER BY total")
        wanted = [None if text is None else tuple(self.partition(text).values)]
        return [
            total
            for region, date, total in rows
            if wanted[0] is None or (region, date) == tuple(None if v is None else str(v) for v in wanted[0])
        ]

    def ledger(self, text: str | None = None) -> list[LedgerRow]:
        """The ledger's rows, newest first."""
        with self.stream.lake.open() as lake:
            return read_ledger(lake, LedgerFilter(load_partition=self.partition(text).path if text else None))

    def live_files(self) -> list[str]:
        """The URIs of the table's files in the newest snapshot."""
        return [uri for (uri,) in self.query("SELECT data_file FROM ducklake_list_files('lake', 'sales')")]

    def data_files(self) -> set[str]:
        """The keys of all Parquet files below the lake's storage, registered or not."""
        storage = self.config.lakes["test"].own_storage
        if isinstance(storage, LocalStorage) and not Path(storage.path).exists():
            return set()
        return {obj.key for obj in Store(storage).list(files="*.parquet")}

"""dlt with its destination `ducklake`: write disposition `merge` by the strategy `delete-insert`."""

import importlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from dev.benchmarks.peers.serve import How, Peer, Values, serve

TYPES = {"string": pa.string(), "date": pa.date32()}


class Dlt(Peer):
    """A DuckLake with a SQLite catalog, written by a pipeline."""

    distributions = ("dlt", "duckdb", "duckdb-extension-ducklake", "pyarrow")
    pipeline: Any

    def create(self) -> None:
        """The first load makes the table."""
        self.open()

    def open(self) -> None:
        """A pipeline of its own for each process: two processes cannot share a pipeline's folder."""
        home = self.place.folder / f"home-{os.getpid()}"
        _install_extensions(home)
        os.environ |= {"HOME": str(home), "RUNTIME__DLTHUB_TELEMETRY": "false", "DLT_DATA_DIR": str(home / "dlt")}
        import dlt  # noqa: PLC0415 - it reads the environment
        from dlt.destinations.impl.ducklake.configuration import DuckLakeCredentials  # noqa: PLC0415

        credentials = DuckLakeCredentials("lake", catalog=self.place.catalog, storage=self._storage())
        # By default all pipelines of a dataset share its staging tables, and concurrent loads lose rows.
        destination = dlt.destinations.ducklake(
            credentials=credentials, staging_dataset_name_layout=f"%s_staging_{os.getpid()}"
        )
        self.pipeline = dlt.pipeline("bench", destination=destination, dataset_name="bench")

    def _storage(self) -> Any:
        if not self.place.on_s3:
            return f"file://{self.place.data}/data"
        from dlt.common.configuration.specs import AwsCredentials  # noqa: PLC0415
        from dlt.common.storages.configuration import FilesystemConfiguration  # noqa: PLC0415

        keys = AwsCredentials(
            aws_access_key_id=os.environ["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=os.environ["AWS_SECRET_ACCESS_KEY"],
            region_name=os.environ["AWS_REGION"],
            endpoint_url=os.environ["AWS_ENDPOINT_URL"],
            s3_url_style="path",
        )
        return FilesystemConfiguration(bucket_url=f"{self.place.data}/data", credentials=keys)

    def _load(self, data: Any, disposition: Any) -> None:
        import dlt  # noqa: PLC0415
        from dlt.pipeline.exceptions import PipelineStepFailed  # noqa: PLC0415

        columns: Any = {name: {"partition": True} for name in self.place.columns}
        for field in self.place.schema():
            if pa.types.is_timestamp(field.type) and field.type.tz is None:
                columns[field.name] = {"timezone": False}
        resource = dlt.resource(
            data, name="sales", write_disposition=disposition, merge_key=list(self.place.columns), columns=columns
        )
        try:
            self.pipeline.run(resource, loader_file_format="parquet")
        except PipelineStepFailed as error:
            # Its own text is a page; the cause has the reason.
            cause: BaseException = error
            while cause.__cause__ is not None:
                cause = cause.__cause__
            raise cause from None

    def refresh(self, partition: Values) -> None:
        """The merge deletes the rows with the merge keys that are loaded, and inserts the loaded rows."""
        objects = self.place.objects(partition)

        def batches() -> Any:
            for batch in ds.dataset(objects, format="parquet", filesystem=self.place.files).scanner().to_batches():
                rows = pa.Table.from_batches([batch])
                for name, value in partition.items():
                    constant = pa.scalar(value).cast(TYPES[self.place.columns[name]])
                    rows = rows.append_column(name, pa.repeat(constant, rows.num_rows))
                yield rows

        self._load(batches, {"disposition": "merge", "strategy": "delete-insert"})

    def refresh_all(self, partitions: Sequence[Values], how: How) -> None:
        """One load of all, which replaces the table, or one merge."""
        some = [path for partition in partitions for path in self.place.objects(partition)]
        schema = pa.schema([(name, TYPES[kind]) for name, kind in self.place.columns.items()])
        landed = ds.dataset(
            some if how == "some" else self.place.base,
            format="parquet",
            filesystem=self.place.files,
            partitioning=ds.partitioning(schema, flavor="hive"),
            partition_base_dir=self.place.base,
        )

        def batches() -> Any:
            for batch in landed.scanner().to_batches():
                yield pa.Table.from_batches([batch])

        self._load(batches, {"disposition": "merge", "strategy": "delete-insert"} if how == "some" else "replace")

    def query(self, sql: str, columns: Sequence[str], where: str) -> list[tuple[Any, ...]]:
        """Of the newest snapshot."""
        with self.pipeline.sql_client() as client:
            return client.execute_sql(sql.format(table="sales"))

    def count(self, partition: Values) -> int:
        """Of the newest snapshot."""
        condition = " AND ".join(f"{name} = '{value}'" for name, value in partition.items())
        with self.pipeline.sql_client() as client:
            return int(client.execute_sql(f"SELECT count(*) FROM sales WHERE {condition}")[0][0])

    def read_back(self, file: Path) -> str:
        """`COPY` of the table."""
        with self.pipeline.sql_client() as client:
            client.execute_sql(f"COPY sales TO '{file}' (FORMAT parquet, COMPRESSION uncompressed)")
        return str(file)


def _install_extensions(home: Path) -> None:
    """The wheels' extensions where DuckDB looks for installed ones."""
    import duckdb  # noqa: PLC0415

    platform = duckdb.execute("PRAGMA platform").fetchall()[0][0]
    folder = home / ".duckdb" / "extensions" / f"v{duckdb.__version__}" / platform
    folder.mkdir(parents=True)
    for name in ("ducklake", "sqlite_scanner", "postgres_scanner", "httpfs"):
        package = importlib.import_module(f"duckdb_extension_{name}")
        assert package.__file__ is not None
        (file,) = Path(package.__file__).parent.rglob("*.duckdb_extension")
        (folder / file.name).symlink_to(file)


if __name__ == "__main__":
    serve(Dlt)

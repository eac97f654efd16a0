"""Each client of the product at each verb of a store, on one bucket."""

import datetime as dt
from collections.abc import Callable
from typing import Any, Literal

from pydantic import TypeAdapter

from dev.servers.odd_s3 import etag
from lake_assets.base.duckdb_engine import open_engine, without_cache
from lake_assets.config.lake import Lake
from lake_assets.config.storages import AnyStorage, LakeStorage, S3Storage
from lake_assets.lake.attach import extensions, http_limits, secret_statements
from lake_assets.lake.failures import translated
from lake_assets.storage.formats.parquet_files import opened_object
from lake_assets.storage.manifest import LandedObject
from lake_assets.storage.s3 import S3Bucket
from lake_assets.storage.storage_errors import write_errors
from lake_assets.storage.store import Store

Verb = Literal["LIST", "HEAD", "GET", "PUT", "MULTIPART", "DELETE"]
# A HEAD tells nothing; who is answered so asks by GET, and gets the same answer. obstore deletes by POST.
METHODS: dict[Verb, tuple[str, ...]] = {
    "LIST": ("GET",),
    "HEAD": ("HEAD", "GET"),
    "GET": ("GET",),
    "PUT": ("PUT",),
    "MULTIPART": ("POST",),
    "DELETE": ("DELETE", "POST"),
}
BIG = 11 * 2**20  # bytes that each client uploads in parts
BODY = b"a,b\n1,2\n" * 100


class Clients:
    """Each client of the product, on a bucket with an object `a`; what its verbs raise are errors of ours."""

    def __init__(self, place: dict[str, Any]) -> None:
        place = {"requests": {"retries": 2, "first_wait": 0.01, "longest_wait": 0.02}} | place
        storage: AnyStorage = TypeAdapter(LakeStorage).validate_python({"type": "s3"} | place)
        self._storage, self._store, self._arrow = storage, Store(storage), Store(storage)
        catalog = {"type": "duckdb", "path": "unused"}
        self._lake = Lake.model_validate({"catalog": catalog, "storage": "/unused"})
        self._lake.note_streams([storage], exports_deltas=False, has_dead_letters=False)
        self._engine = open_engine(extensions(self._lake), http_limits(self._lake))
        self._engine.execute(";".join(secret_statements(self._lake)))
        if storage.type == "s3":
            self._engine.execute("SET s3_uploader_max_filesize = '50GB'")  # so that its parts have 5 MiB
        without_cache(self._engine)

    def land(self) -> None:
        """Put `a` there."""
        self._store.put_own("a", BODY, multipart_above=BIG)

    def duckdb(self, sql: str) -> None:
        with translated(self._lake):
            self._engine.execute(sql).fetchall()

    def written(self, size: int) -> None:
        uri = f"{self._storage.root}/new"
        with write_errors(self._storage, uri), self._arrow.create("new") as file:
            file.write(b"x" * size)

    def read(self) -> None:
        with opened_object(self._arrow, "a") as file:
            file.read()

    def paged(self) -> None:
        assert isinstance(self._storage, S3Storage)
        with self._store._errors("list"):
            S3Bucket(self._storage).page("", "")

    @property
    def of_azure(self) -> dict[tuple[Verb, str], Callable[[], object]]:
        """Those of an answer to any request; DuckDB reads no more after a first answer."""
        known = self.verbs
        return {cell: known[cell] for cell in known if cell[1] != "boto3" and cell != ("MULTIPART", "DuckDB")}

    @property
    def verbs(self) -> dict[tuple[Verb, str], Callable[[], object]]:
        store = self._store
        landed = LandedObject("", "a", etag(BODY).strip('"'), len(BODY), dt.datetime.now(dt.UTC))
        return of_obstore(store) | {
            ("LIST", "boto3"): self.paged,
            ("LIST", "DuckDB"): lambda: self.duckdb(f"FROM glob('{self._storage.root}/*')"),
            ("HEAD", "Arrow"): self.read,
            ("GET", "Arrow"): self.read,
            ("GET", "DuckDB"): lambda: self.duckdb(f"FROM read_text('{self._storage.root}/a')"),
            ("PUT", "Arrow"): lambda: self.written(9),
            ("PUT", "boto3"): lambda: store.tag_unchanged(landed, "name", "value"),
            ("PUT", "DuckDB"): lambda: self.duckdb(f"COPY (SELECT 1) TO '{self._storage.root}/new.csv'"),
            ("MULTIPART", "Arrow"): lambda: self.written(BIG),
            ("MULTIPART", "DuckDB"): lambda: self.duckdb(
                f"COPY (SELECT repeat('x', {2**20}) FROM range({BIG // 2**20})) TO '{self._storage.root}/new.csv'"
            ),
            ("DELETE", "boto3"): lambda: store.delete_unchanged(landed),
        }


def of_obstore(store: Store) -> dict[tuple[Verb, str], Callable[[], object]]:
    """The verbs of its client."""
    return {
        ("LIST", "obstore"): store.list,
        ("HEAD", "obstore"): lambda: store.find("a"),
        ("GET", "obstore"): lambda: store.get("a", etag(BODY).strip('"')),
        ("PUT", "obstore"): lambda: store.put_own("new", b"x", multipart_above=BIG),
        ("MULTIPART", "obstore"): lambda: store.put_own("new", b"x" * BIG, multipart_above=5 * 2**20),
        ("DELETE", "obstore"): lambda: store.delete(("a",)),
    }

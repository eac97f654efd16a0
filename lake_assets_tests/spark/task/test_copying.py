"""A task that copies: objects that change under it, and what it leaves when one fails."""

import base64
import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.parquet import encryption

from lake_assets.base.errors import SourceChangedError, StorageUnreachableError
from lake_assets.config.layout.partition import Partition, PartitionColumn
from lake_assets.config.storages import AnyStorage, LocalStorage, S3Storage
from lake_assets.spark.task.copying import copy_or_encode
from lake_assets.spark.task.job import CopyRules, Job, PartitionJob
from lake_assets.spark.task.work import Bin
from lake_assets.storage.formats.any_format import LandingZone
from lake_assets.storage.formats.landed_rows import Share
from lake_assets.storage.store import Store

PARTITION = Partition.parse((PartitionColumn("region", "string"),), "region=NW")
SCHEMA = pa.schema([("id", pa.int64()), ("text", pa.string())])
RULES = CopyRules(None, 0, 2**40, reads_pages=False, may_link=False)
FOLDER = "main/t/region=NW/"


@pytest.fixture(params=["local", pytest.param("s3", marks=[pytest.mark.servers, pytest.mark.more])])
def places(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[AnyStorage, AnyStorage]:
    """A landing zone and a lake."""
    if request.param == "s3":
        location = request.getfixturevalue("s3_location")
        return S3Storage.model_validate(location()), S3Storage.model_validate(location())
    for name in ("landing", "lake"):
        (tmp_path / name).mkdir()
    return LocalStorage(path=str(tmp_path / "landing")), LocalStorage(path=str(tmp_path / "lake"))


def land(storage: AnyStorage, name: str, rows: int) -> None:
    sink = io.BytesIO()
    pq.write_table(pa.table({"id": range(rows), "text": [str(n) for n in range(rows)]}, schema=SCHEMA), sink)
    with Store(storage).create(name) as file:
        file.write(sink.getvalue())


def work(landing: AnyStorage, lake: AnyStorage) -> tuple[Job, Bin]:
    objects = Store(landing).list()
    job = Job(
        "run", LandingZone(landing), lake, SCHEMA, "zstd", 2**20, (PartitionJob(PARTITION, (), FOLDER),), copies=RULES
    )
    return job, Bin(0, PARTITION, FOLDER, tuple(Share(o) for o in objects), copies=True)


@pytest.mark.parametrize("moment", ["before the footer", "before the copy"])
def test_an_object_that_changes(
    places: tuple[AnyStorage, AnyStorage], monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    landing, lake = places
    land(landing, "a.parquet", 10)
    job, item = work(landing, lake)
    if moment == "before the footer":
        land(landing, "a.parquet", 20)
    else:
        copy = Store.copy

        def change_and_copy(*args: Any, **options: Any) -> None:
            land(landing, "a.parquet", 20)
            copy(*args, **options)

        monkeypatch.setattr(Store, "copy", change_and_copy)

    (report,) = copy_or_encode(job, [item])

    assert isinstance(report.error, SourceChangedError)
    assert Store(lake).list() == ()


def test_one_that_fails_leaves_no_copies_of_the_others(
    places: tuple[AnyStorage, AnyStorage], monkeypatch: pytest.MonkeyPatch
) -> None:
    landing, lake = places
    for number in range(3):
        land(landing, f"{number}.parquet", 10 + number)
    copy = Store.copy

    def fail_at_the_first(store: Store, source: AnyStorage, original: Any, *args: Any, **options: Any) -> None:
        copy(store, source, original, *args, **options)
        if original.key == "0.parquet":
            raise StorageUnreachableError("the network is away:")

    monkeypatch.setattr(Store, "copy", fail_at_the_first)
    job, item = work(landing, lake)

    with pytest.raises(StorageUnreachableError):  # Spark tries the task again
        list(copy_or_encode(job, [item]))

    assert Store(lake).list() == ()


class _Kms(encryption.KmsClient):  # type: ignore[misc] # pyarrow has no types for it
    """Wraps no key: the test is about a file whose footer anybody reads."""

    def wrap_key(self, key_bytes: bytes, _: str) -> bytes:
        return base64.b64encode(key_bytes)

    def unwrap_key(self, wrapped_key: bytes, _: str) -> bytes:
        return base64.b64decode(wrapped_key)


@pytest.mark.parametrize("places", ["local"], indirect=True)
def test_encrypted_columns_behind_a_plain_footer(places: tuple[AnyStorage, AnyStorage]) -> None:
    """Arrow ends the process if it is asked for the statistics of such a column."""
    landing, lake = places
    keys = encryption.EncryptionConfiguration(
        footer_key="f", column_keys={"k": ["text"]}, plaintext_footer=True, double_wrapping=False
    )
    factory = encryption.CryptoFactory(lambda _: _Kms())
    properties = factory.file_encryption_properties(encryption.KmsConnectionConfig(), keys)
    sink = io.BytesIO()
    with pq.ParquetWriter(sink, SCHEMA, encryption_properties=properties) as writer:
        writer.write_table(pa.table({"id": [1], "text": ["x"]}, schema=SCHEMA))
    with Store(landing).create("a.parquet") as file:
        file.write(sink.getvalue())
    job, item = work(landing, lake)

    (report,) = copy_or_encode(job, [item])

    assert report.refusal is not None
    assert "encrypted" in report.refusal.reason

"""Objects of a bucket that may be listed and not read: each is named, with the right that is missing, in every job."""

from collections.abc import Callable

import pytest

from dev.servers.s3 import S3Server
from lake_assets.api.stream import open_stream
from lake_assets.config.storages import AnyStorage, S3Storage
from lake_assets.errors import CatalogError, LakeAssetsError, ObjectRefusedError, StorageError, StorageUnreachableError
from lake_assets.ingest.api import ingest_all
from lake_assets.ingest.options import IngestOptions
from lake_assets.landing.writer import LandingWriter
from lake_assets.parquet.read import count_rows, read_schema
from lake_assets.storage.arrow import ArrowStore
from lake_assets.storage.probes import probe_reading
from lake_assets.storage.store import Store
from lake_assets_tests.ingest.index.indexing import index
from lake_assets_tests.landing.streams import rows, stream_of
from lake_assets_tests.world import NW, SW, World, sales
from lake_assets_tests.world_fixtures import bucket_on

KEY = "region=NW/date=2026-02-11/batch_1.parquet"
NAME = KEY.rpartition("/")[2]
WRITE = "new.parquet was not written: grant s3:PutObject"


def by_user(s3: S3Server, location: dict[str, object], user: str) -> dict[str, object]:
    """The same bucket, opened by the keys of another user."""
    key_id, secret = s3.narrow[user]
    return location | {"key_id": key_id, "secret": secret}


@pytest.fixture
def denied(local_world: World, s3: S3Server) -> World:
    """Two partitions, of which the reader may list both and read one."""
    location = bucket_on(s3)
    local_world.source = location
    local_world.land(NW, sales(1))
    local_world.land(SW, sales(2))
    s3.deny_reading(str(location["bucket"]), f"some/prefix/{KEY}")
    local_world.source = by_user(s3, location, "reader")
    return local_world


def is_told(error: BaseException | None, world: World) -> bool:
    """Whether it names the object and the right, and does not blame the whole bucket, the object or the network."""
    text = str(error)
    assert isinstance(error, ObjectRefusedError)
    assert f"refuses access: s3://{world.source['bucket']}/some/prefix/{KEY} was not read: grant s3:GetObject" in text
    assert "land it again" not in text
    return True


@pytest.fixture
def storage(denied: World) -> AnyStorage:
    return denied.config.streams["sales"].source


@pytest.mark.parametrize(
    "read",
    [
        lambda storage: Store(storage).get(KEY, "etag"),
        lambda storage: Store(storage).find(KEY),
        lambda storage: probe_reading(Store(storage)),
        lambda storage: read_schema(ArrowStore(storage), KEY),
        lambda storage: count_rows(ArrowStore(storage), KEY),
    ],
    ids=["get", "find", "probe", "schema", "rows"],
)
def test_the_object_and_the_right_are_named(storage: AnyStorage, read: Callable[..., object]) -> None:
    with pytest.raises(StorageError) as raised:
        read(storage)

    assert f"some/prefix/{KEY} was not read: " in str(raised.value)
    assert "s3:GetObject" in str(raised.value)
    assert not isinstance(raised.value, StorageUnreachableError)


@pytest.mark.parametrize(
    ("do", "right"),
    [
        (lambda store: store.put_new("new.parquet", b"x", multipart_above=10), WRITE),
        (lambda store: store.put_new("new.parquet", b"x" * 20, multipart_above=10), WRITE),
        (lambda store: store.delete((KEY,)), f"{KEY} was not deleted: grant s3:DeleteObject"),
        (lambda store: store.delete((KEY, KEY.replace("NW", "SW"))), f"{KEY} was not deleted: grant s3:DeleteObject"),
        (lambda store: store.delete_unchanged(KEY, "", 0), f"{KEY} was not read: grant s3:GetObject"),
    ],
    ids=["write", "write in parts", "delete", "delete several", "look and delete"],
)
def test_what_a_reader_may_not_do_is_named(storage: AnyStorage, do: Callable[..., object], right: str) -> None:
    with pytest.raises(ObjectRefusedError) as raised:
        do(Store(storage))

    assert right in str(raised.value)


def test_a_wrong_key_is_no_missing_right(s3: S3Server) -> None:
    with pytest.raises(StorageError, match="refuses access: check key_id and secret") as raised:
        Store(S3Storage.model_validate(bucket_on(s3) | {"secret": "wrong"})).get(KEY, "etag")
    assert "s3:GetObject" not in str(raised.value)


@pytest.mark.parametrize(
    ("options", "first"),
    [({}, True), ({}, False), ({"transform": {"sql": "SELECT * FROM source"}}, False)],
    ids=["no table", "table", "transform"],
)
def test_an_ingest_names_the_object_and_goes_on(denied: World, options: dict[str, object], *, first: bool) -> None:
    denied.options = options
    if not first:
        denied.ingest(SW)
    partitions = [denied.partition(text) for text in (NW, SW)]

    outcomes = {
        outcome.partition: outcome
        for outcome in ingest_all(denied.stream, partitions, denied.sessions, IngestOptions(force=True))
    }

    assert is_told(outcomes[partitions[0]].error, denied)
    assert outcomes[partitions[1]].error is None
    assert denied.totals() == [2]
    (row,) = denied.ledger(NW)
    assert "s3:GetObject" in (row.error or "")


def test_a_right_that_is_missing_for_all_is_one_error(denied: World, s3: S3Server) -> None:
    denied.source = by_user(s3, denied.source, "lister")
    partitions = [denied.partition(text) for text in (NW, SW)]

    errors = [outcome.error for outcome in ingest_all(denied.stream, partitions, denied.sessions)]

    assert errors[0] is errors[1]
    assert is_told(errors[0], denied)


@pytest.mark.parametrize("first", [True, False], ids=["no table", "table"])
def test_an_index_names_the_object_and_goes_on(denied: World, *, first: bool) -> None:
    denied.options = {"mode": "index"}
    if not first:
        index(denied, SW)

    outcomes = index(denied, NW, SW)

    assert is_told(outcomes[denied.partition(NW).path].error, denied)
    assert outcomes[denied.partition(SW).path].error is None
    assert denied.totals() == [2]


def test_a_query_of_an_object_that_may_not_be_read_names_the_object(local_world: World, s3: S3Server) -> None:
    local_world.source = bucket_on(s3)
    local_world.options = {"mode": "index"}
    local_world.land(NW, sales(1))
    index(local_world)
    s3.deny_reading(local_world.source["bucket"], f"some/prefix/{KEY}")

    message = rf"a storage of the lake refuses access: .*{NAME}.*: grant its key the right"
    another = open_stream(local_world.config, "sales").lake  # the first one's engine remembers the file

    with another.open(read_only=True) as lake, pytest.raises(CatalogError, match=message):
        lake.rows("SELECT sum(total) FROM lake.sales")


def test_a_landing_names_the_object_that_it_may_not_write(s3: S3Server) -> None:
    location = by_user(s3, bucket_on(s3), "reader")

    with (
        pytest.raises(LakeAssetsError, match=r"/.*\.parquet was not written: grant s3:PutObject"),
        LandingWriter("sales", stream_of(location)) as writer,
    ):
        writer.write(rows(0, 1))

"""Objects of a bucket that may be listed and not read: each is named, with the right that is missing, in every job."""

import datetime as dt
import re
from collections.abc import Callable

import pytest

from dev.servers.s3 import S3Server
from lake_assets.api import open_stream
from lake_assets.base.duckdb_engine import HttpLimits
from lake_assets.base.errors import LakeAssetsError, ObjectRefusedError, StorageError, StorageUnreachableError
from lake_assets.config.storages import AnyStorage, S3Storage
from lake_assets.ingest.ingest_all import ingest_all
from lake_assets.ingest.outcome import IngestOptions
from lake_assets.storage.formats.parquet_files import read_footer, read_schema
from lake_assets.storage.manifest import LandedObject
from lake_assets.storage.store import Store
from lake_assets.upkeep.doctor import probe_reading
from lake_assets.wings.land.writer import LandingWriter
from lake_assets_tests.faults.without_spark import sessions
from lake_assets_tests.ingest.index.indexing import index
from lake_assets_tests.wings.land.streams import rows, stream_of
from lake_assets_tests.world import NW, SW, World, sales
from lake_assets_tests.world_fixtures import bucket_on

__all__ = ["sessions"]

KEY = "region=NW/date=2026-02-11/batch_1.parquet"
LANDED = LandedObject("", KEY, "", 0, dt.datetime.now(dt.UTC))
NAME = KEY.rpartition("/")[2]
SAID = r" \(AccessDenied: Access Denied\)"  # by the server
READ = f"some/prefix/{KEY} was not read{SAID}: grant s3:GetObject"
WRITE = f"new.parquet was not written{SAID}: grant s3:PutObject"
DELETE = f"{KEY} was not deleted( [(].*[)])?: grant s3:DeleteObject"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """DuckDB asks for a refused object again for 4 seconds, which these tests are not about."""
    monkeypatch.setattr("lake_assets.lake.ducklake.http_limits", lambda _: HttpLimits(0))


def put(storage: AnyStorage, size: int) -> None:
    Store(storage).put_new("new.parquet", b"x" * size, multipart_above=10)


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
    assert re.search(f"refuses access: s3://{world.source['bucket']}/{READ}", text)
    assert "land it again" not in text
    return True


@pytest.mark.parametrize(
    ("do", "right"),
    [
        pytest.param(lambda storage: Store(storage).get(KEY, "etag"), READ, id="get"),
        pytest.param(lambda storage: Store(storage).find(KEY), READ, id="find"),
        pytest.param(lambda storage: probe_reading(Store(storage)), READ, id="probe"),
        pytest.param(lambda storage: read_schema(Store(storage), KEY), READ, id="schema"),
        pytest.param(lambda storage: read_footer(Store(storage), KEY), READ, id="rows"),
        pytest.param(lambda storage: Store(storage).delete_unchanged(LANDED), READ, id="look and delete"),
        pytest.param(lambda storage: put(storage, 1), WRITE, id="write"),
        pytest.param(lambda storage: put(storage, 20), WRITE, id="write in parts"),
        pytest.param(lambda storage: Store(storage).delete((KEY,)), DELETE, id="delete"),
        pytest.param(
            lambda storage: Store(storage).delete((KEY, KEY.replace("NW", "SW"))), DELETE, id="delete several"
        ),
    ],
)
def test_the_object_and_the_right_are_named(denied: World, do: Callable[[AnyStorage], object], right: str) -> None:
    with pytest.raises(StorageError) as raised:
        do(denied.config.streams["sales"].source)

    assert re.search(right, str(raised.value))
    assert not isinstance(raised.value, StorageUnreachableError)


def test_a_wrong_key_is_no_missing_right(s3: S3Server) -> None:
    with pytest.raises(StorageError, match=r"was not read \(Signature.*\): correct key_id and secret") as raised:
        Store(S3Storage.model_validate(bucket_on(s3) | {"secret": "wrong"})).get(KEY, "etag")
    assert "s3:GetObject" not in str(raised.value)


@pytest.mark.parametrize(
    ("options", "first"),
    [
        pytest.param({}, True, id="no table"),
        pytest.param({}, False, id="table", marks=pytest.mark.more),
        pytest.param({"transform": {"sql": "SELECT * FROM source"}}, False, id="transform", marks=pytest.mark.more),
    ],
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


@pytest.mark.parametrize("first", [False, pytest.param(True, marks=pytest.mark.more)])
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

    another = open_stream(local_world.config, "sales").lake  # the first one's engine remembers the file

    with another.open(read_only=True) as lake, pytest.raises(ObjectRefusedError, match=READ):
        lake.rows("SELECT sum(total) FROM lake.sales")


def test_a_landing_names_the_object_that_it_may_not_write(s3: S3Server) -> None:
    location = by_user(s3, bucket_on(s3), "reader")

    with (
        pytest.raises(LakeAssetsError, match=rf"/.*\.parquet was not written{SAID}: grant s3:PutObject"),
        LandingWriter("sales", stream_of(location)) as writer,
    ):
        writer.write(rows(0, 1))

"""A listing survives any key, and names each object once."""

import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner

from dev.servers.odd_s3 import OddS3, odd_s3
from lake_assets.base.errors import SourceChangedError, SourceError, StorageError
from lake_assets.cli.app import main
from lake_assets.config.storages import AnyStorage, S3Storage
from lake_assets.storage.store import Store
from lake_assets.streams.stream import list_landed
from lake_assets_tests.faults.without_spark import sessions
from lake_assets_tests.storage.test_store import fill
from lake_assets_tests.tiers import more
from lake_assets_tests.world import NW, SW, World, sales

__all__ = ["sessions"]

GOOD = ["region=NW/date=2026-02-11/a.parquet", "region=SW/date=2026-02-11/a.parquet"]
ODD = [
    "/region=NW/date=2026-02-11/a.parquet",
    "region=NW//date=2026-02-11/a.parquet",
    "region=NW/./date=2026-02-11/a.parquet",
    "region=NW/date=2026-02-11/../a.parquet",
    "region=NW/date=2026-02-11/a\nb.parquet",
]


@pytest.fixture
def odd(local_world: World) -> Iterator[OddS3]:
    """The bucket of the world's landing zone."""
    with odd_s3() as server:
        local_world.source = server.source
        yield server


def keys(server: OddS3) -> list[str]:
    store = Store(S3Storage.model_validate(server.source))
    listed = [landed.key for landed in store.all(hides=lambda _: False)]
    assert [landed.key for page in store.pages() for landed in page] == listed
    return listed


@pytest.mark.parametrize("page", [1000, *more([1, 2, 3, 4])])
def test_a_listing_has_all_keys_with_the_odd_ones(odd: OddS3, page: int) -> None:
    odd.page = page
    odd.objects = dict.fromkeys([*GOOD, *ODD], b"x")

    assert keys(odd) == sorted([*GOOD, *ODD])
    store = Store(S3Storage.model_validate(odd.source))
    assert store.folders() == ("region=NW", "region=SW")
    assert store.folders("region=NW/") == ("region=NW/date=2026-02-11",)


@pytest.mark.parametrize("page", [2, *more([3])])
def test_a_key_that_is_listed_twice_is_one_object(odd: OddS3, page: int) -> None:
    odd.page, odd.doubles = page, True
    names = [f"region=NW/date=2026-02-11/{number}.parquet" for number in range(7)]
    odd.objects = dict.fromkeys(names, b"x")

    assert keys(odd) == names


def changed(server: OddS3, pattern: bytes, text: bytes) -> None:
    """Let listings have a text in the place of another."""
    listing = server.listing
    server.listing = lambda query: re.sub(pattern, text, listing(query))  # type: ignore[method-assign]


def test_what_follows_a_page_without_a_token_is_listed(odd: OddS3) -> None:
    odd.objects = {f"date={number:04}/a.parquet": b"x" for number in range(2001)}
    changed(odd, b"<Next.*Token>", b"")

    assert keys(odd) == [*odd.objects]
    assert len(Store(S3Storage.model_validate(odd.source)).folders()) == len(odd.objects)


def test_a_listing_that_goes_in_a_circle_is_an_error(odd: OddS3) -> None:
    odd.objects = {f"date={number:04}/a.parquet": b"x" for number in range(1001)}
    changed(odd, b"<Next.*Token>", b"<NextContinuationToken>a</NextContinuationToken>")

    store = Store(S3Storage.model_validate(odd.source))
    for listed in (lambda: store.all(hides=lambda _: False), store.folders):
        with pytest.raises(StorageError, match=r"lists date=\d+.* again and again"):
            listed()


def test_a_page_of_a_console_is_no_listing_without_objects(odd: OddS3) -> None:
    odd.answers = lambda *_: (200, b"<html><title>Console</title></html>")

    store = Store(S3Storage.model_validate(odd.source))
    for listed in (store.list, lambda: list(store.pages()), store.folders):
        with pytest.raises(StorageError, match="does not list objects as S3 does"):
            listed()


@pytest.mark.parametrize(("pattern", "text"), [(b"<ETag>.*?</ETag>", b""), *more([(b'<ETag>"', b'<ETag>W/"')])])
def test_an_object_is_read_without_a_strong_etag_in_its_listing(
    odd: OddS3, local_world: World, pattern: bytes, text: bytes
) -> None:
    local_world.source = {"type": "local", "path": str(Path(local_world.storage["path"]).parent / "landing")}
    body = Path(local_world.land(NW, sales(1))).read_bytes()
    local_world.source, odd.objects = odd.source, {GOOD[0]: body}
    changed(odd, pattern, text)

    local_world.ingest(NW)

    assert local_world.totals() == [1]
    assert local_world.ingest(NW).row.status == "skipped"
    (landed,) = local_world.stream.source.list("region=NW/")
    assert local_world.stream.source.get(landed.key, landed.etag) == body
    with pytest.raises(SourceChangedError):
        local_world.stream.source.get(landed.key, "time-20250101T000000")


def test_objects_with_odd_names_are_left_out_and_the_others_are_read(
    odd: OddS3, local_world: World, tmp_path: Path
) -> None:
    body = pa.BufferOutputStream()
    pa.parquet.write_table(sales(1), body)
    odd.objects = dict.fromkeys([*GOOD, *ODD], body.getvalue().to_pybytes())

    landed, left_out = list_landed(local_world.stream)
    assert len(landed) == len(GOOD)
    assert [item.key for item in left_out.objects if item.kind == "odd"] == sorted(ODD)
    config = str(local_world.config_file(tmp_path))
    ingested = CliRunner().invoke(main, ["--config", config, "ingest", "sales", "--waiting"]).output
    assert "5 objects left out: 5 with odd names" in ingested
    assert local_world.totals() == [1, 1]
    assert local_world.ingest(NW).row.status == "skipped"


@pytest.mark.parametrize("storage", [pytest.param("s3", marks=pytest.mark.servers)], indirect=True)
def test_markers_of_folders_are_no_objects(storage: AnyStorage) -> None:
    store = fill(storage, "a/b.parquet", "a-b.parquet")
    client, root = Store(storage), store.root
    for marker in ("", "a/", "a/c/", "a/v1.parquet/"):
        put_marker(storage, marker)
    fill(storage, "a/c/d.parquet", "a/e.parquet")

    listed = [landed for landed in client.all(hides=lambda _: False) if not client.is_marker(landed)]

    assert [landed.key for landed in listed] == ["a-b.parquet", "a/b.parquet", "a/c/d.parquet", "a/e.parquet"]
    assert root == store.root


def put_marker(storage: AnyStorage, key: str) -> None:
    """Put an object without bytes as consoles do for a folder: its key ends in a slash."""
    assert isinstance(storage, S3Storage)
    from lake_assets.storage.s3 import S3Bucket  # noqa: PLC0415 - boto3 takes its time

    S3Bucket(storage).as_boto().put_object(Bucket=storage.bucket, Key=f"{storage.prefix}/{key}", Body=b"")


def test_a_link_to_no_file_is_a_bad_object_that_is_named(local_world: World) -> None:
    local_world.land(NW, sales(1))
    folder = Path(local_world.source["path"], "region=NW", "date=2026-02-11")
    (folder / "gone.parquet").symlink_to(folder / "other-disk.parquet")

    with pytest.raises(SourceError, match=r"gone.parquet is a link to .*other-disk.parquet, which does not exist: "):
        local_world.ingest(NW)
    local_world.options = {"on_bad_object": "quarantine"}
    local_world.ingest(NW)
    assert local_world.totals() == [1]


def test_a_folder_with_a_zero_byte_in_its_value_is_left_out(local_world: World) -> None:
    local_world.land(SW, sales(1))
    folder = Path(local_world.source["path"], "region=a%00b", "date=2026-02-11")
    folder.mkdir(parents=True)
    (folder / "a.parquet").write_bytes(b"x")

    landed, left_out = list_landed(local_world.stream)

    assert [*landed] == [local_world.partition(SW)]
    (item,) = left_out.objects
    assert "has a zero byte: rename the folder" in str(item.why)

"""A web server as a landing zone: asked by names, whether it has ranges and ETags or not."""

import io
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dev.servers.process import free_ports
from dev.servers.web import WebServer, plain_web_server
from lake_assets.base.errors import SourceChangedError, StorageError, StorageUnreachableError
from lake_assets.config.storages import WebStorage
from lake_assets.storage.formats.parquet_files import read_schema
from lake_assets.storage.store import Store

KEYS = ["year=2026/a.parquet", "region=N%2FA x/a.parquet", "region=ünïcode/a.parquet"]


def parquet(rows: int) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table({"n": range(rows), "text": ["x" * 20] * rows}), sink, row_group_size=1000)
    return sink.getvalue()


def zone(web: WebServer) -> WebStorage:
    return WebStorage(url=web.url)


def test_an_object_is_found_by_its_name_alone(web: WebServer) -> None:
    store = Store(zone(web))
    assert not store.is_listable
    for key in KEYS:
        folder, _, name = key.rpartition("/")
        web.put(key, b"12345")

        (obj,) = store.list(f"{folder}/", name)

        assert (obj.key, obj.uri, obj.size) == (key, f"{web.url}/{key}", 5)
        assert obj.etag
        assert '"' not in obj.etag
        assert store.get(key, obj.etag) == b"12345"
        assert store.list(f"{folder}/", "b.parquet") == ()


def test_a_changed_object_is_an_error(web: WebServer, tmp_path: Path) -> None:
    web.put("a.parquet", b"12345")
    store = Store(zone(web))
    (before,) = store.list("", "a.parquet")
    web.put("a.parquet", b"54321")
    if (file := tmp_path / "web/a.parquet").exists():  # a time in a header has whole seconds
        os.utime(file, (1, 1))

    (after,) = store.list("", "a.parquet")

    assert after.etag != before.etag
    assert store.get("a.parquet", after.etag) == b"54321"
    with pytest.raises(SourceChangedError, match=r"a\.parquet changed while"):
        store.get("a.parquet", before.etag)
    with pytest.raises(SourceChangedError, match=r"b\.parquet changed while"):
        store.get("b.parquet", before.etag)


def test_an_object_is_read_at_any_place(web: WebServer) -> None:
    body = parquet(5000)
    web.put("a.parquet", body)
    with Store(zone(web)).open("a.parquet") as file:
        assert pq.read_metadata(file).num_rows == 5000
    methods = [method for method, _ in web.requests]
    assert methods in (["HEAD", "GET", "GET"], [])  # of the plain one: the whole comes where a byte was asked for

    with Store(zone(web)).open("a.parquet") as file:
        table = pq.ParquetFile(file, pre_buffer=True).read(["n"])
        file.seek(len(body) - 4)
        end = file.read(100)

    assert table.column("n").to_pylist() == list(range(5000))
    assert end == b"PAR1"
    with pytest.raises(SourceChangedError, match=r"b\.parquet changed while"):
        Store(zone(web)).open("b.parquet")


@pytest.mark.usefixtures("impatient")
def test_a_server_that_is_away_or_refuses_is_named(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    away = WebStorage(url=f"http://127.0.0.1:{port}/x")
    with pytest.raises(StorageUnreachableError, match=f"http://127.0.0.1:{port}/x cannot be reached"):
        Store(away).list("", "a.parquet")
    with pytest.raises(StorageUnreachableError, match=r"a\.parquet was not read"):
        Store(away).open("a.parquet")
    with (
        plain_web_server(tmp_path, status=403) as web,
        pytest.raises(StorageError, match=r"a\.parquet was not read: read"),
    ):
        read_schema(Store(zone(web)), "a.parquet")
    with plain_web_server(tmp_path, status=403) as web, pytest.raises(StorageError, match="read public files over"):
        Store(zone(web)).list("", "a.parquet")
    with (
        plain_web_server(tmp_path, status=451) as web,
        pytest.raises(StorageError, match=r"451 .*correct the") as raised,
    ):
        read_schema(Store(zone(web)), "a.parquet")
    assert not isinstance(raised.value, StorageUnreachableError)


def test_a_server_that_tells_of_no_change_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"12345")
    with (
        plain_web_server(tmp_path, hidden=("Last-Modified",)) as web,
        pytest.raises(StorageError, match="neither ETag"),
    ):
        Store(zone(web)).list("", "a.parquet")


def test_a_weak_etag_is_one_too(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"12345")
    with plain_web_server(tmp_path, headers={"ETag": 'W/"one"'}) as web:
        store = Store(zone(web))
        (obj,) = store.list("", "a.parquet")

        assert obj.etag == "one"
        assert store.get("a.parquet", obj.etag) == b"12345"

"""`lake-assets doctor`: its findings on a machine and on storages with problems."""

import importlib.util
import shutil
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from dev.servers.proxy import Rule, S3Proxy
from dev.servers.s3 import S3Server
from dev.servers.web import plain_web_server
from lake_assets.base.errors import StorageError
from lake_assets.cli import main
from lake_assets.config.storages import S3Storage
from lake_assets.storage.store import Store
from lake_assets.upkeep import doctor
from lake_assets.upkeep.doctor import Finding, examine
from lake_assets_tests.world_fixtures import bucket_on

SQLITE = {"type": "sqlite", "path": "catalog.sqlite"}


def findings(
    folder: Path, catalog: dict[str, Any] = SQLITE, storage: Any = "data", **stream: Any
) -> dict[str, Finding]:
    """What the doctor finds, by subject."""
    sales = {"source": "landing", "partitions": {"region": {}}, "destination": {"table": "sales"}} | stream
    config = {"lakes": {"test": {"catalog": catalog, "storage": storage}}, "streams": {"sales": sales}}
    file = folder / "lake.yaml"
    file.write_text(yaml.safe_dump(config), encoding="utf-8")
    return {finding.subject: finding for finding in examine(file)}


def test_a_new_config_needs_nothing_but_the_landing_zone(tmp_path: Path) -> None:
    result = findings(tmp_path)

    assert result["catalog of test"].text.endswith("does not exist yet; the first ingest creates it")
    assert {finding.subject for finding in result.values() if finding.status == "failed"} == {"source of sales"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lake.yaml"]

    (tmp_path / "landing").mkdir()
    assert findings(tmp_path)["source of sales"].status == "warning"


def test_folders_are_written_to_and_nothing_is_left_there(tmp_path: Path) -> None:
    for folder in ("data", "exports", "landing/region=NW"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "landing" / "region=NW" / "a.parquet").write_bytes(b"x")

    result = findings(tmp_path, deltas={"to": "exports"})

    assert result["storage of test"].text == f"{tmp_path}/data: can be listed, written to and deleted from"
    assert result["source of sales"].text.endswith("can be listed and read")
    assert result["deltas of sales"].text.endswith("exports: can be listed, written to and deleted from")
    assert [*(tmp_path / "data").iterdir(), *(tmp_path / "exports").iterdir()] == []


@pytest.mark.more
def test_the_newest_file_of_a_web_server_is_checked(tmp_path: Path) -> None:
    served, region = tmp_path / "served", {"region": {"values": ["NW", "SW"]}}
    (served / "region=SW").mkdir(parents=True)
    with plain_web_server(served) as web:

        def found(source: str, **stream: Any) -> tuple[str, str]:
            finding = findings(tmp_path, source=source, partitions=region, **stream)["source of sales"]
            return finding.status, finding.text

        assert found(f"{web.url}/region=*/all.parquet") == (
            "warning",
            f"{web.url}/region=SW/all.parquet does not exist.",
        )
        for name in ("region=SW/all.parquet", "sales_SW.parquet"):
            (served / name).write_bytes(b"x")
        assert found(f"{web.url}/region=*/all.parquet") == ("ok", f"{web.url}/region={{region}}")
        named = found(web.url, files="sales_{region}.parquet")
        assert named == ("ok", f"{web.url}/sales_{{region}}.parquet")


@pytest.mark.parametrize(
    ("catalog", "subject", "text", "hint"),
    [
        (
            {"type": "postgres", "host": "127.0.0.1", "port": 1, "user": "x", "database": "x"},
            "catalog of test",
            "postgres://127.0.0.1:1/x is unreachable",
            "correct host",
        ),
        ({"type": "sqlite", "path": "damaged"}, "catalog of test", "damaged", ""),
        ({"type": "oracle"}, "config", "lakes.test.catalog", ""),
    ],
    ids=["no server", "no catalog", "no config"],
)
def test_what_is_wrong_fails_on_one_line(
    tmp_path: Path, catalog: dict[str, Any], subject: str, text: str, hint: str
) -> None:
    (tmp_path / "damaged").write_bytes(b"not a database, but long enough to be taken for one" * 100)

    finding = findings(tmp_path, catalog)[subject]

    assert finding.status == "failed"
    assert text in finding.text
    assert "\n" not in finding.text
    assert hint in finding.hint


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Storages of vendors, which tests cannot reach."""
    monkeypatch.setattr("lake_assets.upkeep.doctor.Store.probe", lambda _: True)
    monkeypatch.setattr("lake_assets.upkeep.doctor.probe_reading", lambda _: True)
    monkeypatch.setattr("lake_assets.upkeep.doctor.probe_writing", lambda _: None)


@pytest.mark.usefixtures("elsewhere")
def test_the_extension_that_a_storage_needs_is_checked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    storage = {"type": "azure", "account": "retail", "container": "lake", "account_key": "a2V5"}
    assert findings(tmp_path, storage=storage)["DuckDB azure"].status == "ok"
    find_spec = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name.endswith("_azure") else find_spec(name))

    finding = findings(tmp_path, storage=storage)["DuckDB azure"]

    assert finding.status == "failed"
    assert "pip install 'duckdb-extension-azure==" in finding.hint


@pytest.mark.usefixtures("elsewhere")
def test_a_lake_on_motherduck_needs_a_token(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("MOTHERDUCK_TOKEN", raising=False)
    monkeypatch.setattr("lake_assets.upkeep.doctor.extensions", lambda _: ())
    storage = {"type": "r2", "account_id": "abc", "bucket": "lake", "key_id": "x", "secret": "x"}

    finding = findings(tmp_path, {"type": "motherduck", "database": "retail"}, storage)["catalog of test"]

    assert (finding.status, finding.hint) == ("failed", "set it to a token.")
    assert "MOTHERDUCK_TOKEN" in finding.text


@pytest.mark.more
def test_what_the_users_of_buckets_may_not_do_fails_and_nothing_is_left_there(s3: S3Server, tmp_path: Path) -> None:
    def on_s3(storage: str | None = None, source: str | None = None) -> dict[str, Finding]:
        """The findings of two buckets, each opened by the keys of this user."""
        places = []
        for user in (storage, source):
            places.append(location := bucket_on(s3))
            s3.put(location["bucket"], "some/prefix/region=NW/a.parquet", b"x")
            if user:
                location["key_id"], location["secret"] = s3.narrow[user]
        result = findings(tmp_path, storage=places[0], source=places[1])
        left = s3.client().list_objects_v2(Bucket=places[0]["bucket"])["Contents"]
        assert [entry["Key"] for entry in left] == ["some/prefix/region=NW/a.parquet"]
        return result

    everything, reading, listing = on_s3(), on_s3("reader", "reader"), on_s3(source="lister")

    assert everything["storage of test"].text.endswith(": can be listed, written to and deleted from")
    assert everything["source of sales"].text.endswith(": can be listed and read")
    refused, unread = reading["storage of test"], listing["source of sales"]
    assert (refused.status, unread.status) == ("failed", "failed")
    assert "some/prefix cannot be written to: " in refused.text
    assert "refuses access" in refused.text
    assert refused.hint.startswith(
        "grant s3:PutObject on it, or on the whole bucket; if it is granted already, correct key_id and"
    )
    assert "region=NW/a.parquet is listed and cannot be read: " in unread.text


def test_without_java_the_doctor_names_the_hint_and_exits_with_1(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    monkeypatch.setattr(doctor, "EXTENSIONS", ())

    result = CliRunner().invoke(main, ["doctor"])

    assert result.exit_code == 1
    assert "✗ Java" in result.output
    assert "or run `pip install '.[java]'` in the clone of lake-assets." in result.output
    assert "! config" in result.output
    assert "1 to fix." in result.stderr


def test_a_full_disk_fails_and_a_nearly_full_one_warns(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for free, status in ((10**8, "failed"), (10**9, "warning"), (10**11, "ok")):
        usage = shutil.disk_usage(tmp_path)._replace(free=free)
        monkeypatch.setattr(shutil, "disk_usage", lambda _, usage=usage: usage)
        assert findings(tmp_path)["disk for Spark"].status == status


@pytest.mark.more
def test_a_bucket_of_many_objects_is_probed_by_one_request(s3_proxy: S3Proxy) -> None:
    location = bucket_on(s3_proxy.s3)
    store = Store(S3Storage.model_validate(location))
    assert not store.probe()
    with ThreadPoolExecutor(8) as pool:
        put = lambda number: s3_proxy.s3.put(location["bucket"], f"some/prefix/{number}", b"")  # noqa: E731
        list(pool.map(put, range(1100)))  # a listing's page has 1,000
    s3_proxy.forget()

    assert store.probe()

    assert len([r for r in s3_proxy.requests() if r.bucket == location["bucket"]]) == 1
    with pytest.raises(StorageError, match="does not exist"):
        Store(S3Storage.model_validate(location | {"bucket": "never-made"})).probe()


@pytest.mark.more
def test_the_doctor_ends_though_a_bucket_and_a_catalog_do_not_answer(
    s3_proxy: S3Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the retries and time-outs of the config, each check would take minutes."""
    monkeypatch.setattr(doctor, "STORE_PATIENCE", 1.0)
    monkeypatch.setattr(doctor, "LIMIT", 3.0)
    location = bucket_on(s3_proxy.s3)
    s3_proxy.inject(Rule("hang", times=10**6))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        catalog = {"type": "postgres", "host": "127.0.0.1", "port": port, "user": "x", "database": "x"}
        start = time.monotonic()
        result = findings(tmp_path, catalog | {"connect_timeout": 300}, location, source=location)
        seconds = time.monotonic() - start

    places = ("catalog of test", "storage of test", "source of sales")
    assert [result[place].status for place in places] == ["failed"] * 3
    assert result["catalog of test"].text == "no answer within 3 seconds:"
    assert "cannot be reached" in result["storage of test"].text
    assert seconds < 120  # one time-out of the config is 300

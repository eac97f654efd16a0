"""`deploy/aws/put_back.py` on moto's versioned buckets."""

import datetime as dt
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dev.servers.moto import REGION, Moto, moto

__all__ = ["moto"]

SCRIPT = Path(__file__).parents[2] / "deploy/aws/put_back.py"
BUCKET = "lake"


@pytest.fixture
def s3(moto: Moto, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A client, and a bucket with versions."""
    for name, value in {"ACCESS_KEY_ID": "moto", "SECRET_ACCESS_KEY": "moto", "DEFAULT_REGION": REGION}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    client = moto.client("s3")
    client.create_bucket(Bucket=BUCKET)
    client.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": "Enabled"})
    for key in ("tables/kept", "tables/deleted", "tables/lost", "others/deleted"):
        client.put_object(Bucket=BUCKET, Key=key, Body=key.encode())
    return client


@pytest.fixture
def put_back(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """The command, for all that was deleted since a moment."""

    def run(since: str) -> None:
        monkeypatch.setattr(sys, "argv", ["put_back.py", BUCKET, "tables/", "--since", since])
        runpy.run_path(str(SCRIPT), run_name="__main__")

    return run


def live(s3: Any) -> dict[str, bytes]:
    found = s3.list_objects_v2(Bucket=BUCKET)["Contents"]
    return {obj["Key"]: s3.get_object(Bucket=BUCKET, Key=obj["Key"])["Body"].read() for obj in found}


def ago(**time: float) -> str:
    return (dt.datetime.now(dt.UTC) - dt.timedelta(**time)).isoformat()


def test_what_was_deleted_since_is_live_again_and_nothing_else_changes(
    s3: Any, put_back: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    for key in ("tables/deleted", "others/deleted"):
        s3.delete_object(Bucket=BUCKET, Key=key)

    for _ in range(2):
        put_back(ago(hours=1))

    assert live(s3) == {key: key.encode() for key in ("tables/kept", "tables/deleted", "tables/lost")}
    assert capsys.readouterr().out == "1 objects put back\n0 objects put back\n"


def test_what_was_deleted_before_stays_deleted(s3: Any, put_back: Callable[[str], None]) -> None:
    s3.delete_object(Bucket=BUCKET, Key="tables/deleted")

    put_back(ago(hours=-1))

    assert "tables/deleted" not in live(s3)


def test_what_has_no_version_any_more_is_named_and_the_rest_is_put_back(
    s3: Any, put_back: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    (version,) = s3.list_object_versions(Bucket=BUCKET, Prefix="tables/lost")["Versions"]
    for key in ("tables/deleted", "tables/lost"):
        s3.delete_object(Bucket=BUCKET, Key=key)
    s3.delete_object(Bucket=BUCKET, Key="tables/lost", VersionId=version["VersionId"])

    with pytest.raises(SystemExit) as ended:
        put_back(ago(hours=1))

    assert ended.value.code == 1
    assert capsys.readouterr().err == "1 have no version any more:\ntables/lost\n"
    assert "tables/deleted" in live(s3)


def test_a_moment_without_a_time_zone_is_refused(
    put_back: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        put_back("2026-11-20T03:00")

    assert "has no time zone" in capsys.readouterr().err

"""What a stream must say where its source is a web server."""

import pytest

from lake_assets.config.storages import WebStorage
from lake_assets_tests.config.test_load import GOOD, parsed, refused

WEB = GOOD.replace("source: s3://landing/sales", "source: https://host/in/\n    files: all.parquet")


def test_a_folder_of_a_web_server_is_a_source() -> None:
    assert parsed(WEB).streams["sales"].source == WebStorage(url="https://host/in")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("files: all.parquet", "files: '*.parquet'", "files is a pattern: give the name of a partition's one file"),
        ("files: all.parquet", "tags: {}", "files is a pattern"),
        ("https://host/in/", "https://host/in?sig=secret", "not of the form https://host/path, without a query"),
        ("https://host/in/", "https://me:secret@host/in", "a URL has no user or password"),
        ("https://host/in/", "https://host/../in", "a URL may not have"),
        ('region: {values: [NW, "NO"]}', "region: {}", "partitions.region needs its values"),
        ("files: all.parquet", "files: a.parquet\n    layout: '{region}/{date}/{batch}'", "are in no partition"),
        ("files: all.parquet", "files: a.parquet\n    layout: '{region}/{date}/{now(),,HH}'", "are in no partition"),
        ("files: all.parquet", "files: a.parquet\n    mode: index", "mode: index registers the files of a bucket"),
        ("files: all.parquet", "files: a.parquet\n    sensor: {type: objects}", "a sensor finds nothing there"),
        ("files: all.parquet", "files: a.parquet\n    landing: {}", "landing without outputs writes to the source"),
    ],
)
def test_what_a_server_cannot_do_is_refused(old: str, new: str, message: str) -> None:
    assert old in WEB
    error = refused(WEB.replace(old, new))

    assert message in error
    assert "secret" not in error


def test_a_lake_is_no_web_servers() -> None:
    error = refused(GOOD.replace("storage: data", "storage: https://host/lake"))

    assert "a web server can only be a stream's source" in error

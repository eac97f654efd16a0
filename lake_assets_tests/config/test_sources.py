"""A source that is a glob, and what a stream must say where its source is a web server."""

import pytest

from lake_assets.config.partition_fields import PartitionField
from lake_assets.config.storages import WebStorage
from lake_assets.config.streams import Stream
from lake_assets.errors import ConfigError
from lake_assets_tests.config.test_load import GOOD, parsed, refused

CONFIG = GOOD.replace("s3://landing/sales", "SOURCE")


def stream(source: str, more: str = "") -> Stream:
    return parsed(CONFIG.replace("SOURCE", f'"{source}"') + more).streams["sales"]


@pytest.mark.parametrize(
    ("glob", "root", "files"),
    [
        ("s3://landing/x/region=*/date=*/*.parquet", "s3://landing/x", "*.parquet"),
        ("s3://landing/x/*/date=*/part-?.parquet", "s3://landing/x", "part-?.parquet"),
        ("s3://landing/**/*.parquet", "s3://landing", "*.parquet"),
        ("/data/in/region=*/date=*/*", "/data/in", "*"),
        ("in/region=*/date=*/*.parquet", "/etc/lake/in", "*.parquet"),
    ],
)
def test_a_glob_is_a_folder_its_layout_and_its_files(glob: str, root: str, files: str) -> None:
    result = stream(glob)

    assert (result.source.root, result.files) == (root, files)
    assert result.template.text == "region={region}/date={date}"


def test_its_folders_are_those_of_the_layout() -> None:
    layout = "    layout: 'in/{region}/{date,,YYYY}/{date,,MM}-{date,,DD}'\n"

    result = stream("s3://landing/x/in/*/*/*-*/*.parquet", layout)

    assert (result.source.root, result.files) == ("s3://landing/x", "*.parquet")


@pytest.mark.parametrize(
    ("glob", "more", "message"),
    [
        ("s3://landing/x/r=*/*.parquet", "", r"write it as …/region=\*/date=\*/\*\.parquet, or write the folder as so"),
        ("s3://landing/x/date=*/region=*/*.parquet", "", "other folders than the layout"),
        ("/data/x/region=[NS]W/date=*/*.parquet", "", "other folders than the layout"),
        ("s3://landing/x/region=*/date=*/*.parquet", "    layout: '{region}/{date}'\n", "other folders"),
        ("s3://landing/x/region=*/date=*/*.parquet", "    files: a*\n", "files is 'a\\*': remove one of them"),
        ("s3://landing/x/region=*/date=*/*.parquet", "    layout: '{region'\n", "this bracket is not closed"),
    ],
)
def test_a_glob_that_cannot_be_split_is_refused(glob: str, more: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        stream(glob, more)


def test_only_a_text_of_a_stream_is_a_glob() -> None:
    text = CONFIG.replace("SOURCE", "landing").replace("storage: data", 'storage: "s3://lake/*"')
    assert "lake.yaml:5:5: lakes.retail.storage: 's3://lake/*' is a glob" in refused(text)

    text = CONFIG.replace("SOURCE", '{type: local, path: "/data/in [1]"}')
    assert parsed(text).streams["sales"].source.root == "/data/in [1]"


def test_a_glob_validates_layout_and_partitions_once_and_keeps_what_is_written() -> None:
    region = PartitionField(values=("NW",))
    data = {
        "source": "s3://landing/x/region=*/*.parquet",
        "partitions": {"region": region},
        "destination": {"table": "t"},
    }

    stream = Stream.model_validate(data)

    assert stream.partitions["region"] is region
    assert stream.model_fields_set == {"source", "files", "partitions", "destination"}


WEB = GOOD.replace("source: s3://landing/sales", "source: https://host/in/\n    files: all.parquet")


def test_a_folder_of_a_web_server_is_a_source() -> None:
    assert parsed(WEB).streams["sales"].source == WebStorage(url="https://host/in")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("files: all.parquet", "files: '*.parquet'", "files is a pattern: give the name of a partition's one file"),
        ("https://host/in/", "https://host/in?sig=secret", "not of the form https://host/path, without a query"),
        ("https://host/in/", "https://me:secret@host/in", "a URL has no user or password"),
        ('region: {values: [NW, "NO"]}', "region: {}", "partitions.region needs its values"),
        ("files: all.parquet", "files: a.parquet\n    layout: '{region}/{date}/{batch}'", "are in no partition"),
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

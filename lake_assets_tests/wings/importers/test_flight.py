import datetime as dt
from pathlib import Path

import pendulum
import pytest

from lake_assets.base.errors import ConfigError
from lake_assets.config.lake import MotherDuckCatalog, SqliteCatalog
from lake_assets.config.storages import LocalStorage, S3Storage
from lake_assets.streams.calendar import Calendar, recent_texts
from lake_assets.streams.load import load_config
from lake_assets.wings.importers.flight import flight_config

LEAST = {"SOURCE_GLOB": "s3://landing/stats/year=*/*.parquet", "DESTINATION_TABLE": "stats"}


@pytest.fixture(autouse=True)
def _words_of_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Errors speak of variables once such a config was loaded, and here until the end of the test."""
    monkeypatch.setattr("lake_assets.base.errors._in_terms", str)


def test_the_least_of_variables_makes_a_stream_of_this_year() -> None:
    config = flight_config(LEAST)

    stream = config.streams["stats"]
    lake = config.lakes["flight"]
    assert (stream.source.root, stream.files) == ("s3://landing/stats", "*.parquet")
    assert stream.template.text == "year={year}"
    assert [(c.name, c.type) for c in stream.partition_columns] == [("year", "year")]
    assert Calendar(stream).values(stream.partition_columns[0]) == [pendulum.now("UTC").year]
    assert (stream.destination.schema_name, stream.destination.table) == ("main", "stats")
    assert isinstance(lake.catalog, SqliteCatalog)
    assert (lake.catalog.path, lake.ledger) == ("flights_demo.sqlite", "ingest_runs")
    assert lake.storage == LocalStorage(path="flights_demo")


def test_every_variable_is_heard() -> None:
    config = flight_config(
        {
            "SOURCE_GLOB": "/data/sales/*/part-*.parquet",
            "PARTITION_COLUMN": "region",
            "LOAD_PARTITION": "NW",
            "DESTINATION_DATABASE": "shop",
            "DESTINATION_SCHEMA": "raw",
            "DESTINATION_TABLE": "sales",
            "DESTINATION_STORAGE": "s3://lake/shop",
            "HIVE_PARTITIONING": "TRUE",
            "RUN_LEDGER_TABLE": "runs",
            "AWS_REGION": "eu-central-1",
            "AWS_ENDPOINT_URL": "http://localhost:8333",
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "hidden",
        }
    )

    stream, lake = config.streams["sales"], config.lakes["flight"]
    assert (stream.source.root, stream.files) == ("/data/sales", "part-*.parquet")
    assert [(c.name, c.type) for c in stream.partition_columns] == [("region", "string")]
    assert (stream.destination.schema_name, lake.ledger) == ("raw", "runs")
    assert isinstance(lake.storage, S3Storage)
    assert (lake.storage.root, lake.storage.region) == ("s3://lake/shop", "eu-central-1")
    assert (lake.storage.endpoint, lake.storage.key_id) == ("http://localhost:8333", "key")
    assert "hidden" not in repr(config)


def test_canonical_digits_are_a_number_and_all_else_is_text() -> None:
    kinds = {
        "integer": ["2024", "-5", "9223372036854775807"],
        "string": ["2026-02", "007", "NW", "9" * 19, "1\uff11"],
    }
    for kind, values in kinds.items():
        for value in values:
            (column,) = flight_config(LEAST | {"LOAD_PARTITION": value}).streams["stats"].partition_columns
            assert column.type == kind
            assert column.text(column.parse(value)) == value


def test_the_flights_whole_environment_works_with_blanks_around_its_values() -> None:
    reference = {
        "SOURCE_GLOB": "s3://us-prd-motherduck-open-datasets/pypi/duckdb/pypi_daily_stats/**/*.parquet",
        "PARTITION_COLUMN": "year",
        "LOAD_PARTITION": "",
        "DESTINATION_DATABASE": "flights_demo",
        "DESTINATION_SCHEMA": "main",
        "DESTINATION_TABLE": "duckdb_pypi_downloads",
        "HIVE_PARTITIONING": "true",
        "RUN_LEDGER_TABLE": "ingest_runs",
        "MOTHERDUCK_TOKEN": "your_token_here",
    }

    config = load_config(None, {name: f"  {text}\t" for name, text in reference.items()})

    assert config == load_config(None, reference)
    # Each of its variables alone, beside the token, has the defaults of the others.
    for name in reference.keys() - {"LOAD_PARTITION", "MOTHERDUCK_TOKEN"}:
        assert config == load_config(None, {key: reference[key] for key in (name, "MOTHERDUCK_TOKEN")}), name
    (stream,) = config.streams.values()
    assert stream.source.root == "s3://us-prd-motherduck-open-datasets/pypi/duckdb/pypi_daily_stats"
    assert (stream.template.text, stream.files) == ("year={year}", "*.parquet")
    assert (stream.destination.table, config.lakes["flight"].is_managed) == ("duckdb_pypi_downloads", True)
    assert load_config(None, reference | {"LOAD_PARTITION": "2024"}).streams["duckdb_pypi_downloads"].partitions[
        "year"
    ].values == ("2024",)


@pytest.mark.parametrize(
    ("texts", "in_path"),
    [(["1", "true", "T", "yes", "Y", "on", " On "], True), (["0", "false", "f", "no", "N", "off"], False)],
)
def test_each_form_of_a_boolean_is_read(texts: list[str], *, in_path: bool) -> None:
    for text in texts:
        stream = flight_config(LEAST | {"HIVE_PARTITIONING": text}).streams["stats"]
        assert stream.selects_rows is not in_path
        public = LEAST | {"AWS_SKIP_SIGNATURE": text, "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "y"}
        source = flight_config(public).streams["stats"].source
        assert isinstance(source, S3Storage)
        assert (source.anonymous, source.key_id) == ((True, None) if in_path else (False, "x"))


def test_a_tick_refreshes_the_partition_that_is_loaded() -> None:
    next_year = pendulum.now("UTC").year + 1
    for value, at, expected in (
        ("2026-02-11", dt.datetime(2026, 6, 1, 6, 30, tzinfo=dt.UTC), "2026-02-11"),
        ("", dt.datetime(next_year, 1, 1, 6, 30, tzinfo=dt.UTC), str(next_year)),
    ):
        stream = flight_config(LEAST | {"LOAD_PARTITION": value, "SCHEDULE": "30 6 * * *"}).streams["stats"]

        assert stream.schedule is not None
        assert recent_texts(stream, at, stream.schedule.lookback) == {"year": (expected, expected)}


@pytest.mark.parametrize(
    ("glob", "in_path", "root", "files"),
    [
        ("s3://bucket/*/2026-??/part-[0-9].parquet", "False", "s3://bucket", "/*/2026-??/part-[0-9].parquet"),
        ("./*.parquet", "False", str(Path.cwd()), "/*.parquet"),
        ("https://host/x.parquet", "False", "https://host", "/x.parquet"),
        ("https://host/x/year=*/all.parquet", "True", "https://host/x", "all.parquet"),
    ],
    ids=["bucket", "folder", "web file", "web folders"],
)
def test_the_glob_of_a_source_is_its_folder_and_files(glob: str, in_path: str, root: str, files: str) -> None:
    stream = flight_config(LEAST | {"SOURCE_GLOB": glob, "HIVE_PARTITIONING": in_path}).streams["stats"]

    assert (stream.source.root, stream.files) == (root, files)
    assert stream.template.text == ("year={year}" if in_path == "True" else "")


def test_a_glob_has_a_folder_before_its_first_wildcard() -> None:
    for glob in ("*.parquet", "s3://*/x.parquet", "/data/", "s3://bucket"):
        with pytest.raises(ConfigError, match="a folder before its first wildcard, and files"):
            flight_config(LEAST | {"SOURCE_GLOB": glob, "HIVE_PARTITIONING": "false"})


def test_the_folder_of_the_one_value_that_is_loaded_may_be_named() -> None:
    glob = LEAST | {"SOURCE_GLOB": "s3://landing/stats/year=2024/*.parquet"}

    assert flight_config(glob | {"LOAD_PARTITION": "2024"}).streams["stats"].template.text == "year={year}"
    with pytest.raises(ConfigError, match=r"has only year=2024, and LOAD_PARTITION is 2025: write year=\*"):
        flight_config(glob | {"LOAD_PARTITION": "2025"})


def test_other_folders_of_the_glob_are_columns_of_the_rows() -> None:
    glob = {"SOURCE_GLOB": "s3://landing/region=*/year=*/month=*/*.parquet", "DESTINATION_TABLE": "stats"}

    stream = flight_config(glob).streams["stats"]

    assert (stream.source.root, stream.files) == ("s3://landing", "*.parquet")
    assert stream.template.text == "region={region}/year={year}/month={month}"
    assert {name: found.type for name, found in stream.path_columns.items()} == {
        "region": "string",
        "month": "string",
    }
    assert [column.name for column in stream.partition_columns] == ["year"]
    with pytest.raises(ConfigError, match="SOURCE_GLOB: 'a-b' is not an identifier"):
        flight_config(glob | {"SOURCE_GLOB": "s3://landing/a-b=*/year=*/*.parquet"})


def test_a_token_makes_the_lake_motherducks_and_is_in_no_config() -> None:
    variables = LEAST | {"MOTHERDUCK_TOKEN": "a-secret-token", "DESTINATION_STORAGE": "s3://mine/lake"}

    config = flight_config(variables)

    assert isinstance(config.lakes["flight"].catalog, MotherDuckCatalog)
    assert not config.lakes["flight"].is_managed
    assert flight_config(LEAST | {"MOTHERDUCK_TOKEN": "a-secret-token"}).lakes["flight"].is_managed
    assert "a-secret-token" not in repr(config)
    assert "a-secret-token" not in config.model_dump_json()


def test_the_sample_needs_no_keys_and_no_variables_of_aws() -> None:
    """`LOAD_PARTITION=2024` alone; a bucket of the user's for the lake has keys and server of its own."""
    alone = load_config(None, {"LOAD_PARTITION": "2024"}).streams["duckdb_pypi_downloads"]
    own = {
        "LOAD_PARTITION": "2024",
        "DESTINATION_STORAGE": "s3://mine/lake",
        "AWS_REGION": "eu-central-1",
        "AWS_ENDPOINT_URL": "http://localhost:8333",
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "hidden",
    }
    config = load_config(None, own)

    assert alone.source == config.streams["duckdb_pypi_downloads"].source
    assert alone.source == S3Storage(
        type="s3", bucket="us-prd-motherduck-open-datasets", prefix="pypi/duckdb/pypi_daily_stats", anonymous=True
    )
    storage = config.lakes["flight"].storage
    assert isinstance(storage, S3Storage)
    assert (storage.endpoint, storage.key_id) == ("http://localhost:8333", "key")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("SOURCE_GLOB", "s3://landing/stats/2026.parquet", "a folder for each value of year"),
        ("SOURCE_GLOB", "s3://landing/month=*/*.parquet", "year=\\*/\\*.parquet"),
        ("SOURCE_GLOB", "s3://landing/year=*/", "year=\\*/\\*.parquet"),
        ("SOURCE_GLOB", "https://me:secret@host/year=*/a.parquet", "a URL has no user or password"),
        ("SOURCE_GLOB", "https://host/year=*/a.parquet?sig=1", "SOURCE_GLOB has a query"),
        (
            "SOURCE_GLOB",
            "https://host/x/year=*/*.parquet",
            "a web server cannot be listed, and files is a pattern",
        ),
        ("PARTITION_COLUMN", "year; DROP", "PARTITION_COLUMN: 'year; DROP' is not an identifier"),
        ("DESTINATION_DATABASE", "a-b", "DESTINATION_DATABASE: 'a-b'"),
        ("RUN_LEDGER_TABLE", "runs!", "RUN_LEDGER_TABLE: 'runs!'"),
        ("HIVE_PARTITIONING", "maybe", "HIVE_PARTITIONING is 'maybe': set it to true, 1, yes or on"),
        ("AWS_SKIP_SIGNATURE", "maybe", "AWS_SKIP_SIGNATURE is 'maybe'"),
        ("LOAD_PARTITION", "2026-02-30", "LOAD_PARTITION is '2026-02-30', and there is no such date"),
        ("SCHEDULE", "daily", "^SCHEDULE: 'daily' is not a cron schedule of five fields"),
        ("DESTINATION_STORAGE", "https://host/lake", "a web server can only be a stream's source"),
        ("DESTINATION_STORAGE", "s3://Bad_Bucket/x", "^DESTINATION_STORAGE: has the wrong form"),
        ("AWS_ENDPOINT_URL", "localhost:8333", "^AWS_ENDPOINT_URL: "),
        ("AWS_ACCESS_KEY_ID", "key", "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY go together: give both"),
    ],
)
def test_a_value_that_does_not_fit_is_named(name: str, value: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        flight_config(LEAST | {name: value})


def test_a_variable_that_is_not_utf_8_is_named() -> None:
    for name in ("SOURCE_GLOB", "LOAD_PARTITION", "DESTINATION_STORAGE", "AWS_ACCESS_KEY_ID"):
        with pytest.raises(ConfigError, match=f"^{name} is not UTF-8: set it to a text in UTF-8"):
            flight_config(LEAST | {name: "s3://bucket/x\udcff/year=*/*.parquet"})


def test_the_environment_counts_without_a_file_and_if_it_names_a_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert list(load_config(None, LEAST).streams) == ["stats"]
    with pytest.raises(ConfigError, match="SOURCE_GLOB"):
        load_config(None, {})
    for name in ("MOTHERDUCK_TOKEN", "SCHEDULE", "AWS_REGION", "TRANSFORM_SQL"):  # of no Flight's table
        with pytest.raises(ConfigError, match="there is no config file"):
            load_config(None, {name: "30 6 * * *"})

    (tmp_path / "lake.yaml").write_text("lakes: {}\n")

    with pytest.raises(ConfigError, match=r"lake\.yaml"):
        load_config(None, LEAST)

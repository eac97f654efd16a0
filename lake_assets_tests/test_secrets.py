"""Every secret that a config can hold is planted, and all that the package puts out is searched for it."""

import logging
import re
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow.parquet as pq
import pytest
import yaml
from click.testing import CliRunner
from pydantic import SecretStr

from dev.servers.listener import Listener, listener
from lake_assets.api import open_stream
from lake_assets.base.duckdb_engine import HttpLimits, literal, open_engine
from lake_assets.base.errors import CatalogError, ConfigError, LakeAssetsError, StorageError
from lake_assets.base.retrying import Limit
from lake_assets.cli import main
from lake_assets.config.lake import Lake
from lake_assets.config.models import LakeConfig
from lake_assets.config.spark import Spark
from lake_assets.config.storages import AzureStorage
from lake_assets.ingest.ingest_all import ingest
from lake_assets.lake import ducklake
from lake_assets.lake.attach import extensions
from lake_assets.lake.failures import translated
from lake_assets.lake.ledger.read import read_ledger
from lake_assets.spark.task.job import Job
from lake_assets.spark.task.write import write_files
from lake_assets.storage import patience
from lake_assets.storage.formats.any_format import LandingZone
from lake_assets.storage.formats.parquet_files import read_schema
from lake_assets.storage.store import Store
from lake_assets.streams.load import load_config
from lake_assets_tests.world import sales

__all__ = ["listener"]

NOBODY = "127.0.0.1:9"  # no server has this port
PLANTED = re.compile("planted", re.IGNORECASE)


def plant(name: str) -> str:
    """A secret that SQL, URLs and shells each write in another way."""
    return f"pla'nted+planted/{name}%=\" x"


KEYS = {"key_id": "AKIA", "secret": plant("key")}
SAS = f"sv=2024-11-04&se=2030-01-01T00%3A00%3A00Z&sig={quote(plant('sas'), safe='')}"
AZURE_KEY = "plantedplantedplantedkey"  # base64, as a key is
BLOB = f"AccountName=retail;BlobEndpoint=http://{NOBODY}/retail"
SQLITE = {"type": "sqlite", "path": "catalog.sqlite"}

STORAGES: dict[str, dict[str, Any]] = {
    "s3": {"type": "s3", "bucket": "lake", "endpoint": f"http://{NOBODY}", **KEYS, "session_token": plant("token")},
    "r2": {"type": "r2", "account_id": "abc", "bucket": "lake", "endpoint": f"http://{NOBODY}", **KEYS},
    "azure-key": {"type": "azure", "container": "lake", "connection_string": f"{BLOB};AccountKey={AZURE_KEY}"},
    "azure-sas": {"type": "azure", "container": "lake", "connection_string": f"{BLOB};SharedAccessSignature={SAS}"},
}
OTHERS: dict[str, dict[str, Any]] = {  # these name no server but the vendor's own
    "gcs": {"type": "gcs", "bucket": "lake", **KEYS, "service_account": "/absent.json"},
    "azure-account-key": {"type": "azure", "account": "retail", "container": "lake", "account_key": AZURE_KEY},
    "azure-sas-field": {"type": "azure", "account": "retail", "container": "lake", "sas": f"?{SAS}"},
}
CATALOGS: dict[str, dict[str, Any]] = {
    "postgres": {
        "type": "postgres", "host": "127.0.0.1", "port": 9, "user": "me", "database": "lake",
        "password": plant("password"),
    },
    "motherduck": {"type": "motherduck", "database": "retail", "store_secret": True},
}  # fmt: skip

# Name of the combination: its catalog and its storage; landing zones are buckets too where a bucket can be had.
LAKES = {
    **{name: (SQLITE, storage) for name, storage in STORAGES.items()},
    **{name: (catalog, STORAGES["s3"]) for name, catalog in CATALOGS.items()},
}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is waited for. MotherDuck's extension asks its maker's server when it is loaded, so it is left out."""
    monkeypatch.setenv("MOTHERDUCK_TOKEN", plant("motherduck"))
    monkeypatch.setattr(patience, "of_obstore", lambda _: {"max_retries": 0})
    monkeypatch.setattr("lake_assets.storage.patience.retries", lambda _: Limit(retries=0))
    monkeypatch.setattr("lake_assets.lake.ducklake.http_limits", lambda _: HttpLimits(0))
    monkeypatch.setattr(ducklake, "extensions", lambda c: tuple(n for n in extensions(c) if n != "motherduck"))
    monkeypatch.setattr("lake_assets.upkeep.doctor.extensions", lambda _: ())


# A lake in S3, one in PostgreSQL, and one in Azure, whose errors print addresses with signatures.
@pytest.fixture(
    params=[n if n in ("s3", "postgres", "azure-sas") else pytest.param(n, marks=pytest.mark.more) for n in LAKES]
)
def file(request: pytest.FixtureRequest, tmp_path: Path, listener: Listener) -> Path:
    """The config's file."""
    catalog, storage = LAKES[request.param]
    source: Any = storage if catalog is SQLITE else "landing"
    stream = {"source": source, "partitions": {"region": {"values": ["NW"]}}, "destination": {"table": "sales"}}
    text = yaml.safe_dump({"lakes": {"test": {"catalog": catalog, "storage": storage}}, "streams": {"sales": stream}})
    if storage["type"] == "azure":  # whose clients wait long for one that is not there
        text = text.replace(f"http://{NOBODY}", listener.url)
    (tmp_path / "lake.yaml").write_text(text, encoding="utf-8")
    landed = tmp_path / "landing" / "region=NW"
    landed.mkdir(parents=True)
    pq.write_table(sales(1), landed / "a.parquet")
    return tmp_path / "lake.yaml"


def clean(text: object) -> bool:
    """Whether nothing planted is in the text; its own check, that something is in it, is that of the caller."""
    return not PLANTED.search(str(text))


def test_the_search_finds_what_is_there() -> None:
    for form in (plant("x"), quote(plant("x"), safe=""), plant("x").replace("'", "''"), SAS, AZURE_KEY):
        assert not clean(form)


@pytest.mark.parametrize("name", [*STORAGES, *OTHERS])
def test_a_config_shows_none(name: str) -> None:
    storage = (STORAGES | OTHERS)[name]
    lake = {"catalog": CATALOGS["postgres"], "storage": storage}
    stream = {"source": storage, "partitions": {"region": {}}, "destination": {"table": "sales"}}
    config = LakeConfig.model_validate({"lakes": {"test": lake}, "streams": {"sales": stream}})

    shown = [repr(config), str(config), config.model_dump_json(), str(config.model_dump())]
    assert all("lake" in text and clean(text) for text in (*shown, repr(open_stream(config, "sales"))))
    if storage["type"] == "azure":
        assert clean(repr(AzureStorage.model_validate(storage).access))


SPARK_SECRETS = {
    "spark.hadoop.fs.s3a.secret.key": plant("key"),
    "spark.hadoop.fs.s3a.access.key": plant("key"),
    "spark.hadoop.fs.s3a.session.token": plant("token"),
    "spark.hadoop.fs.azure.account.key.retail.dfs.core.windows.net": AZURE_KEY,
    "spark.hadoop.fs.azure.sas.lake.retail.blob.core.windows.net": SAS,
    "spark.ssl.keyPassword": plant("password"),
    "spark.authenticate.secret": plant("secret"),
    "spark.driver.extraJavaOptions": f"-Xss4m -Djavax.net.ssl.trustStorePassword={plant('password')}",
    "spark.sql.catalog.shop.url": f"jdbc:postgresql://me:{quote(plant('password'), safe='')}@db/shop",
}


@pytest.mark.parametrize("name", SPARK_SECRETS)
def test_a_secret_among_sparks_settings_is_refused_and_not_repeated(name: str, tmp_path: Path) -> None:
    """Dagster's UI, which reads the resource's default config, and Spark's own pages would show it."""
    lake = {"catalog": SQLITE, "storage": "data"}
    stream = {"source": "landing", "partitions": {"region": {}}, "destination": {"table": "sales"}}
    data = {"lakes": {"test": lake}, "streams": {"sales": stream}, "spark": {name: SPARK_SECRETS[name]}}
    (tmp_path / "lake.yaml").write_text(yaml.safe_dump(data), encoding="utf-8")

    result = CliRunner().invoke(main, ["--debug", "--config", str(tmp_path / "lake.yaml"), "validate"])

    assert result.exit_code == 1
    assert f"spark: {name} has a secret" in result.output
    assert clean(result.output)
    with pytest.raises(ConfigError) as raised:
        load_config(tmp_path / "lake.yaml")
    assert clean("".join(traceback.format_exception(raised.value)))


def test_what_only_says_where_a_secret_is_is_a_setting() -> None:
    settings = {
        "spark.authenticate.secret.file": "/run/secrets/spark",
        "spark.kubernetes.authenticate.driver.oauthTokenFile": "/run/token",
        "spark.kubernetes.executor.secretKeyRef.AWS_SECRET_ACCESS_KEY": "aws:key",
        "spark.hadoop.fs.s3a.aws.credentials.provider": "com.example.TokenProvider",
        "spark.redaction.regex": "(?i)secret|password|token",
    }
    assert Spark.model_validate(settings).settings == settings


COMMANDS = [
    ("validate",),
    ("doctor",),
    ("plan", "sales", "--partition", "region=NW"),
    ("ledger",),
    ("query", "SELECT 1"),
    ("ingest", "sales", "--partition", "region=NW"),  # makes the lake where its catalog can be reached
]


def test_no_command_prints_one(file: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lake_assets.cli.common.Session.__call__", lambda _: pytest.fail("Spark was asked for"))
    caplog.set_level(logging.DEBUG)
    for command in COMMANDS:
        for debug in ([], ["--debug"]):
            result = CliRunner().invoke(main, [*debug, "--config", str(file), *command])

            assert result.output
            assert result.exit_code == (0 if command[0] == "validate" else 1), result.output
            assert clean(result.output), result.output
            assert clean(result.stderr)
    assert clean(caplog.text)


def stored(folder: Path) -> Iterator[str]:
    for path in folder.rglob("*"):
        if path.is_file() and path.name != "lake.yaml":
            yield path.read_bytes().decode("latin-1")


def test_no_file_that_a_run_leaves_holds_one(file: Path) -> None:
    """The failed run's ledger row among them, where the catalog can be reached."""
    stream = open_stream(load_config(file), "sales")

    with pytest.raises(LakeAssetsError) as raised:
        ingest(stream, stream.config.partition("region=NW"), lambda: pytest.fail("Spark was asked for"))

    assert clean("".join(traceback.format_exception(raised.value)))
    assert all(clean(text) for text in stored(file.parent))
    if stream.lake_config.catalog.type == "sqlite":
        with stream.lake.open() as lake:
            (row,) = read_ledger(lake)
        assert str(row.error).startswith(type(raised.value).__name__)
    else:
        assert "No ledger row could be written" in raised.value.__notes__[0]


def test_dagster_is_told_none(file: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    import dagster as dg  # noqa: PLC0415 - these take seconds

    from lake_assets.orchestration.assets.stream_asset import stream_asset  # noqa: PLC0415
    from lake_assets.orchestration.resources import pyspark_resource  # noqa: PLC0415
    from lake_assets.orchestration.translator import specs_of  # noqa: PLC0415

    monkeypatch.setattr("lake_assets.orchestration.event_log.RETRY_SECONDS", 0.1)  # of a store that stays unreachable
    stream = open_stream(load_config(file), "sales")
    asset = stream_asset(specs_of(stream))
    instance = dg.DagsterInstance.ephemeral()

    result = dg.materialize(
        [asset],
        partition_key="NW",
        instance=instance,
        resources={"pyspark": pyspark_resource(load_config(file).spark)},
        raise_on_error=False,
    )

    assert not result.success
    run = instance.get_run_by_id(result.run_id)
    assert run is not None
    logged = [dg.serialize_value(entry) for entry in instance.all_logs(result.run_id)]
    assert any("sales" in text for text in logged)
    assert all(clean(text) for text in logged)
    assert clean((run.run_config, run.tags))
    assert clean((asset.metadata_by_key, asset.descriptions_by_key))
    out, err = capfd.readouterr()
    assert "STEP_FAILURE" in err
    assert clean(out + err)


def test_what_duckdb_quotes_of_a_statement_is_masked(file: Path) -> None:
    lake = load_config(file).lakes["test"]
    models = (lake.catalog, lake.own_storage)
    secrets = [value.get_secret_value() for m in models for _, value in m if isinstance(value, SecretStr)]
    for secret in filter(None, (*secrets, plant("motherduck"))):
        messages = [
            duckdbs_error(lake, f"SELECT CAST({literal(secret)} AS INTEGER)"),
            duckdbs_error(lake, f"CREATE SECRET s (TYPE s3, SECRET {literal(secret)} REGION 'x')"),
            duckdbs_error(lake, f"CREATE SECRET s (TYPE s3, SECRET {literal('x' * 40 + secret + 'x' * 40)} x"),
        ]
        assert "***" in messages[0]
        assert "Parser Error" in messages[1]
        assert all(clean(text) for text in messages)


def duckdbs_error(lake: Lake, sql: str) -> str:
    with pytest.raises(CatalogError) as raised, translated(lake), open_engine(()) as engine:
        engine.execute(sql)
    return "".join(traceback.format_exception(raised.value))


def test_a_signed_url_does_not_come_out_of_arrow(listener: Listener) -> None:
    """Its errors print the URL that was asked for, and Azure's signature is part of that."""
    place = f"AccountName=retail;BlobEndpoint={listener.url}/retail;SharedAccessSignature={SAS}"
    storage = AzureStorage.model_validate({"container": "lake", "connection_string": place})
    job = Job("run", LandingZone(storage), storage, sales(1).schema, "zstd", 2**20, ())

    for attempt in (
        lambda: Store(storage).open("a.parquet"),
        lambda: read_schema(Store(storage), "a.parquet"),
        lambda: list(write_files(sales(1).to_batches(), job, "main/")),
    ):
        with pytest.raises((OSError, StorageError), match=r"403|refuses access") as raised:
            attempt()
        assert clean("".join(traceback.format_exception(raised.value)))
    assert any("sig=pla" in path for path, _ in listener.asked)

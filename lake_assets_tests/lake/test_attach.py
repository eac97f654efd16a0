"""The statements that attach a lake are as documented, and DuckDB accepts them if it can run them."""

from pathlib import Path
from typing import Any

import duckdb
import pytest

from dev.servers.s3 import S3Server
from lake_assets.base.duckdb_engine import find_extension, open_engine
from lake_assets.base.errors import CatalogError, ConfigError, StorageError
from lake_assets.config.lake import Lake
from lake_assets.config.storages import S3Storage
from lake_assets.lake.attach import attach_statement, extensions, secret_statements
from lake_assets.lake.backends import catalog_backend
from lake_assets.lake.ducklake import DuckLake
from lake_assets.storage.store import Store
from lake_assets_tests.world_fixtures import bucket_on

SQLITE = {"type": "sqlite", "path": "/lake/c.sqlite"}
KEYS = {"key_id": "AKIA1", "secret": "it's"}
R2 = {"type": "r2", "account_id": "abc123", "bucket": "retail-lake", "prefix": "tables", **KEYS}
AZURE = {"type": "azure", "account": "retail", "container": "lake"}


def lake(storage: Any, catalog: Any = SQLITE, **options: Any) -> Lake:
    return Lake.model_validate({"catalog": catalog, "storage": storage, "attach_options": options})


# Each as DuckDB's manual has it: "S3 API Support", "Cloudflare R2 Import" (the endpoint, region auto and path style of
# its S3 form), "Google Cloud Storage Import", "Azure Extension".
GIVEN = "KEY_ID 'AKIA1', SECRET 'it''s'"
CHAIN = "PROVIDER credential_chain, REFRESH auto"
ON_PATH = "REGION 'us-east-1', URL_STYLE 'path'"
ON_R2 = "REGION 'auto', ENDPOINT 'abc123.r2.cloudflarestorage.com', USE_SSL true, URL_STYLE 'path'"
ACCOUNT = "CONNECTION_STRING 'DefaultEndpointsProtocol=https;AccountName=retail;"
BLOBS = "BlobEndpoint=https://retail.blob.core.windows.net"
SECRETS: list[tuple[Any, str, str]] = [
    (
        {"type": "s3", "bucket": "retail-lake", "region": "eu-central-1", **KEYS},
        "s3, SCOPE 's3://retail-lake'",
        f"{GIVEN}, REGION 'eu-central-1'",
    ),
    ({"type": "s3", "bucket": "retail.lake", **KEYS}, "s3, SCOPE 's3://retail.lake'", f"{GIVEN}, {ON_PATH}"),
    (
        {"type": "s3", "bucket": "retail-lake", "endpoint": "http://127.0.0.1:8333", **KEYS, "session_token": "t"},
        "s3, SCOPE 's3://retail-lake'",
        f"{GIVEN}, SESSION_TOKEN 't', REGION 'us-east-1', ENDPOINT '127.0.0.1:8333', USE_SSL false, URL_STYLE 'path'",
    ),
    ("s3://retail-lake/tables", "s3, SCOPE 's3://retail-lake'", f"{CHAIN}, REGION 'us-east-1'"),
    (R2, "s3, SCOPE 's3://retail-lake'", f"{GIVEN}, {ON_R2}"),
    ("r2://abc123/retail-lake", "s3, SCOPE 's3://retail-lake'", f"{CHAIN}, {ON_R2}"),
    (
        {"type": "gcs", "bucket": "retail-lake", **KEYS, "service_account": "/key.json"},
        "gcs, SCOPE 'gs://retail-lake'",
        GIVEN,
    ),
    (
        {"type": "gcs", "bucket": "retail-lake", "provider": "credential_chain"},
        "gcs, SCOPE 'gs://retail-lake'",
        CHAIN,
    ),
    (AZURE | {"account_key": "a2V5"}, "azure, SCOPE 'az://lake'", f"{ACCOUNT}AccountKey=a2V5;{BLOBS}'"),
    (
        AZURE | {"sas": "?sv=2024-11-04&sig=x%3D"},
        "azure, SCOPE 'az://lake'",
        f"{ACCOUNT}{BLOBS};SharedAccessSignature=sv=2024-11-04&sig=x%3D'",
    ),
    (AZURE, "azure, SCOPE 'az://lake'", "PROVIDER credential_chain, ACCOUNT_NAME 'retail'"),
]


@pytest.fixture
def aws_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys in the environment, which the credential chain finds."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIA1")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.mark.usefixtures("aws_keys")
@pytest.mark.parametrize(("storage", "kind", "options"), SECRETS)
def test_the_secret_of_a_storage_is_as_documented_and_duckdb_accepts_it(storage: Any, kind: str, options: str) -> None:
    config = lake(storage)
    (statement,) = secret_statements(config)

    assert statement == f"CREATE OR REPLACE SECRET lake_storage (TYPE {kind}, {options})"
    with open_engine(extensions(config)) as engine:
        engine.execute(statement)
        assert secret_for(engine, config.data_path, kind.partition(",")[0]) == "lake_storage"


def secret_for(engine: duckdb.DuckDBPyConnection, path: str, kind: str) -> str:
    ((found,),) = engine.execute("SELECT name FROM which_secret(?, ?)", [path, kind]).fetchall()
    return str(found)


def test_a_stored_secret_for_all_of_s3_does_not_override_that_of_r2() -> None:
    """DuckDB would prefer it to a secret of type r2, so there is none."""
    config = lake(R2)
    with open_engine(extensions(config)) as engine:
        engine.execute("CREATE SECRET mine (TYPE s3, KEY_ID 'a', SECRET 'b')")
        engine.execute(*secret_statements(config))
        assert secret_for(engine, config.data_path, "s3") == "lake_storage"


@pytest.mark.parametrize(
    ("storage", "catalog", "names"),
    [
        ("/data", SQLITE, ("ducklake", "sqlite_scanner")),
        ({"type": "s3", "bucket": "lake", **KEYS}, SQLITE, ("ducklake", "sqlite_scanner", "httpfs")),
        ("s3://lake", SQLITE, ("ducklake", "sqlite_scanner", "httpfs", "aws")),
        (R2, {"type": "duckdb", "path": "c.duckdb"}, ("ducklake", "httpfs")),
        (AZURE, SQLITE, ("ducklake", "sqlite_scanner", "azure")),
        (R2, {"type": "motherduck", "database": "retail"}, ("ducklake", "motherduck", "httpfs")),
    ],
)
def test_only_the_extensions_that_are_needed_are_loaded(storage: Any, catalog: Any, names: tuple[str, ...]) -> None:
    assert extensions(lake(storage, catalog)) == names


def test_attach_options_are_literals_in_the_statement() -> None:
    options = {"override_data_path": True, "data_inlining_row_limit": 10, "metadata_parameters": {"busy": "it's"}}

    assert attach_statement(lake("/data", **options)) == (
        "ATTACH 'ducklake:sqlite:/lake/c.sqlite' AS lake (DATA_PATH '/data/', META_JOURNAL_MODE 'WAL', "
        "OVERRIDE_DATA_PATH true, DATA_INLINING_ROW_LIMIT 10, META_BUSY 'it''s')"
    )


def test_ducklake_accepts_every_option_that_the_config_accepts(tmp_path: Path) -> None:
    every: dict[str, Any] = {
        "automatic_migration": True,
        "busy_timeout": 5000,
        "data_inlining_row_limit": 10,
        "encrypted": False,
        "override_data_path": True,
        "write_deletion_vectors": False,
        "metadata_parameters": {"busy_timeout": 5000},
    }
    catalog = {"type": "sqlite", "path": str(tmp_path / "c.sqlite")}

    with DuckLake(lake(str(tmp_path), catalog, **every)).open(create=True) as session:
        session.rows("CREATE TABLE lake.t AS SELECT 1 AS a")
        options = session.rows("SELECT option_name, value FROM ducklake_options('lake')")
    assert ("encrypted", "false") in options


@pytest.mark.parametrize(
    ("installed", "version", "option"), [("1.5.5", "1.0", ""), ("2.0.0", "1.0", "'1.0'"), ("2.0.0", "1.1", "'1.1'")]
)
def test_the_version_of_a_new_catalog_is_an_option_of_duckdb_2(
    monkeypatch: pytest.MonkeyPatch, installed: str, version: str, option: str
) -> None:
    monkeypatch.setattr(duckdb, "__version__", installed)

    _, _, written = attach_statement(lake("/lake", ducklake_version=version)).partition("DUCKLAKE_VERSION ")
    assert written.removesuffix(")") == option


def test_a_catalog_of_version_1_1_needs_duckdb_2() -> None:
    with pytest.raises(ConfigError, match=r"DuckLake 1\.1 needs DuckDB 2, and DuckDB 1\..* is installed"):
        attach_statement(lake("/lake", ducklake_version="1.1"))


def test_a_moved_lake_is_attached_with_override_data_path(tmp_path: Path) -> None:
    catalog = {"type": "sqlite", "path": str(tmp_path / "c.sqlite")}
    with DuckLake(lake(str(tmp_path / "old"), catalog)).open(create=True) as session:
        session.rows("CREATE TABLE lake.t AS SELECT 1 AS a")

    moved = str(tmp_path / "new")
    with pytest.raises(CatalogError, match="does not match existing data path"), DuckLake(lake(moved, catalog)).open():
        pytest.fail("opened")
    with DuckLake(lake(moved, catalog, override_data_path=True)).open() as session:
        assert session.rows("FROM lake.t") == [(1,)]


# MotherDuck's manual, "DuckLake": "Bring your own bucket", "Using own compute"; "CREATE SECRET".
MOTHERDUCK = {"type": "motherduck", "database": "my_ducklake"}
OWN_BUCKET = {"type": "s3", "bucket": "mybucket", "prefix": "my_optional_path", "region": "us-east-1", **KEYS}


def test_a_lake_on_motherduck_is_created_and_attached_as_documented(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOTHERDUCK_TOKEN", "it's a token")
    config = lake(OWN_BUCKET, MOTHERDUCK | {"store_secret": True})

    assert catalog_backend(config).create_statements() == (
        "ATTACH IF NOT EXISTS 'md:'",
        (
            "CREATE OR REPLACE SECRET my_ducklake_storage IN MOTHERDUCK (TYPE s3, SCOPE 's3://mybucket', "
            "KEY_ID 'AKIA1', SECRET 'it''s', REGION 'us-east-1')"
        ),
        "CREATE DATABASE IF NOT EXISTS \"my_ducklake\" (TYPE DUCKLAKE, DATA_PATH 's3://mybucket/my_optional_path/')",
    )
    assert attach_statement(config) == (
        "ATTACH 'ducklake:md:__ducklake_metadata_my_ducklake' AS lake (DATA_PATH 's3://mybucket/my_optional_path/')"
    )
    assert secret_statements(config)[0] == "SET motherduck_token = 'it''s a token'"

    without = catalog_backend(
        lake(OWN_BUCKET, MOTHERDUCK)
    ).create_statements()  # it gets no keys unless that is asked for
    assert not any("SECRET" in statement for statement in without)
    monkeypatch.delenv("MOTHERDUCK_TOKEN")
    with pytest.raises(ConfigError, match="needs MOTHERDUCK_TOKEN in the environment"):
        secret_statements(config)


def test_the_wheels_of_all_extensions_are_of_one_version() -> None:
    for name in ("ducklake", "httpfs", "sqlite_scanner", "postgres_scanner", "aws", "azure", "motherduck"):
        assert find_extension(name).origin == "its wheel"


def test_the_credential_chain_opens_a_real_bucket_and_requests_to_an_anonymous_one_are_not_signed(
    s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server knows the keys and no anonymous user, so it answers signed requests only."""
    location = {name: value for name, value in bucket_on(s3).items() if name not in {"key_id", "secret"}}
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", s3.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", s3.secret_key)
    storage = S3Storage.model_validate(location)

    with Store(storage).create("landed/a.parquet") as file:
        file.write(b"x")
    assert [obj.key for obj in Store(storage).list()] == ["landed/a.parquet"]
    config = lake(location, {"type": "sqlite", "path": str(tmp_path / "c.sqlite")})
    with DuckLake(config).open(create=True) as session:
        session.rows("CREATE TABLE lake.t AS SELECT range AS a FROM range(1000)")
        assert session.rows("SELECT count(*) FROM lake.t") == [(1000,)]
    assert len(Store(storage).list("main")) == 1
    public = S3Storage.model_validate(location | {"anonymous": True})
    with pytest.raises(StorageError, match="refuses access"):
        Store(public).list()
    with pytest.raises(OSError, match="ACCESS_DENIED"):
        Store(public).open("landed/a.parquet")


def test_a_credential_chain_without_keys_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("HOME", str(tmp_path))

    with pytest.raises(StorageError, match=r"no credentials for s3://lake were found.* give key_id and secret"):
        Store(S3Storage(bucket="lake")).list()

"""Real jobs on real servers, as talkative as Spark can be made, and no secret in anything that it says or leaves."""

import base64
import json
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import yaml

from dev.servers.postgres import PostgresServer
from dev.servers.s3 import S3Server
from lake_assets_tests.spark.processes import run_python
from lake_assets_tests.world import NW, STREAM, World, sales
from lake_assets_tests.world_fixtures import bucket_on, database_on

# Everything that is told to standard error. Without a level of its own for pyspark's main class Spark filters it.
LOG4J = """\
rootLogger.level = debug
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = debug
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %p %c: %m%n%ex
"""

SCRIPT = """\
import json, logging, sys, urllib.request
from pathlib import Path
from types import SimpleNamespace
from lake_assets.streams.load import load_config
from lake_assets.spark.task import write
from lake_assets.base.errors import LakeAssetsError
from lake_assets.ingest.ingest_all import ingest
from lake_assets.spark.spark_session import spark_config, start_session
from lake_assets.streams.stream import open_streams

# The key under which rows are staged is drawn at random, and kept by nobody: this one we know.
write.secrets = SimpleNamespace(token_bytes=lambda size: bytes.fromhex(sys.argv[2]))
logging.basicConfig(level=logging.DEBUG)
# At DEBUG it writes down the wire between Python and the JVM: the pickled tasks, and what they take to the workers.
logging.getLogger("py4j").setLevel(logging.INFO)
config = load_config(Path("lake.yaml"))
spark = start_session(spark_config(settings={"spark.master": "local[2]", **config.spark.settings}))
ended = {}
for name, stream in open_streams(config).items():
    try:
        ended[name] = ingest(stream, stream.config.partition(sys.argv[1]), lambda: spark).row.status
    except LakeAssetsError as error:
        ended[name] = str(error)
told = {"conf": spark.sparkContext.getConf().getAll(), "sql": spark.sql("SET -v").collect(), "ended": ended}
site = spark.sparkContext.uiWebUrl
told["environment page"] = urllib.request.urlopen(site + "/environment/").read().decode()
api = f"{site}/api/v1/applications/{spark.sparkContext.applicationId}"
for page in ("environment", "jobs", "stages?details=true", "sql?details=true&planDescription=true", "executors"):
    told[page] = urllib.request.urlopen(f"{api}/{page}").read().decode()
Path("told.json").write_text(json.dumps(told))
spark.stop()
"""


@pytest.fixture
def config(tmp_path: Path, s3: S3Server, postgres: PostgresServer) -> dict[str, Any]:
    """Streams by each job: one that passes through, one with a transform, and ones that fail in a task."""
    source, storage, catalog = bucket_on(s3), bucket_on(s3), database_on(postgres)
    world = World(catalog, storage, source, lambda: pytest.fail("not this session"))
    world.land(NW, sales(1, 2))
    damaged = World(catalog, storage, source | {"prefix": "damaged"}, world.sessions)
    damaged.land(NW, sales(1), "a.parquet")
    damaged.land(NW, b"PAR1 but no more than that PAR1", "b.parquet")
    streams: dict[str, dict[str, Any]] = {
        "passed": {},
        "transformed": {"transform": {"sql": "SELECT id, total * 2 AS total FROM source"}},
        "damaged": {"source": damaged.source},
        "failing": {"transform": {"function": "lake_assets_tests.transforms:failing"}},
    }
    hidden = {"lake": "hidden"}
    streams |= {f"staged_{name}": options | hidden for name, options in streams.items()}
    (tmp_path / "log4j2.properties").write_text(LOG4J)
    (tmp_path / "events").mkdir()
    config = {
        "lakes": {
            "test": {"catalog": catalog, "storage": storage},
            "hidden": {
                "catalog": database_on(postgres),
                "storage": bucket_on(s3),
                "attach_options": {"encrypted": True},
            },
        },
        "streams": {
            name: STREAM | {"lake": "test", "source": source, "destination": {"table": name}} | options
            for name, options in streams.items()
        },
        "spark": {
            "spark.driver.defaultJavaOptions": f"-Dlog4j2.configurationFile=file:{tmp_path}/log4j2.properties",
            "spark.eventLog.enabled": "true",
            "spark.eventLog.compress": "false",
            "spark.eventLog.dir": (tmp_path / "events").as_uri(),
            "spark.local.dir": str(tmp_path / "local"),
            "spark.ui.enabled": "true",
            "spark.ui.port": "0",
        },
    }
    (tmp_path / "lake.yaml").write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")
    return config


def forms(secret: str) -> Iterator[str]:
    """How SQL, URLs, JSON, shells and HTTP write it."""
    yield secret
    yield secret.replace("'", "''")
    yield secret.replace("'", "\\'")
    yield quote(secret, safe="")
    yield json.dumps(secret)[1:-1]
    yield base64.b64encode(secret.encode()).decode()


def key_forms(key: bytes) -> Iterator[str]:
    """How Python, SQL, JSON and files of any kind write a key of bytes."""
    yield from (key.decode("latin-1"), key.hex(), key.hex().upper(), base64.b64encode(key).decode(), repr(key)[2:-1])
    yield "".join(f"\\x{byte:02X}" for byte in key)  # DuckDB's form of a BLOB
    yield str(list(key))


@pytest.mark.more
def test_what_spark_says_and_leaves_holds_no_secret(
    config: dict[str, Any], tmp_path: Path, s3: S3Server, postgres: PostgresServer
) -> None:
    key = secrets.token_bytes(16)

    done = run_python("-c", SCRIPT, NW, key.hex(), folder=tmp_path)

    assert done.returncode == 0, done.stderr[-4000:]
    message = json.loads((tmp_path / "told.json").read_text())
    ended = message["ended"]
    for staged in ("", "staged_"):
        assert (ended[f"{staged}passed"], ended[f"{staged}transformed"]) == ("committed", "committed")
        assert "cannot be read as Parquet" in ended[f"{staged}damaged"]
        assert "failed on purpose" in ended[f"{staged}failing"]
    events = "".join(file.read_text() for file in (tmp_path / "events").rglob("*") if file.is_file())
    # Each place was talkative, and the search would find what it looks for.
    assert "DEBUG org.apache.spark" in done.stderr
    assert "a worker's standard error" in done.stderr
    assert "SparkListenerJobEnd" in events
    assert "SparkListenerEnvironmentUpdate" in events
    assert config["spark"]["spark.local.dir"] in message["environment"]
    assert s3.secret_key in (tmp_path / "lake.yaml").read_text()

    output = {"stdout": done.stdout, "stderr": done.stderr, "event log": events}
    output |= {name: str(text) for name, text in message.items()}
    left = [path for path in tmp_path.rglob("*") if path.is_file() and path.name != "lake.yaml"]
    output |= {str(path): path.read_bytes().decode("latin-1") for path in left}
    for form in (*forms(s3.secret_key), *forms(postgres.password), *key_forms(key)):
        assert [place for place, text in output.items() if form in text] == []

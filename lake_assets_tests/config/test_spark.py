"""The section `spark`: a master, or a server whose URL may have a token, and settings of Spark."""

import re
from pathlib import Path

import pytest

from lake_assets.api import open_stream
from lake_assets.base.errors import ConfigError
from lake_assets.config.models import LakeConfig
from lake_assets.config.spark import Spark
from lake_assets.orchestration.resources import pyspark_resource, sessions
from lake_assets.streams.load import parse_config

CONFIG = """\
lakes: {retail: {catalog: {type: sqlite, path: c.sqlite}, storage: data}}
streams: {sales: {source: landing, partitions: {region: {}}, destination: {table: sales}}}
spark: """
FILE = Path("/etc/lake/lake.yaml")
URL = "sc://spark.example.com:15002/;user_id=me;token=${SPARK_TOKEN}"
TOKEN = "hunter2-of-the-server"


def parsed(spark: str) -> LakeConfig:
    return parse_config(CONFIG + spark, FILE, {"SPARK_TOKEN": TOKEN})


@pytest.mark.parametrize(
    ("spark", "settings"),
    [
        ("{}", {}),
        ("{master: yarn}", {"spark.master": "yarn"}),
        ('{spark.master: "local[2]", spark.task.cpus: 2}', {"spark.master": "local[2]", "spark.task.cpus": "2"}),
        *((f'{{remote: "{url}"}}', {"spark.remote": url}) for url in ("sc://host", "sc://[::1]:15002/;", "local[2]")),
        ('{remote: "sc://h/;use_ssl=true"}', {"spark.remote": "sc://h/;use_ssl=true"}),
        ('{master: "local[2]", remote: shared}', {"spark.master": "local[2]", "spark.remote": "shared"}),
    ],
)
def test_a_master_or_a_server_is_one_of_the_settings(spark: str, settings: dict[str, str]) -> None:
    assert parsed(spark).spark.settings == settings


@pytest.mark.parametrize("key", ["remote", "spark.remote"])
def test_the_token_of_a_server_is_passed_on_and_not_shown(key: str) -> None:
    config = parsed(f'{{{key}: "{URL}", spark.sql.ansi.enabled: false}}')

    assert config.spark.settings["spark.remote"] == URL.replace("${SPARK_TOKEN}", TOKEN)
    assert config.spark.shown_settings == {
        "spark.remote": "sc://spark.example.com:15002",
        "spark.sql.ansi.enabled": "false",
    }
    stream = open_stream(config, "sales")
    shown = (repr(config), config.model_dump_json(), repr(stream), repr(pyspark_resource(config.spark)))
    assert [text for text in shown if TOKEN in text] == []


def test_dagsters_resource_gets_the_token_when_the_session_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[dict[str, str]] = []
    monkeypatch.setattr("lake_assets.orchestration.resources.start_session", started.append)
    spark, other = parsed(f'{{remote: "{URL}"}}').spark, Spark.model_validate({"remote": "sc://other"})

    sessions(pyspark_resource(spark), spark)()
    sessions(pyspark_resource(other), spark)()  # the user's own resource

    assert [conf["spark.remote"] for conf in started] == [URL.replace("${SPARK_TOKEN}", TOKEN), "sc://other"]
    assert [conf["spark.sql.session.timeZone"] for conf in started] == ["UTC"] * 2  # the package's own


@pytest.mark.parametrize("url", ["host:15002", "spark://host:7077", "sc://", "sc://h:port", "sc://h/;token=x#y", ""])
def test_what_is_no_url_of_a_server_is_refused_and_not_repeated(url: str) -> None:
    told = r"spark.remote: not the URL of a Spark Connect server: write sc://"
    with pytest.raises(ConfigError, match=told) as raised:
        parsed(f'{{remote: "{url}{TOKEN if ";token" in url else ""}"}}')
    assert TOKEN not in str(raised.value)


@pytest.mark.parametrize(
    ("spark", "text"),
    [
        ("{master: yarn, remote: sc://host}", "a session has a master or a remote: remove master"),
        ("{master: yarn, remote: shared}", "is a Spark of this machine, and master a cluster: remove remote"),
        ("{master: yarn, spark.master: yarn}", "master and spark.master are the same setting: remove one"),
        ("{masters: yarn}", "unknown key masters: write master, remote, or a setting of Spark by its whole name"),
        ("{master: ''}", "spark.master"),
        ('{master: "spark://me:hunter2@host"}', "spark.master has a secret"),
        ("{spark.x: [1]}", "spark"),
        ("[a]", "spark"),
    ],
)
def test_contradictions_are_named(spark: str, text: str) -> None:
    with pytest.raises(ConfigError, match=rf"lake.yaml:3:\d+: .*{re.escape(text)}"):
        parsed(spark)

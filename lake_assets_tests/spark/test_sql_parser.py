"""`validate` refuses SQL of transforms that Spark's parser refuses, with the place under a caret, and no other."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from py4j.java_gateway import launch_gateway

from lake_assets.cli import main
from lake_assets_tests.world import World

Validate = Callable[..., Result]

# What other parsers refuse: hints, views of arrays, quotes of Spark, pipes, types, and a semicolon at the end.
SPARKS_OWN = (
    "SELECT /*+ BROADCAST(s) */ `a b`, x FROM source s LATERAL VIEW OUTER explode(xs) t AS x;",
    "FROM source |> WHERE total > 1 |> SELECT total",
    "SELECT named_struct('a', 1).a, CAST(total AS STRING), total <=> NULL, r'\\d' FROM source TABLESAMPLE (5 PERCENT)",
    "SELECT transform(xs, x -> x + 1), date'2026-02-11' FROM source DISTRIBUTE BY total SORT BY total",
)


@pytest.fixture(autouse=True)
def no_other_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SPARK_REMOTE", "SPARK_HOME", "SPARK_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def validate(local_world: World, tmp_path: Path) -> Validate:
    def run(*statements: str, **spark: object) -> Result:
        stream = local_world.document["streams"]["sales"]
        streams = {
            f"s{number}": stream | {"transform": {"sql": sql}, "destination": {"table": f"s{number}"}}
            for number, sql in enumerate(statements)
        }
        file = local_world.config_file(tmp_path, streams=streams, **({"spark": spark} if spark else {}))
        return CliRunner().invoke(main, ["--config", str(file), "validate"])

    return run


@pytest.mark.more
def test_the_place_is_under_a_caret_and_what_only_spark_knows_is_valid_and_the_jvm_ends(
    validate: Validate, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Any] = []

    def launched(**options: Any) -> Any:
        started.append(launch_gateway(**options))
        return started[-1]

    monkeypatch.setattr("lake_assets.spark.sql_parser.launch_gateway", launched)
    result = validate("SELEC x", "SELECT 1", "SELECT total\nFROM source;\nSELECT '日本', 2", *SPARKS_OWN)

    assert [jvm.poll() for *_, jvm in started] == [0]
    assert result.exit_code == 1
    assert (
        "streams.s0.transform.sql: Syntax error at or near 'SELEC', at line 1, column 1:\n  SELEC x\n  ^\nstreams.s2"
    ) in result.stderr
    assert ", at line 3, column 1:\n  SELECT '日本', 2\n  ^ write one statement of Spark SQL.\n" in result.stderr
    assert not [n for n in (1, *range(3, 3 + len(SPARKS_OWN))) if f"streams.s{n}" in result.stderr]


@pytest.mark.more
def test_sparks_settings_decide_and_another_spark_is_left_alone(
    validate: Validate, monkeypatch: pytest.MonkeyPatch
) -> None:
    quoted = 'SELECT total AS "sum of all" FROM source'

    assert validate(quoted).exit_code == 1
    assert validate(quoted, **{"spark.sql.ansi.doubleQuotedIdentifiers": "true"}).exit_code == 0
    monkeypatch.setattr("lake_assets.spark.sql_parser.find_java", lambda: pytest.fail("a JVM was asked for"))
    assert validate("SELEC x", remote="sc://localhost:15002").exit_code == 0
    assert validate("SELEC x", **{"spark.sql.extensions": "org.example.Extensions"}).exit_code == 0


@pytest.mark.more
def test_the_variable_of_a_flight_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("lake_assets.base.errors._in_terms", str)  # restores what the command sets for its process
    monkeypatch.setenv("SOURCE_GLOB", f"{tmp_path}/year=*/*.parquet")
    monkeypatch.setenv("TRANSFORM_SQL", "SELECT total FROM source; DROP TABLE x")

    result = CliRunner().invoke(main, ["validate"])

    assert result.exit_code == 1
    assert "Error: TRANSFORM_SQL: Syntax error at or near 'DROP'" in result.stderr


def test_without_java_the_config_is_valid_and_a_line_says_what_was_not_checked(
    validate: Validate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("lake_assets.spark.jvm.importlib.util.find_spec", lambda _: None)

    result = validate("SELEC x")

    assert result.exit_code == 0
    assert "The SQL of transforms was not checked: Spark" in result.stderr
    assert "The config is valid." in result.stdout

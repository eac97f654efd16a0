"""A data contract gives a stream its columns, checks and description."""

import logging
from pathlib import Path

import pytest

from lake_assets.base.errors import ConfigError
from lake_assets.config.models import LakeConfig
from lake_assets.config.streams import StreamConfig
from lake_assets.streams.load import load_config
from lake_assets_tests.config.test_load import GOOD

CONTRACT = """
apiVersion: v3.0.2
kind: DataContract
id: orders
version: 1.0.0
status: active
schema:
  - name: orders
    physicalName: sales
    description: What was sold.
    quality:
      - {metric: rowCount, mustBeGreaterThan: 10}
      - {metric: duplicateValues, arguments: {properties: [id, code]}, mustBe: 0, name: no twins}
      - {type: sql, name: none late, query: 'SELECT count(*) FROM ${object} WHERE sold > now()', mustBe: 0}
      - {type: text, description: Totals are those of the till.}
    properties:
      - {name: id, logicalType: integer, primaryKey: true}
      - {name: code, physicalType: VARCHAR(12), logicalType: string, required: true, unique: true, description: Article}
      - name: total
        physicalType: DECIMAL(12,2)
        logicalTypeOptions: {minimum: 0, exclusiveMinimum: true, maximum: 1000}
        quality:
          - {metric: nullValues, mustBeLessThan: 5, unit: percent}
      - name: kind
        logicalType: string
        enum: [{value: "it's"}, {value: b}]
        quality: [{metric: invalidValues, arguments: {pattern: '^[a-z]{1}'}}]
      - {name: sold, logicalType: timestamp, logicalTypeOptions: {timezone: true}}
      - {name: tags, logicalType: array, items: {logicalType: string}}
      - name: place
        logicalType: object
        properties: [{name: x, logicalType: number}, {name: on map, logicalType: date}]
      - {name: region, logicalType: string, required: true, description: Where}
"""


def stream(folder: Path, contract: str = CONTRACT, more: str = "") -> StreamConfig:
    (folder / "orders.odcs.yaml").write_text(contract)
    (folder / "lake.yaml").write_text(f"{GOOD}    contract: orders.odcs.yaml\n{more}")
    return load_config(folder / "lake.yaml", {}).streams["sales"]


def test_properties_are_columns(tmp_path: Path) -> None:
    found = stream(tmp_path)

    assert {name: column.type for name, column in found.declared.items()} == {
        "id": "BIGINT",
        "code": "VARCHAR",
        "total": "DECIMAL(12,2)",
        "kind": "VARCHAR",
        "sold": "TIMESTAMPTZ",
        "tags": "VARCHAR[]",
        "place": 'STRUCT("x" DOUBLE, "on map" DATE)',
        "region": None,
    }
    assert [name for name, column in found.declared.items() if not column.nullable] == ["id", "code"]
    assert found.column_descriptions == {"code": "Article", "region": "Where"}
    assert found.description == "What was sold."


def test_rules_are_checks(tmp_path: Path) -> None:
    assert stream(tmp_path).checks.sql == {
        "rowCount": 'SELECT * FROM (SELECT count(*) AS measured FROM "main"."sales") WHERE NOT (measured > 10)',
        "no_twins": 'SELECT * FROM (SELECT count(*) - count(DISTINCT ("id", "code")) AS measured FROM "main"."sales") '
        "WHERE NOT (measured = 0)",
        "none_late": 'SELECT * FROM (SELECT (SELECT count(*) FROM "main"."sales" WHERE sold > now()) AS measured) '
        "WHERE NOT (measured = 0)",
        "primary_key": 'SELECT * FROM (SELECT count(*) - count(DISTINCT ("id")) AS measured FROM "main"."sales") '
        "WHERE NOT (measured = 0)",
        "code_unique": 'SELECT * FROM (SELECT count(*) - count(DISTINCT ("code")) AS measured FROM "main"."sales") '
        "WHERE NOT (measured = 0)",
        "total_minimum": 'SELECT * FROM refreshed WHERE "total" <= 0',
        "total_maximum": 'SELECT * FROM refreshed WHERE "total" > 1000',
        "total_nullValues": 'SELECT * FROM (SELECT 100.0 * count(*) FILTER (WHERE "total" IS NULL) / '
        'nullif(count(*), 0) AS measured FROM "main"."sales") WHERE NOT (measured < 5)',
        "kind_enum": "SELECT * FROM refreshed WHERE \"kind\" NOT IN ('it''s', 'b')",
        "kind_invalidValues": "SELECT * FROM refreshed WHERE NOT regexp_matches(\"kind\", '^[a-z]{1}')",
    }


def test_what_the_config_says_counts_more(tmp_path: Path) -> None:
    more = "    columns: {Total: {type: DOUBLE}, code: The article}\n    checks: {sql: {rowCount: SELECT 1}}\n"
    found = stream(tmp_path, more=more)

    assert found.declared["Total"].type == "DOUBLE"
    assert "total" not in found.declared
    assert (found.declared["code"].nullable, found.column_descriptions["code"]) == (False, "The article")
    assert found.checks.sql["rowCount"] == "SELECT 1"


def test_a_config_of_a_contract_is_whole_without_it(tmp_path: Path) -> None:
    found = stream(tmp_path)
    config = load_config(tmp_path / "lake.yaml", {})
    (tmp_path / "orders.odcs.yaml").unlink()

    assert LakeConfig.model_validate_json(config.model_dump_json(by_alias=True)).streams["sales"] == found


def test_a_rule_of_another_tool_is_named_and_not_checked(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    custom = "      - {type: custom, engine: soda, name: fresh, implementation: 'freshness(sold) < 1d'}\n"
    with caplog.at_level(logging.WARNING):
        found = stream(tmp_path, CONTRACT.replace("    properties:\n", f"{custom}    properties:\n", 1))

    assert "fresh" not in found.checks.sql
    assert "the rule fresh is of engine soda, and is not checked" in caplog.text


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("kind: DataContract", "kind: [", "is no data contract"),
        ("id: orders", "colour: red", "is no data contract: .*colour"),
        ("logicalType: integer", "logicalType: money", "the logicalType 'money' of id is not one that a lake has: g"),
        ("metric: rowCount", "metric: freshness", "the metric 'freshness' of the rule freshness .* type sql"),
        ("now()', mustBe: 0", "now()'", "the rule none_late without an operator"),
    ],
)
def test_what_a_lake_cannot_have_is_refused_with_the_fix(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        stream(tmp_path, CONTRACT.replace(old, new, 1))


def test_the_contract_is_there_and_the_table_is_named_or_the_only_one(tmp_path: Path) -> None:
    assert stream(tmp_path, CONTRACT.replace("physicalName: sales", "physicalName: other")).declared
    second = "  - {name: returns}\n  - {name: stock}\n"
    with pytest.raises(ConfigError, match=r"has no table sales \(returns, stock\)"):
        stream(tmp_path, f"apiVersion: v3.0.2\nkind: DataContract\nid: x\nschema:\n{second}")
    (tmp_path / "lake.yaml").write_text(f"{GOOD}    contract: absent.yaml\n")
    with pytest.raises(ConfigError, match=r"streams.sales.*the contract .*absent\.yaml cannot be read: No such file"):
        load_config(tmp_path / "lake.yaml", {})

"""The rules of a data contract are checks that pass and fail as it says."""

from pathlib import Path

import pyarrow as pa
import pytest

from lake_assets.base.errors import SchemaError
from lake_assets_tests.upkeep.checks.checked import failed
from lake_assets_tests.world import NW, World

CONTRACT = """
apiVersion: v3.0.2
kind: DataContract
id: orders
schema:
  - name: sales
    quality:
      - {metric: rowCount, mustBeBetween: [1, 4]}
      - {metric: duplicateValues, arguments: {properties: [id, kind]}, mustBe: 0, name: no twins}
      - {type: sql, name: none negative, query: 'SELECT count(*) FROM ${table} WHERE total < 0;', mustBe: 0}
    properties:
      - {name: id, logicalType: integer, required: true, unique: true}
      - name: total
        physicalType: DOUBLE
        logicalTypeOptions: {maximum: 100}
        quality: [{metric: nullValues, mustBeLessOrEqualTo: 25, unit: percent}]
      - name: kind
        logicalType: string
        logicalTypeOptions: {maxLength: 3, pattern: '^[a-z{}'']+$'}
        quality:
          - {metric: invalidValues, arguments: {validValues: [web, "it's"]}, name: known}
          - {metric: missingValues, arguments: {missingValues: [null, n/a]}, mustBe: 0, name: given}
"""
NAMES = {
    *("rowCount", "no_twins", "none_negative", "id_unique", "total_maximum", "total_nullValues"),
    *("kind_maxLength", "kind_pattern", "known", "given"),
}

Row = tuple[int | None, float | None, str | None]


@pytest.fixture
def world(local_world: World, tmp_path: Path) -> World:
    (tmp_path / "orders.odcs.yaml").write_text(CONTRACT)
    local_world.options = {"contract": str(tmp_path / "orders.odcs.yaml")}
    return local_world


def table(*rows: Row) -> pa.Table:
    ids, totals, kinds = zip(*rows, strict=True)
    return pa.table({"id": pa.array(ids, pa.int64()), "total": pa.array(totals, pa.float64()), "kind": list(kinds)})


@pytest.mark.parametrize(
    ("rows", "broken"),
    [
        pytest.param([(1, 2.0, "web"), (2, 100.0, "web")], set(), id="good"),
        pytest.param([(n, 1.0, "web") for n in range(5)], {"rowCount"}, id="too many"),
        pytest.param([(1, 1.0, "web"), (1, -2.0, "web")], {"no_twins", "id_unique", "none_negative"}, id="twins"),
        pytest.param([(1, None, "web"), (2, 101.0, "web")], {"total_nullValues", "total_maximum"}, id="totals"),
        pytest.param(
            [(1, 1.0, "webb"), (2, 1.0, "n/a")], {"kind_maxLength", "kind_pattern", "known", "given"}, id="kinds"
        ),
        pytest.param([(1, 1.0, None)], {"given"}, id="not given"),
    ],
)
def test_each_rule_is_checked(world: World, rows: list[Row], broken: set[str]) -> None:
    world.land(NW, table(*rows))
    world.ingest(NW)

    assert failed(world).keys() == broken
    assert set(world.config.streams["sales"].checks.sql) == NAMES


def test_a_required_property_is_a_required_column(world: World) -> None:
    world.land(NW, table((None, 1.0, "web")))
    with pytest.raises(SchemaError, match=r"column 'id' .* has a row without a value"):
        world.ingest(NW)

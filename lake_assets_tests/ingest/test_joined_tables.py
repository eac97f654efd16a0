"""A transform reads other tables of the lake, in one snapshot, and a change of them may refresh its partitions."""

from typing import Any

import pytest
from pydantic import ValidationError
from pyspark.sql import DataFrame

from lake_assets.base.errors import CatalogError, TransformError
from lake_assets.config.models import LakeConfig
from lake_assets.config.sections import Transform
from lake_assets.ingest.ingest_all import ingest_all
from lake_assets.ingest.replace import replace_run
from lake_assets.streams.select import Wanted, select
from lake_assets_tests.template_lakes import create_by_copy
from lake_assets_tests.tiers import more
from lake_assets_tests.world import NW, SW, World, plan, sales

SQL = "SELECT s.id, s.total, t.name FROM source s JOIN stores t USING (id)"
JOIN = {"transform": {"sql": SQL, "tables": ["stores"], "refresh_on": ["stores"]}}
STORES = ("CREATE TABLE lake.stores (id BIGINT, name VARCHAR)", "INSERT INTO lake.stores VALUES (0, 'a'), (1, 'b')")
NAMES = "SELECT name FROM lake.sales ORDER BY region, name"


def named(frame: DataFrame, stores: DataFrame) -> DataFrame:
    """The join as a function."""
    return frame.join(stores, "id").select("id", "total", "name")


FUNCTION = {"transform": {"function": f"{__name__}:named", "tables": ["main.stores"], "refresh_on": ["main.stores"]}}


@pytest.fixture
def stores(world: World) -> World:
    return with_stores(world)


@pytest.fixture
def local_stores(local_world: World) -> World:
    return with_stores(local_world)


def with_stores(world: World) -> World:
    world.options = JOIN
    create_by_copy(world.config.lakes["test"])
    world.execute(*STORES)
    return world


@pytest.mark.parametrize("options", [JOIN, *more([FUNCTION])], ids=["sql", "function"])
def test_a_table_is_joined_and_its_change_refreshes_the_partition(stores: World, options: dict[str, Any]) -> None:
    stores.options = options
    with stores.stream.lake.open(read_only=True) as lake:
        before = lake.current_snapshot()
    row = stores.commit(NW, 1, 2)

    assert stores.query(NAMES) == [("a",), ("b",)]
    assert row.joined == f"main.stores@{before}"
    assert stores.ingest(NW).row.status == "skipped"

    stores.execute("UPDATE lake.stores SET name = 'c' WHERE id = 1")
    assert plan(stores.stream, stores.partition(NW)).decision.action == "replace"
    assert [str(p) for p in select(stores.stream, Wanted(waiting=True)).partitions] == [stores.partition(NW).path]
    assert stores.ingest(NW).row.status == "committed"
    assert stores.query(NAMES) == [("a",), ("c",)]
    assert stores.ingest(NW).row.status == "skipped"
    assert not select(stores.stream, Wanted(waiting=True)).partitions


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ("ADD COLUMN city VARCHAR DEFAULT 'x'", "b"),
        ("ALTER number TYPE BIGINT", "b"),
        ("DROP COLUMN name; ALTER TABLE lake.stores RENAME COLUMN other TO name", "z"),
    ],
)
def test_a_change_of_its_columns_refreshes_the_partition_too(local_world: World, change: str, name: str) -> None:
    local_world.options = JOIN
    create_by_copy(local_world.config.lakes["test"])
    added = (f"ALTER TABLE lake.stores ADD COLUMN {column}" for column in ("other VARCHAR DEFAULT 'z'", "number INT"))
    local_world.execute(*STORES, *added)
    local_world.commit(NW, 1, 2)
    assert local_world.ingest(NW).row.status == "skipped"

    local_world.execute(*f"ALTER TABLE lake.stores {change}".split("; "))

    assert local_world.ingest(NW).row.status == "committed"
    assert local_world.query(NAMES)[-1] == (name,)
    assert local_world.ingest(NW).row.status == "skipped"


def test_a_table_that_is_not_in_refresh_on_is_read_as_it_is_at_the_next_refresh(local_stores: World) -> None:
    local_stores.options = {"transform": {"sql": SQL, "tables": ["stores"]}}
    local_stores.commit(NW, 1)
    local_stores.execute("UPDATE lake.stores SET name = 'c'")

    assert local_stores.ingest(NW).row.status == "skipped"
    assert local_stores.ingest(NW, force=True).row.status == "committed"
    assert local_stores.query(NAMES) == [("c",)]


def test_all_partitions_of_a_run_read_a_table_in_one_snapshot(local_stores: World) -> None:
    for text in (NW, SW):
        local_stores.commit(text, 1)
    local_stores.execute("DELETE FROM lake.stores WHERE id = 1")
    outcomes = local_stores.stream.ingest([NW, SW], spark=local_stores.sessions())

    assert len({outcome.row.joined for outcome in outcomes}) == 1
    assert {outcome.row.status for outcome in outcomes} == {"committed"}


def test_a_table_that_changes_within_a_run_is_read_as_the_fingerprint_says(
    local_stores: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replace_run.ReplaceRun, "group", 1)
    for text in (NW, SW):
        local_stores.land(text, sales(1))
    partitions = [local_stores.partition(text) for text in (NW, SW)]
    for number, outcome in enumerate(ingest_all(local_stores.stream, partitions, local_stores.sessions)):
        assert outcome.error is None
        if number == 0:
            local_stores.execute("UPDATE lake.stores SET name = 'c'")

    assert local_stores.query(NAMES) == [("a",), ("c",)]
    assert [local_stores.ingest(text).row.status for text in (NW, SW)] == ["committed", "skipped"]
    assert local_stores.query(NAMES) == [("c",), ("c",)]


def test_snapshots_that_expire_and_files_that_are_merged_refresh_nothing_and_hide_no_change(stores: World) -> None:
    stores.commit(NW, 1)
    stores.commit(SW, 1)
    expire = "CALL ducklake_expire_snapshots('lake', older_than => now() + INTERVAL 1 DAY)"
    stores.execute("CALL ducklake_flush_inlined_data('lake')", expire)
    assert stores.ingest(NW).row.status == "skipped"

    stores.execute("INSERT INTO lake.stores VALUES (7, 'g')", "CALL ducklake_flush_inlined_data('lake')")
    assert stores.ingest(NW).row.status == "committed"
    stores.execute("CALL ducklake_merge_adjacent_files('lake')", expire)
    assert stores.ingest(NW).row.status == "skipped"
    stores.execute("DELETE FROM lake.stores", expire)
    stores.land(SW, sales(1, 2))
    for text in (NW, SW):
        assert plan(stores.stream, stores.partition(text)).decision.action == "replace"


def test_a_table_that_the_lake_lacks_is_an_error_of_plan_and_run(local_world: World) -> None:
    local_world.options = {"transform": {"sql": SQL, "tables": ["stores"]}}
    create_by_copy(local_world.config.lakes["test"])
    message = r"the transform of sales reads main\.stores, which the lake does not have: load that table first"
    local_world.land(NW, sales(1))
    with pytest.raises(CatalogError, match=message):
        plan(local_world.stream, local_world.partition(NW))
    with pytest.raises(CatalogError, match=message):
        local_world.ingest(NW)


def test_a_column_that_the_table_lacks_is_an_error_of_plan_and_run(local_stores: World) -> None:
    local_stores.options = {"transform": {"sql": SQL.replace("t.name", "t.nam"), "tables": ["stores"]}}
    local_stores.land(NW, sales(1))
    message = r"refused by Spark at line 1.*`t`.`nam`.*`name`.*correct transform.sql"
    with pytest.raises(TransformError, match=message):
        local_stores.stream.plan([NW])
    with pytest.raises(TransformError, match=message):
        local_stores.ingest(NW)


def test_what_another_spark_or_a_run_decides_is_left_to_it(
    local_stores: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    local_stores.land(NW, sales(1))
    for sql in (SQL, SQL.replace("t.name", "my_function(t.name) AS name"), SQL.replace("stores t", "other.stores t")):
        local_stores.options = {"transform": {"sql": sql, "tables": ["stores"]}}
        assert local_stores.stream.plan([NW]).partitions[0].decision.action == "replace"
    monkeypatch.setattr("lake_assets.spark.sql_parser.find_java", lambda: pytest.fail("a JVM was asked for"))
    local_stores.sections = {"spark": {"remote": "sc://localhost:15002"}}
    local_stores.options = {"transform": {"sql": SQL.replace("t.name", "t.nam"), "tables": ["stores"]}}
    assert local_stores.stream.plan([NW]).partitions[0].decision.action == "replace"


@pytest.mark.parametrize(
    ("transform", "message"),
    [
        ({"tables": ["stores"], "refresh_on": ["store"]}, "refresh_on has store, which is not among tables"),
        ({"tables": ["a.stores", "b.stores"]}, "two of the transform's views would be called stores"),
        ({"tables": ["source"]}, "two of the transform's views would be called source"),
        ({"tables": ["a.b.c"]}, "tables"),
        ({"tables": ["sales"]}, "the transform reads the stream's own rows, by sales <- sales"),
    ],
)
def test_tables_that_cannot_be_are_errors_of_the_config(
    local_world: World, transform: dict[str, Any], message: str
) -> None:
    local_world.options = {"transform": {"sql": "SELECT * FROM source"} | transform}
    with pytest.raises(ValidationError, match=message):
        _ = local_world.config


def test_streams_that_read_each_other_are_an_error_of_the_config(local_world: World) -> None:
    document = local_world.document
    one = document["streams"]["sales"]
    document["streams"] = {
        name: one | {"destination": {"table": name}, "transform": {"sql": "SELECT 1", "tables": [other]}}
        for name, other in (("sales", "stores"), ("stores", "MAIN.prices"), ("prices", "sales"))
    }
    with pytest.raises(ValidationError, match="by sales <- stores <- prices <- sales: remove one of these tables"):
        LakeConfig.model_validate(document)
    document["streams"]["prices"]["transform"]["tables"] = []
    LakeConfig.model_validate(document)


def test_a_transform_without_tables_has_the_fingerprint_that_it_had_before_there_were_any() -> None:
    assert Transform(sql="SELECT 1").job == {"sql": "SELECT 1", "function": None}

"""A stream's first ingest that fails binds nobody: its columns are not those of the table that the next one fills."""

from typing import Any

import pyarrow as pa
import pytest

from lake_assets.base.errors import LakeAssetsError, SchemaError
from lake_assets.ingest.replace.write_step import Writer
from lake_assets.lake.session import TableName
from lake_assets.lake.table_setup import create_table, is_never_filled
from lake_assets_tests.ingest.index.indexing import index
from lake_assets_tests.tiers import more
from lake_assets_tests.world import NW, SW, World, sales

TABLE = TableName("main", "sales")
TEXTS = pa.table({"id": [1], "total": ["wrong"], "more": [1]})


def types(world: World) -> dict[str, str]:
    return {name: kind for name, kind, *_ in world.query("DESCRIBE lake.sales")}


def never_filled(world: World) -> bool:
    with world.stream.lake.open(read_only=True) as lake:
        return is_never_filled(lake, TABLE)


def fail_and_correct(world: World) -> None:
    world.land(NW, TEXTS)
    world.land(NW, b"PAR1 no Parquet PAR1", "batch_2.parquet")
    with pytest.raises(LakeAssetsError, match=r"batch_2\.parquet"):
        world.ingest(NW)

    world.land(NW, sales(1, 2))
    world.unland(NW, "batch_2.parquet")
    world.ingest(NW)

    assert world.totals() == [1, 2]
    assert types(world) == {"id": "BIGINT", "total": "DOUBLE", "region": "VARCHAR", "date": "DATE"}


def test_the_table_is_as_the_files_that_fill_it(world: World) -> None:
    fail_and_correct(world)
    world.ingest(NW, force=True)  # by the direct strategy, where there is one
    assert world.totals() == [1, 2]


@pytest.mark.parametrize(
    "options", [{"schema_policy": "evolve"}, *more([{"transform": {"sql": "SELECT * FROM source"}}])]
)
def test_the_table_is_as_the_results_that_fill_it(local_world: World, options: dict[str, Any]) -> None:
    local_world.options = options
    fail_and_correct(local_world)


def test_an_index_makes_the_table_as_the_files_that_it_registers(local_world: World) -> None:
    local_world.options = {"mode": "index"}
    rows = TEXTS.append_column("region", pa.array(["SW"]))  # of another partition
    local_world.land(NW, rows)
    assert index(local_world)[local_world.partition(NW).path].error is not None
    assert never_filled(local_world)

    local_world.unland(NW)
    local_world.land(NW, sales(1), "right.parquet")
    index(local_world)

    assert local_world.totals() == [1]
    assert types(local_world)["total"] == "DOUBLE"
    assert not never_filled(local_world)


def test_a_table_that_was_ever_filled_or_is_anothers_keeps_its_columns(local_world: World) -> None:
    with local_world.stream.lake.open(create=True) as lake:
        with lake.transaction():
            lake.rows("CREATE TABLE lake.sales (id BIGINT, total DECIMAL(10, 2), region VARCHAR, date DATE)")
            lake.rows("ALTER TABLE lake.sales SET PARTITIONED BY (region, date)")
        assert not is_never_filled(lake, TABLE)
        table = local_world.stream.partitioned_table
        create_table(lake, table, sales(1).schema)
        assert {name: str(kind) for name, kind, *_ in lake.rows("DESCRIBE lake.sales")}["total"] == "DECIMAL(10,2)"

        lake.rows("DROP TABLE lake.sales")
        create_table(lake, table, TEXTS.schema)
        assert is_never_filled(lake, TABLE)
        lake.rows("ALTER TABLE lake.sales ADD COLUMN mine INTEGER")
        assert not is_never_filled(lake, TABLE)

        lake.rows("DROP TABLE lake.sales")
        create_table(lake, table, TEXTS.schema)
        lake.rows("INSERT INTO lake.sales VALUES (1, 'a', 1, 'NW', '2026-02-11')")
        assert not is_never_filled(lake, TABLE)
        lake.rows("DELETE FROM lake.sales")
        assert not is_never_filled(lake, TABLE)


@pytest.mark.more
def test_a_table_that_another_run_makes_otherwise_meanwhile_takes_no_files_of_the_old_one(
    local_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its files have double precision, and the table of the other run, which commits first, has single."""
    local_world.land(NW, sales(0.1))
    local_world.land(SW, pa.table({"id": [1], "total": pa.array([2.0], pa.float32())}))
    write = Writer.write
    turns: list[bool] = []

    def overtaken(writer: Writer, *arguments: Any) -> None:
        write(writer, *arguments)
        if not turns:
            turns.append(True)
            local_world.ingest(SW)

    monkeypatch.setattr(Writer, "write", overtaken)
    with pytest.raises(SchemaError, match=r"column 'total' of the object .* has a value that float cannot hold"):
        local_world.ingest(NW)

    assert local_world.totals() == [2]
    assert types(local_world)["total"] == "FLOAT"

"""Columns that the rows get: of `file_columns` their object, number and run, of `path_columns` values of the path."""

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest

from lake_assets.base.errors import SchemaError, SourceError
from lake_assets.lake.ledger.tables import LedgerRow
from lake_assets.storage.store import Store
from lake_assets.upkeep.history.restore import Restoration
from lake_assets.upkeep.maintenance.compaction import compact
from lake_assets_tests.ingest.landed_as import columns_of, types
from lake_assets_tests.ingest.lettering import BIG, NARROW, letters, wide
from lake_assets_tests.ingest.test_in_rows import TWO_WORLDS, both_in_rows, put
from lake_assets_tests.ingest.test_in_rows import rows as mixed
from lake_assets_tests.tiers import more
from lake_assets_tests.world import NW, SW, World, plan, sales

FROM = {
    "source_file": "uri",
    "source_row": "row_number",
    "source_modified": "modified",
    "loaded_at": "written_at",
    "run": "run_id",
}
ALL = {"file_columns": FROM}
PLACE = {"file_columns": {"source_file": "uri", "source_row": "row_number"}}
HOURS = {
    "layout": "region={region}/date={date}/hour={hour}/on={day}",
    "path_columns": {"hour": "integer", "day": "date"},
}
DAY = dt.date(2026, 2, 12)


def land(world: World, folder: str, rows: pa.Table, name: str = "a.parquet") -> None:
    put(world, f"region=NW/date=2026-02-11/{folder}/{name}", rows)


def origins(world: World, columns: str = "total, source_file, source_row") -> list[tuple[Any, ...]]:
    """Where each row came from; of an object its name."""
    found = columns_of(world, columns)
    return [tuple(v.rpartition("/")[2] if isinstance(v, str) else v for v in row) for row in found]


def ingested(world: World, text: str = NW, **options: Any) -> LedgerRow:
    row = world.ingest(text, **options).row
    assert row.status == "committed", row.error
    return row


def test_each_row_has_its_object_and_its_run(world: World) -> None:
    world.options = ALL
    uri = world.land(NW, sales(1, 2), "a.parquet")
    other = world.land(NW, sales(4), "b.parquet")
    modified = {obj.uri: obj.last_modified for obj in Store(world.config.streams["sales"].source).list()}

    row = ingested(world)

    found = columns_of(world, f"total, {', '.join(FROM)}")
    assert [tuple(rest[:3]) for _, *rest in found] == [
        (uri, 1, modified[uri]),
        (uri, 2, modified[uri]),
        (other, 1, modified[other]),
    ]
    assert {run for *_, run in found} == {row.run_id}
    ((last_modified, loaded_at),) = {tuple(rest[2:4]) for _, *rest in found if rest[0] == other}
    assert row.started_at <= loaded_at <= (row.finished_at or row.started_at)
    assert None not in (last_modified.tzinfo, loaded_at.tzinfo)
    kinds = {name: kind for name, kind, *_ in world.query("DESCRIBE lake.sales")}
    zoned = "TIMESTAMP WITH TIME ZONE"
    assert [kinds[name] for name in FROM] == ["VARCHAR", "BIGINT", zoned, zoned, "VARCHAR"]
    assert list(kinds)[-2:] == ["region", "date"]
    assert world.ingest(NW).row.status == "skipped"


def test_conditions_on_them_find_the_rows_by_the_statistics_of_the_catalog(world: World) -> None:
    world.options = {"mode": "append"} | ALL
    uris = []
    for number in range(3):
        uris.append(world.land(NW, sales(*range(number + 1)), f"{number}.parquet"))
        row = ingested(world)

    ((newest,),) = world.query("SELECT max(loaded_at) FROM lake.sales")
    for condition, value, count in (
        ("source_file = ?", uris[1], 2),
        ("source_row > ?", 2, 1),
        ("run = ?", row.run_id, 3),
        ("loaded_at >= ?", newest, 3),
        ("loaded_at < ?", newest, 3),
    ):
        assert world.query(f"SELECT count(*) FROM lake.sales WHERE {condition}", value) == [(count,)]
    least = world.query(
        "SELECT c.column_name, s.min_value, s.null_count FROM __ducklake_metadata_lake.ducklake_file_column_stats s "
        "JOIN __ducklake_metadata_lake.ducklake_column c USING (table_id, column_id) "
        "JOIN __ducklake_metadata_lake.ducklake_data_file f USING (data_file_id) "
        "WHERE c.column_name IN ('source_row', 'run') ORDER BY ALL"
    )
    assert [(name, nulls) for name, _, nulls in least] == [("run", 0)] * 3 + [("source_row", 0)] * 3
    assert {value for name, value, _ in least if name == "source_row"} == {"1"}


def test_the_rows_of_an_object_that_several_tasks_read_are_numbered_through(local_world: World) -> None:
    local_world.options = {"target_file_size": "1MiB", "compression": "none"} | PLACE
    ids = pa.array(range(400_000), pa.int64())
    local_world.land(NW, pa.table({"id": ids}), "a.parquet", row_group_size=50_000, use_dictionary=False)

    row = ingested(local_world)

    assert (row.files_written or 0) > 1
    assert local_world.query("SELECT count(*), count(*) FILTER (source_row = id + 1) FROM lake.sales") == [
        (400_000, 400_000)
    ]


def test_a_row_that_a_partition_selects_has_its_number_in_the_object(local_world: World) -> None:
    local_world.options = both_in_rows() | PLACE
    found = [("NW", "2026-02-11", 1.0), ("SW", "2026-02-11", 2.0), ("NW", "2026-02-12", 3.0), ("SW", "2026-02-11", 4.0)]
    put(local_world, "a.parquet", mixed(*found), row_group_size=3)

    ingested(local_world, SW)

    assert origins(local_world) == [(2, "a.parquet", 2), (4, "a.parquet", 4)]


def test_rows_beside_dead_letters_and_quarantined_objects_keep_their_numbers(local_world: World) -> None:
    local_world.land(SW, NARROW)
    local_world.options = {"on_bad_row": "dead_letter", "on_bad_object": "quarantine"} | PLACE
    ingested(local_world, SW)
    local_world.land(NW, wide(1, BIG, 2), "a.parquet")
    local_world.land(NW, b"no Parquet", "b.parquet")

    row = ingested(local_world)

    assert (row.row_count, row.rows_dead_lettered, row.files_quarantined) == (2, 1, 1)
    assert origins(local_world)[-2:] == [(1, "batch_1.parquet", 1), (2, "a.parquet", 3)]
    (letter,) = letters(local_world)
    assert (letter["_row"], letter["source_row"]) == (1, 2)


@pytest.mark.more
@pytest.mark.parametrize(
    ("form", "body"),
    [
        ("csv", b'id,total\n0,1\n1,"2"\n\n2,bad\n3,4\n'),
        ("json", b'{"id": 0, "total": 1}\n{"id": 1, "total": 2}\n\n{"id": 2, "total": bad}\n{"id": 3, "total": 4}\n'),
        (
            "json",
            b'[{"id": 0, "total": 1}, {"id": 1, "total": 2}, {"id": 2, "total": bad}, {"id": 3, "total": 4}]',
        ),
    ],
)
def test_rows_of_texts_have_them_too(local_world: World, form: str, body: bytes) -> None:
    path_columns = {"layout": "region={region}/date={date}/hour={hour}", "path_columns": {"hour": "integer"}}
    local_world.options = {"format": form, "on_bad_row": "dead_letter"} | path_columns | PLACE
    put(local_world, f"region=SW/date=2026-02-11/hour=6/a.{form}", body.replace(b"bad", b"3"))
    put(local_world, f"region=NW/date=2026-02-11/hour=7/b.{form}", body.replace(b"bad", b'"bad"'))

    ingested(local_world, SW)
    row = ingested(local_world)

    assert (row.row_count, row.rows_dead_lettered) == (3, 1)
    places = [(6, 1, 1), (6, 2, 2), (6, 3, 3), (6, 4, 4), (7, 1, 1), (7, 2, 2), (7, 4, 4)]
    assert columns_of(local_world, "hour, total, source_row") == places


@pytest.mark.parametrize("policy", ["strict", *more(["evolve", "ignore_extra"])])
def test_a_table_that_lacks_them_gets_them_and_earlier_rows_have_none(local_world: World, policy: str) -> None:
    local_world.options = {"schema_policy": policy}
    local_world.commit(SW, 1)
    local_world.commit(NW, 2, name="a.parquet")
    local_world.options |= PLACE

    planned = plan(local_world.stream, local_world.partition(NW))
    outcome = local_world.ingest(NW)

    assert (outcome.row.status, outcome.row.rows_before) == ("committed", 1)  # of the same objects
    changes = ["added column source_file VARCHAR", "added column source_row BIGINT"]
    assert list(planned.columns) == list(map(str, outcome.changes)) == changes
    assert planned.decision.action == "replace"
    assert origins(local_world) == [(1, None, None), (2, "a.parquet", 1)]
    assert local_world.ingest(NW).row.status == "skipped"


@pytest.mark.more
def test_a_transform_sees_them_and_decides_what_the_table_has(local_world: World) -> None:
    sql = "SELECT id, total, source_row * 10 AS place, run AS writer, hour + 1 AS next, region, date FROM source"
    local_world.options = {"transform": {"sql": sql}} | ALL | HOURS
    land(local_world, "hour=7/on=2026-02-12", sales(1, 2))

    row = ingested(local_world)

    assert columns_of(local_world, "place, writer, next") == [(10, row.run_id, 8), (20, row.run_id, 8)]
    assert {"source_file", "hour"}.isdisjoint(types(local_world))


def test_an_object_with_a_column_of_the_name_is_refused_also_if_it_could_be_copied(local_world: World) -> None:
    local_world.options = {"copy": "always"} | PLACE
    local_world.land(SW, sales(1))
    assert ingested(local_world, SW).files_copied == 0  # which had to be encoded
    claims = {"source_file": pa.array(["x"]), "Source_Row": pa.array([7])}
    local_world.land(NW, pa.table(dict(zip(("id", "total"), sales(2).columns, strict=True)) | claims))

    with pytest.raises(SchemaError, match="has a column 'source_file', which is one of the stream's file_columns"):
        local_world.ingest(NW)


def test_compaction_and_restore_keep_them(local_world: World) -> None:
    local_world.options = ALL
    local_world.land(NW, sales(1, 2), "a.parquet")
    first = ingested(local_world)
    columns = ", ".join(["total", *FROM])
    before = origins(local_world, columns)
    insert = "INSERT INTO lake.sales (id, total, region, date) VALUES (7, {}, 'NW', '2026-02-11')"
    local_world.execute(*(insert.format(-number) for number in (1, 2, 3)))
    (item,) = compact(local_world.stream, 3, local_world.sessions)
    assert item.why is None
    assert origins(local_world, columns)[3:] == before

    local_world.land(NW, sales(9), "b.parquet")
    ingested(local_world)
    assert first.snapshot_id is not None
    Restoration(local_world.stream, local_world.partition(NW), first.snapshot_id).run()

    assert origins(local_world, columns) == before


# Columns of the layout that are not partition columns.


@TWO_WORLDS
def test_path_columns_have_the_values_of_their_path(world: World) -> None:
    world.options = HOURS
    land(world, "hour=07/on=2026-02-12", sales(1, 2))
    land(world, "hour=8/on=__HIVE_DEFAULT_PARTITION__", sales(4), "b.parquet")
    land(world, "hour=8/on=2026-02-12", sales(5).append_column("HOUR", pa.array([9])))  # the file's own column

    row = world.ingest(NW).row

    assert (row.status, row.row_count) == ("committed", 4)
    assert columns_of(world, "total, hour, day") == [(1, 7, DAY), (2, 7, DAY), (4, 8, None), (5, 9, DAY)]
    assert columns_of(world, "DISTINCT typeof(hour), typeof(day)") == [("BIGINT", "DATE")]
    assert world.ingest(NW).row.status == "skipped"


@pytest.mark.more
def test_without_path_columns_the_columns_are_left_out_and_a_table_that_evolves_gets_them(local_world: World) -> None:
    local_world.options = {"layout": HOURS["layout"], "schema_policy": "evolve"}
    land(local_world, "hour=7/on=2026-02-12", sales(1))
    local_world.ingest(NW)
    assert list(types(local_world)) == ["id", "total"]
    local_world.options |= HOURS

    row = local_world.ingest(NW).row

    assert (row.status, row.rows_before) == ("committed", 1)  # for a fingerprint holds what is made of the objects
    assert columns_of(local_world, "hour, day, total") == [(7, DAY, 1)]


def test_a_folder_that_is_no_value_of_the_type_fails_its_partition_alone(local_world: World) -> None:
    local_world.options = HOURS
    land(local_world, "hour=noon/on=2026-02-12", sales(1))
    put(local_world, "region=SW/date=2026-02-11/hour=1/on=2026-02-12/a.parquet", sales(2))

    with pytest.raises(SourceError, match=r"hour=noon.*does not fit path_columns.*'noon' is not of type integer"):
        local_world.ingest(NW)

    assert local_world.ingest(SW).row.status == "committed"


def test_path_columns_are_those_of_the_rows_that_a_partition_chooses(local_world: World) -> None:
    local_world.options = {
        "layout": "hour={hour}",
        "path_columns": {"hour": "integer"},
        "partitions": {"region": {"in": "rows"}, "date": {"type": "date", "start": "2026-01-01", "in": "rows"}},
    }
    rows = pa.table({"total": [1.0, 2], "region": ["NW", "SW"], "date": [dt.date(2026, 2, 11)] * 2})
    put(local_world, "hour=7/a.parquet", rows)

    local_world.ingest(SW)

    assert columns_of(local_world, "hour, total") == [(7, 2)]

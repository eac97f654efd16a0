"""Which values enter a column: those that are the same afterwards; and what has no value decides nothing."""

import io
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lake_assets.errors import SourceError
from lake_assets_tests.ingest.landed_as import as_avro, as_orc, columns_of, landed, load
from lake_assets_tests.tiers import more
from lake_assets_tests.world import NW, SW, World, plan


def of(world: World, form: str = "parquet", **options: Any) -> World:
    world.options = {"format": form} | options
    return world


def parquet(rows: pa.Table) -> bytes:
    sink = io.BytesIO()
    pq.write_table(rows, sink)
    return sink.getvalue()


def of_pandas(frame: pd.DataFrame) -> bytes:
    sink = io.BytesIO()
    frame.to_parquet(sink)
    return sink.getvalue()


GOOD = {"id": 1, "note": "a"}
WITHOUT_ROWS = {
    "no columns": ("parquet", of_pandas(pd.DataFrame())),
    "other type": ("parquet", parquet(pa.table({"id": pa.array([], pa.string())}))),
    "no columns of orc": ("orc", as_orc(pa.table({}))),
    "avro": ("avro", as_avro([], [{"name": "note", "type": "string"}])),
    "header": ("csv", b"note\n"),
    "no line end": ("csv", b"note,more"),
}


@pytest.mark.parametrize("mode", ["replace", "append", *more(["evolve"])])
@pytest.mark.parametrize("what", WITHOUT_ROWS)
def test_an_object_without_rows_refuses_none_that_has_rows(local_world: World, what: str, mode: str) -> None:
    form, empty = WITHOUT_ROWS[what]
    of(local_world, form, **({"schema_policy": mode} if mode == "evolve" else {"mode": mode}))
    for text in (NW, SW):  # of a new table, and of a table
        local_world.land(text, empty, f"0.{form}")
        local_world.land(text, landed(form, GOOD), f"1.{form}")
        local_world.land(text, empty, f"2.{form}")
        assert not plan(local_world.stream, local_world.partition(text)).decision.fails
        local_world.ingest(text)
    assert columns_of(local_world, "id, note, region") == [(1, "a", "NW"), (1, "a", "SW")]


def test_an_object_without_rows_has_no_say_in_an_index(local_world: World) -> None:
    of(local_world, mode="index")
    local_world.land(NW, parquet(pa.table({"id": pa.array([], pa.string())})), "0.parquet")
    load(local_world, landed("parquet", GOOD))
    assert columns_of(local_world, "id, note") == [(1, "a")]


@pytest.mark.parametrize("form", ["orc", "avro"])
def test_an_object_of_no_bytes_is_refused_for_that_and_quarantine_leaves_it_out(local_world: World, form: str) -> None:
    of(local_world, form)
    local_world.land(NW, b"", f"0.{form}")
    with pytest.raises(SourceError, match=r"0\..* is empty \(0 bytes\)"):
        load(local_world, landed(form, GOOD))
    local_world.options["on_bad_object"] = "quarantine"
    assert local_world.ingest(NW).row.row_count == 1

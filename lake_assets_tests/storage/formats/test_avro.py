"""Avro and ORC have the same rows in any number of shares, and each row its number."""

import io
from dataclasses import replace

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import orc

from lake_assets.config.formats import AvroFormat, OrcFormat
from lake_assets.config.layout.partition import Partition, PartitionColumn
from lake_assets.config.storages import LocalStorage
from lake_assets.schema.bad_rows import ROW_NUMBER, BadRows
from lake_assets.schema.column_rules import Rules
from lake_assets.schema.fitter import Fitter, Target
from lake_assets.storage.formats import avro
from lake_assets.storage.formats.any_format import NO_COLUMNS, LandingZone
from lake_assets.storage.formats.landed_rows import LandedBatch, Part

LANDED = LandingZone(LocalStorage(path="/landing"))
SCHEMA = pa.schema([("n", pa.int64()), ("text", pa.string())])
PARTITION = Partition.of([PartitionColumn("key", "string")], {"key": "a"})
FIELDS = [{"name": "n", "type": "long"}, {"name": "text", "type": ["null", "string"]}]

rows = st.lists(st.tuples(st.integers(-(2**40), 2**40), st.none() | st.text(max_size=40)), max_size=60)


def read(
    body: bytes, form: AvroFormat | OrcFormat, parts: int, *, numbered: bool = False
) -> list[tuple[int, int, str | None]]:
    """The rows that shares have, each with the number that it has in a column, or as a dead letter."""
    found: list[tuple[int, int, str | None]] = []
    for part in range(parts):
        landed = replace(LANDED, form=form).open(pa.BufferReader(body), "o", NO_COLUMNS)
        fitter = Fitter(landed.schema, Target(SCHEMA, Rules(splits=True)), PARTITION, "the object")
        for some in landed.read(Part(part, parts), ["n", "text"], fitter, numbered=numbered):
            assert isinstance(some, LandedBatch)
            numbers = pa.array(range(some.first, some.first + some.batch.num_rows), pa.int64())
            all_bad = BadRows(some.batch.append_column(ROW_NUMBER, numbers), [])
            found += [
                (r[ROW_NUMBER], r["n"], r["text"])
                for r in (some.letters(all_bad) if some.letters else all_bad).rows.to_pylist()
            ]
    return found


def as_avro(landed: list[tuple[int, str | None]], codec: str, interval: int) -> bytes:
    file = io.BytesIO()
    schema = fastavro.parse_schema({"type": "record", "name": "row", "fields": FIELDS})
    fastavro.writer(file, schema, [{"n": n, "text": t} for n, t in landed], codec=codec, sync_interval=interval)
    return file.getvalue()


@pytest.mark.parametrize("window", [20, 4 * 2**20])
@given(
    landed=rows,
    parts=st.integers(1, 9),
    codec=st.sampled_from(["null", "deflate"]),
    interval=st.integers(1, 300),
    numbered=st.booleans(),
)
def test_avro_in_shares_has_the_rows_of_the_whole(
    window: int, landed: list[tuple[int, str | None]], parts: int, codec: str, interval: int, numbered: bool
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(avro, "_WINDOW", window)
        patch.setattr(avro, "_HEADER", 8)
        patch.setattr(avro, "_TOGETHER", window)
        found = read(as_avro(landed, codec, interval), AvroFormat(), parts, numbered=numbered)

    assert found == [(number, *row) for number, row in enumerate(landed)]


def test_orc_in_shares_has_the_rows_of_the_whole() -> None:
    landed = [(n, f"{n:>80}") for n in range(40_000)]
    file = io.BytesIO()
    orc.write_table(pa.table(list(zip(*landed, strict=True)), names=["n", "text"]), file, stripe_size=2**17)
    assert orc.ORCFile(io.BytesIO(file.getvalue())).nstripes > 2

    expected = [(number, *row) for number, row in enumerate(landed)]
    for parts, numbered in ((1, True), (2, False), (5, True)):
        assert read(file.getvalue(), OrcFormat(), parts, numbered=numbered) == expected


def test_a_wrong_marker_is_found_in_any_number_of_shares() -> None:
    body = as_avro([(n, "x" * 50) for n in range(100)], "null", 200)
    marker = body[-16:]
    place = body.index(marker, len(body) // 2)

    for parts in (1, 3):
        with pytest.raises(pa.ArrowInvalid, match="is truncated or damaged"):
            read(body[:place] + b"y" * 16 + body[place + 16 :], AvroFormat(), parts)


def test_a_marker_across_two_windows_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(avro, "_WINDOW", 24)
    body = as_avro([(n, "x" * (n % 50)) for n in range(100)], "null", 200)

    for parts in range(2, 40, 3):
        assert [number for number, _, _ in read(body, AvroFormat(), parts)] == list(range(100))

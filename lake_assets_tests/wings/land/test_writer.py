"""What `LandingWriter` writes, and when."""

import datetime as dt
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lake_assets.base.errors import LakeAssetsError, LandingError, StorageError
from lake_assets.config.sections import Landing
from lake_assets.storage.formats.records import ArrowRows
from lake_assets.wings.land.batches import BatchNames, second_of
from lake_assets.wings.land.deliver import Delivery
from lake_assets.wings.land.drain import drain, open_outputs
from lake_assets.wings.land.writer import LandingWriter
from lake_assets_tests.until import until
from lake_assets_tests.wings.land.streams import COLUMNS, files, landed_ids, rejects, rows, stream_of


def test_records_are_split_by_the_layout_and_batched_by_count(tmp_path: Path) -> None:
    table = pa.concat_tables([rows(0, 2500), rows(2500, 10, "SW"), rows(2510, 5, "NW", "2026-02-12")])
    with LandingWriter("sales", stream_of(tmp_path)) as writer:
        writer.write(table)

    result = {(str(file.parent.relative_to(tmp_path)), pq.read_metadata(file).num_rows) for file in files(tmp_path)}
    assert result == {
        ("region=NW/date=2026-02-11", 1000),
        ("region=NW/date=2026-02-11", 500),
        ("region=SW/date=2026-02-11", 10),
        ("region=NW/date=2026-02-12", 5),
    }
    assert landed_ids(tmp_path) == list(range(2515))
    landed = writer.landed()
    assert (landed.records, landed.files, landed.lost, landed.pending) == (2515, 5, 0, 0)
    assert landed.bytes == sum(file.stat().st_size for file in files(tmp_path))


def test_files_are_small_zstd_parquet_without_the_columns_of_the_path(tmp_path: Path) -> None:
    columns = {"scans": "bigint[]", "word": "string", "flag": "boolean"}
    table = rows(0, 1000).append_column("scans", pa.array([[number, number] for number in range(1000)]))
    table = table.append_column("word", pa.array(["clean", "warning"] * 500))
    with LandingWriter("sales", stream_of(tmp_path, columns=COLUMNS | columns)) as writer:
        writer.write(table.append_column("flag", pa.array([True, False] * 500)))

    group = pq.read_metadata(files(tmp_path)[0]).row_group(0)
    found = {group.column(i).path_in_schema.partition(".")[0]: group.column(i) for i in range(group.num_columns)}
    assert [*found] == ["id", "total", *columns]
    assert {found[name].compression for name in ("id", "total", "scans")} == {"ZSTD"}
    assert "RLE_DICTIONARY" in found["word"].encodings
    assert found["word"].total_compressed_size < 250
    assert pq.read_table(files(tmp_path)[0], partitioning=None)["word"].to_pylist() == ["clean", "warning"] * 500


def test_columns_of_which_arrow_makes_no_empty_arrays(tmp_path: Path) -> None:
    ids = pa.ListArray.from_arrays([0, 1, 1], pa.array([bytes(16)], pa.uuid()))
    with LandingWriter("sales", stream_of(tmp_path, columns=None)) as writer:
        writer.write(rows(0, 2).append_column("ids", ids))

    result = pq.read_table(files(tmp_path)[0], partitioning=None)["ids"]
    assert result.to_pylist() == ids.to_pylist()


def test_a_layout_by_arrival_files_late_records_under_today(tmp_path: Path) -> None:
    stream = stream_of(
        tmp_path,
        layout="region={region}/date={now(),,YY}-{now(),,MM}-{now(),,DD}",
        partitions={"region": {}, "arrival": {"type": "date", "from": "date", "start": "2026-01-01"}},
    )
    now = dt.datetime(2026, 2, 13, 23, 59, tzinfo=dt.UTC).timestamp()
    with LandingWriter("sales", stream, clock=lambda: now) as writer:
        writer.write(rows(0, 3, date="2026-02-11"))

    (file,) = files(tmp_path)
    assert file.parent == tmp_path / "region=NW" / "date=2026-02-13"
    # The event's own date is no column of this path, so it stays in the file.
    assert pq.read_table(file, partitioning=None)["date"].to_pylist() == [dt.date(2026, 2, 11)] * 3


def test_a_batch_lands_by_age_while_no_records_come(tmp_path: Path) -> None:
    with LandingWriter("sales", stream_of(tmp_path, batch={"age": 0.2})) as writer:
        writer.write(rows(0, 3).set_column(0, "region", pa.array(["NW", "NW", None])))
        writer.write(rows(3, 1, date="2020-01-01"))
        until(lambda: len(files(tmp_path)) == 2 and bool(rejects(tmp_path)), "two batches and the rejects land")
        assert landed_ids(tmp_path) == [0, 1, 2]
        assert len(rejects(tmp_path)) == 1
    assert (tmp_path / "region=__HIVE_DEFAULT_PARTITION__").is_dir()


def test_a_flush_lands_what_is_open_and_the_end_what_was_taken_also_after_an_error(tmp_path: Path) -> None:
    table = rows(10, 100)
    with suppress(RuntimeError), LandingWriter("sales", stream_of(tmp_path)) as writer:
        writer.write(rows(0, 3))
        assert files(tmp_path) == []
        writer.flush()
        assert landed_ids(tmp_path) == [0, 1, 2]
        writer.write(pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=7)))
        writer.write(rows(110, 1).to_batches()[0])
        raise RuntimeError

    assert landed_ids(tmp_path) == [0, 1, 2, *range(10, 111)]


def test_several_outputs_get_every_batch_under_the_same_name(tmp_path: Path) -> None:
    outputs = [str(tmp_path / "a"), str(tmp_path / "b")]
    with LandingWriter("sales", stream_of(tmp_path / "source", outputs=outputs)) as writer:
        writer.write(rows(0, 1500))

    names = [[file.relative_to(tmp_path / output) for file in files(tmp_path / output)] for output in "ab"]
    assert names[0] == names[1]
    assert landed_ids(tmp_path / "a") == landed_ids(tmp_path / "b") == list(range(1500))
    assert not (tmp_path / "source").exists()


def test_writers_and_threads_of_one_beside_each_other_lose_and_double_nothing(tmp_path: Path) -> None:
    stream = stream_of(tmp_path / "out", buffer={"path": str(tmp_path / "buffer")}, batch={"records": 50})

    def write(first: int) -> None:
        with LandingWriter("sales", stream) as writer, ThreadPoolExecutor(2) as threads:
            starts = range(first, first + 500, 25)
            list(threads.map(lambda start: writer.write(rows(start, 25)), starts))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(0, 2000, 500)))

    assert landed_ids(tmp_path / "out") == list(range(2000))
    assert drain("sales", stream).pending == 0


def test_a_clock_that_goes_backwards_is_reported_and_no_name_goes_back_with_it(tmp_path: Path) -> None:
    """Nor after a restart, behind the names in the buffer."""
    stream, now = stream_of(tmp_path / "out", buffer={"path": str(tmp_path / "buffer")}), [2_000_000_000.0]
    with LandingWriter("sales", stream, clock=lambda: now[0]) as writer:
        for n in range(4):
            writer.write(rows(n, 1))
            writer.flush()
            now[0] = 1_900_000_000.0
    assert "backwards" in writer.landed().warnings[0]
    found = files(tmp_path / "out")
    assert [pq.read_table(file, partitioning=None)["id"][0].as_py() for file in found] == [0, 1, 2, 3]

    with LandingWriter("sales", stream, clock=lambda: now[0]) as writer:
        writer.write(rows(4, 1))
    assert {second_of(file.name) // 100_000_000 for file in files(tmp_path / "out")} == {20}


@pytest.mark.parametrize(
    ("blocked", "kind", "message"),
    [
        ("out", StorageError, "cannot be reached"),
        ("buffer/sales/kept", LandingError, r"the buffer .* cannot be written: Not a directory"),
    ],
)
def test_an_output_without_a_buffer_or_a_buffer_that_fails_is_an_error_that_counts_what_is_lost(
    tmp_path: Path, blocked: str, kind: type[LakeAssetsError], message: str
) -> None:
    buffer = {} if blocked == "out" else {"buffer": {"path": str(tmp_path / "buffer")}}
    stream = stream_of(tmp_path / "out", retries=0, batch={"records": 10}, **buffer)
    writer = LandingWriter("sales", stream)
    writer.write(rows(0, 10))
    writer.flush()
    (tmp_path / blocked / "region=SW").write_text("in the way")
    writer.write(rows(10, 10, "SW"))

    with pytest.raises(kind, match=message):
        writer.close()

    assert (writer.landed().records, writer.landed().lost) == (10, 10)
    assert landed_ids(tmp_path / "out") == list(range(10))


def test_records_before_their_columns_are_known_are_an_error(tmp_path: Path) -> None:
    with LandingWriter("sales", stream_of(tmp_path)) as writer, pytest.raises(LandingError, match="not known yet"):
        writer.accept(ArrowRows(rows(0, 1), "x"))


def test_names_sort_by_time_within_a_second_and_beyond() -> None:
    seconds = iter([*[1_707_616_800.5] * 12, 1_707_616_801.0, 1_707_616_900.0])
    names = BatchNames("edge-7", clock=lambda: next(seconds))

    given = [names.next() for _ in range(14)]

    assert given == sorted(given)
    assert given[0] == f"batch_1707616800_0000_{names.writer}"
    assert given[11].startswith("batch_1707616800_0011_edge-7-")
    assert given[12].startswith("batch_1707616801_0000_")
    assert [second_of(name) for name in (given[12], "part-0.parquet", "batch_x_1_n.parquet")] == [1_707_616_801, 0, 0]


def test_a_full_second_goes_on_in_the_next() -> None:
    names = BatchNames("n", clock=lambda: 1_000.0)

    given = [names.next() for _ in range(10_001)]

    assert given == sorted(set(given))
    assert second_of(given[-1]) == 1_001


def test_threads_that_flush_at_the_same_time_do_not_wait_for_each_other(tmp_path: Path) -> None:
    delivery = Delivery(open_outputs(stream_of(tmp_path), Landing()), "batch_*")
    gate = threading.Event()
    arrived: list[int] = []

    def encode() -> bytes:
        gate.wait()
        return b"rows"

    for number in range(16):  # as many as may be on their way
        delivery.send(f"batch_{number}", encode, lambda _, size: arrived.append(size))
    threads = [threading.Thread(target=delivery.flush, daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    gate.set()
    for thread in threads:
        thread.join(60)

    assert not any(thread.is_alive() for thread in threads)
    assert arrived == [len(b"rows")] * 16
    delivery.close()

"""What a look at a long ledger or manifest reads: a small part of the files, in which most rows are.

`end_to_end/test_counts.py` counts what commands ask the catalog for.
"""

import datetime as dt
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from lake_assets.lake.ducklake import DuckLake
from lake_assets.lake.ledger import flush
from lake_assets.lake.ledger.object_history import known_objects, registered_objects
from lake_assets.lake.ledger.read import last_runs, partitions_in_ledger, read_ledger, recorded_commits
from lake_assets.lake.ledger.tables import LEDGER, LEDGER_COLUMNS, MANIFEST, create_ledger
from lake_assets.lake.session import LakeSession, TableName
from lake_assets_tests.world import World

ROWS = 20_000  # of ledger and manifest, nine tenths of them in the first of two files
EACH = 10  # rows of a partition
PART = 0.25  # of the bytes of all files, at most
START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
TABLE = TableName("main", "sales")
PATH = "region=R00000/date=2026-02-11"
LAST = ROWS - ROWS // EACH  # the number of the newest run of this partition


def fill(world: World) -> None:
    """A ledger of a run a second, and a manifest of an object each."""
    at = f"TIMESTAMPTZ '{START}' + to_seconds(n)"
    partition = f"'region=R' || lpad((n % {ROWS // EACH})::VARCHAR, 5, '0') || '/date=2026-02-11'"
    row = {
        "run_id": "'run-' || n",
        "stream": "'sales'",
        "destination_table": f"'{TABLE}'",
        "mode": "'index'",
        "load_partition": partition,
        "status": "'committed'",
        "row_count": "n",
        "snapshot_id": "1",
        "source_fingerprint": "md5(n::VARCHAR)",
        "etag": "'e'",
        "size": "1",
        **dict.fromkeys(["run_at", "started_at", "finished_at", "last_modified"], at),
        "uri": f"'/landing/' || {partition} || '/' || lpad(n::VARCHAR, 6, '0') || '.parquet'",
    }
    with DuckLake(world.config.lakes["test"]).open(create=True) as lake:
        create_ledger(lake)
        # More than 1,000 rows of one statement are not inlined: DuckLake writes them into a file, in the table's order.
        for own, columns in ((LEDGER, LEDGER_COLUMNS), (MANIFEST, MANIFEST.columns)):
            table, values = own.name(lake.config), ", ".join(f"{row.get(name, 'NULL')} AS {name}" for name in columns)
            flush._arrange(lake, table, own.order)
            for part in ([0, LAST], [LAST, ROWS]):
                lake.rows(f"INSERT INTO {table.sql} SELECT {values} FROM range(?, ?) AS r(n)", part)


def looks(world: World) -> Mapping[str, Callable[[LakeSession], bool]]:
    """Each look, and whether it finds what it should."""
    partition = world.partition(PATH.replace("/", ","))
    newest = START + dt.timedelta(seconds=ROWS - 1)
    wanted = [f"/landing/{PATH}/000000.parquet", f"/landing/{PATH}/other.parquet"]
    return {
        "runs": lambda lake: [runs.rows for runs in last_runs(lake, TABLE, [partition]).values()] == [LAST],
        "fingerprint": lambda lake: recorded_commits(lake, TABLE, [partition]).keys() == {PATH},
        "is known": lambda lake: partitions_in_ledger(lake, TABLE, [PATH, f"{PATH}/x"]) == {PATH},
        "of a partition": lambda lake: [r.row_count for r in read_ledger(lake, load_partition=PATH, limit=1)] == [LAST],
        "newest": lambda lake: [r.row_count for r in read_ledger(lake, limit=2)] == [ROWS - 1, ROWS - 2],
        "since": lambda lake: len(read_ledger(lake, since=newest - dt.timedelta(seconds=4))) == 5,
        "before": lambda lake: read_ledger(lake, until=START) == [],
        "objects": lambda lake: len(known_objects(lake, "sales", TABLE, [PATH])) == EACH,
        "registered": lambda lake: registered_objects(lake, wanted).keys() == {wanted[0]},
    }


@pytest.mark.more
def test_looks_read_a_small_part_of_the_files(local_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flush, "_OPTIONS", {"parquet_row_group_size": 2_048})
    fill(local_world)
    parts = {}
    for name, look in looks(local_world).items():
        with DuckLake(local_world.config.lakes["test"]).open(read_only=True) as lake:
            lake.engine.execute("SET enable_external_file_cache = false")
            lake.engine.execute("CALL enable_logging('FileSystem')")
            assert look(lake), name
            assert not lake.is_attached
            parts[name] = part_read(lake)

    assert {name: part for name, part in parts.items() if part > PART} == {}


def part_read(lake: LakeSession) -> float:
    """The part of the bytes of a table's files that DuckDB has read."""
    lake.engine.execute("CALL disable_logging()")
    reads = lake.engine.execute(
        "SELECT path, sum(bytes) FROM duckdb_logs_parsed('FileSystem') "
        "WHERE op = 'READ' AND path LIKE '%.parquet' GROUP BY ALL"
    ).fetchall()
    files = {file for path, _ in reads for file in Path(path).parent.iterdir()}
    return float(sum(size for _, size in reads)) / max(1, sum(file.stat().st_size for file in files))

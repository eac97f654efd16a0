"""The tables of the benchmark of table sizes are as large as it says, and filled by commits of this package."""

from pathlib import Path

from dev.benchmarks.table_size import _append_ledger, _register, _small_files, _stream
from lake_assets.lake.ledger.tables import LEDGER


def test_the_table_has_the_files_and_the_ledger_the_rows(tmp_path: Path) -> None:
    catalog = {"type": "sqlite", "path": str(tmp_path / "catalog.sqlite")}
    stream = _stream(tmp_path, catalog, _small_files(tmp_path / "filling", 25), mode="index")

    _register(stream, 25)
    _append_ledger(stream, 250)

    with stream.lake.open() as lake:
        files = lake.rows("SELECT count(*) FROM ducklake_list_files('lake', 'sales')")
        ledger = LEDGER.name(lake.config).sql
        by_status = lake.rows(f"SELECT status, count(*) FROM {ledger} GROUP BY status ORDER BY status")
        messages = lake.rows("SELECT DISTINCT commit_message FROM lake.snapshots() WHERE commit_message IS NOT NULL")
        partitions = lake.rows("SELECT count(DISTINCT (region, date)) FROM lake.sales")
    assert files == [(25,)]
    assert partitions == [(3,)]
    assert by_status == [("committed", 3), ("skipped", 250)]
    assert any("3 partitions: index by run" in message for (message,) in messages)

"""Land TPC-H's `lineitem`, an object a partition. It runs in the environment of the peer DuckDB.

python -m dev.benchmarks.tpch.dbgen SCALE month|day FOLDER
"""

import sys
from pathlib import Path

import duckdb

from dev.benchmarks.peers.scripts.duckdb import extension

DATES = {"month": ("ship_month", "date_trunc('month', l_shipdate)::DATE"), "day": ("ship_date", "l_shipdate")}


def land(scale: str, by: str, folder: Path) -> None:
    """Generate the rows, and write them by ship mode and date."""
    name, date = DATES[by]
    scratch = folder.with_suffix(".duckdb")
    with duckdb.connect(scratch) as client:
        client.execute(f"LOAD '{extension('tpch')}'")
        client.execute(f"CALL dbgen(sf => {scale})")
        client.execute("SET threads = 1")  # one file for each partition
        client.execute(
            f"COPY (SELECT *, l_shipmode AS ship_mode, {date} AS {name} FROM lineitem ORDER BY ship_mode, {name})"
            f" TO '{folder}' (FORMAT parquet, COMPRESSION zstd, PARTITION_BY (ship_mode, {name}))"
        )
    scratch.unlink()
    # DuckDB encodes the space, and the peers write values into paths as they are.
    for path in folder.glob("*%20*"):
        path.rename(path.with_name(path.name.replace("%20", " ")))


if __name__ == "__main__":
    land(sys.argv[1], sys.argv[2], Path(sys.argv[3]))

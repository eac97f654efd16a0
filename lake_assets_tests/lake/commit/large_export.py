"""A process that replaces a large partition by other rows with `deltas`, and prints its peak memory in MB.

python -m lake_assets_tests.lake.commit.large_export WORLD.json ROWS MEMORY_LIMIT
"""

import json
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import duckdb
import numpy as np
import pyarrow as pa

from lake_assets.lake import ducklake
from lake_assets_tests.faults import writer
from lake_assets_tests.memory import peak
from lake_assets_tests.world import NW, World


def main() -> None:
    fields, rows, limit = json.loads(Path(sys.argv[1]).read_text()), int(sys.argv[2]), sys.argv[3]
    world = World(**fields, sessions=lambda: None)  # type: ignore[arg-type, return-value]
    engine, put, seeds = vars(ducklake)["open_engine"], writer.put, iter(range(10))

    def limited(*arguments: Any, **options: Any) -> duckdb.DuckDBPyConnection:
        connection: duckdb.DuckDBPyConnection = engine(*arguments, **options)
        connection.execute(f"SET memory_limit = '{limit}'")
        return connection

    def large(world: World, text: str, _: pa.Table) -> str:
        columns = [pa.array(np.arange(rows)), pa.array(np.random.default_rng(next(seeds)).random(rows))]
        return put(world, text, pa.table(columns, schema=writer.SCHEMA))

    with mock.patch.object(ducklake, "open_engine", limited), mock.patch.object(writer, "put", large):
        writer.make_table(world)
        for _ in range(2):
            writer.write(world, NW)
    print(peak())  # noqa: T201 - the parent reads it


if __name__ == "__main__":
    main()

"""A process that changes the columns of a lake's table, to be killed.

    python -m lake_assets_tests.faults.evolver WORLD.json STATEMENT

It dies at this statement of the change.
"""

import json
import sys
from pathlib import Path

import pyarrow as pa

from lake_assets.lake.schema.evolve import evolve_table
from lake_assets.lake.session import LakeSession
from lake_assets_tests.faults.writer import deadly
from lake_assets_tests.world import World

LANDED = pa.schema(
    [
        ("id", pa.int64()),
        ("point", pa.struct([("x", pa.int64()), ("deep", pa.list_(pa.struct([("y", pa.string())])))])),
        ("note", pa.string()),
    ]
)


def main() -> None:
    file, statement = sys.argv[1:]
    world = World(**json.loads(Path(file).read_text()), sessions=lambda: None)  # type: ignore[arg-type, return-value]
    stream = world.stream
    with stream.lake.open() as lake:
        session = LakeSession(lake.config, deadly(lake.connection, statement))
        evolve_table(session, stream.table, [("an object", LANDED)], stream.config.columns, "a run")


if __name__ == "__main__":
    main()

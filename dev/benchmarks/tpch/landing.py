"""The landing zone: one object a partition, of which some are restated."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow.parquet as pq

from dev.benchmarks.peers.catalogue import PEERS
from dev.benchmarks.peers.compare import Landed
from dev.benchmarks.peers.environments import ROOT, python_of
from dev.benchmarks.peers.serve import Values
from dev.benchmarks.tpch.dbgen import DATES

Put = Callable[[str, Path], object]  # a key, and the file with its bytes


class Lineitem:
    """Objects that are hard links to the generated ones until their partition is restated."""

    def __init__(self, generated: Path, date: str, put: Put | None = None) -> None:
        """Read the generated partitions.

        Args:
            generated: `ship_mode=…/<date>=…/*.parquet`.
            date: the second partition column.
            put: lands a file in a bucket too, for the peers; the rows are compared with the local ones.
        """
        self._put = put
        self._generated = generated
        self.date = date
        self.landed = Landed(generated.with_name("landing"), {"ship_mode": "string", date: "date"})
        paths = sorted(generated.glob("*/*/*.parquet"))
        self._objects = {tuple(part.partition("=")[2] for part in path.parts[-3:-1]): path for path in paths}
        # Of each partition and version; a restated one has other values too, and a row less with each version.
        self.rows = {key: [pq.read_metadata(path).num_rows] for key, path in self._objects.items()}

    @classmethod
    def generate(cls, folder: Path, scale: float, by: str, put: Put | None = None) -> "Lineitem":
        """Generate the rows unless an earlier run has."""
        generated, complete = (
            folder / f"lineitem-{scale:g}-{by}" / "generated",
            folder / f"lineitem-{scale:g}-{by}-complete",
        )
        if not complete.exists():
            shutil.rmtree(generated.parent, ignore_errors=True)
            generated.parent.mkdir(parents=True)
            command: list[str | Path] = [
                python_of(PEERS["duckdb"]),
                "-m",
                "dev.benchmarks.tpch.dbgen",
                f"{scale:g}",
                by,
                generated,
            ]
            subprocess.run(command, cwd=ROOT, check=True)
            complete.touch()
        return cls(generated, DATES[by][0], put)

    @property
    def partitions(self) -> list[Values]:
        """All of them, in order."""
        return [dict(zip(self.landed.columns, key, strict=True)) for key in self._objects]

    def every(self, step: int, first: int = 0) -> list[Values]:
        """Each so many-th partition."""
        return self.partitions[first::step]

    def reset(self) -> None:
        """Land the generated objects."""
        shutil.rmtree(self.landed.folder, ignore_errors=True)
        for key, path in self._objects.items():
            place = self._place(key)
            place.parent.mkdir(parents=True)
            os.link(path, place)
            del self.rows[key][1:]
        self._upload(self._objects)

    def _upload(self, keys: Iterable[tuple[str, ...]]) -> None:
        if put := self._put:
            places = [self._place(key) for key in keys]
            with ThreadPoolExecutor(8) as pool:
                list(pool.map(lambda place: put(str(place.relative_to(self.landed.folder)), place), places))

    def restate(self, partitions: Sequence[Values]) -> None:
        """Land other rows in place of these partitions' objects."""
        for partition in partitions:
            key = tuple(partition.values())
            version, place = len(self.rows[key]), self._place(key)
            rows = pq.ParquetFile(self._objects[key]).read().slice(min(version, self.rows[key][0] - 1))
            flags = rows.column_names.index("l_returnflag")
            rows = rows.set_column(flags, "l_returnflag", [[str(version)] * rows.num_rows])
            place.unlink()  # the generated object is the same file
            pq.write_table(rows, place, compression="zstd")
            self.rows[key].append(rows.num_rows)
        self._upload(tuple(partition.values()) for partition in partitions)

    def an_order(self) -> tuple[Values, int]:
        """A partition in the middle, and the key of an order in it."""
        key = list(self._objects)[len(self._objects) // 2]
        orders = pq.read_table(self._objects[key], columns=["l_orderkey"], partitioning=None)["l_orderkey"]
        return dict(zip(self.landed.columns, key, strict=True)), orders[len(orders) // 2].as_py()

    def wrong(self, counts: Sequence[Sequence[str]], *also: int, restated: Sequence[Values] = ()) -> int:
        """The partitions of which a reader has found neither the old nor the new rows.

        Args:
            counts: the values and the number of rows of each partition that it has found.
            also: other numbers of rows that are right: 0 if a partition may lack.
            restated: the partitions that may still have the rows of before.
        """
        old = {tuple(partition.values()) for partition in restated}
        found = {tuple(values): int(count) for *values, count in counts}
        right = ((key, {*rows[-2 if key in old else -1 :], *also}) for key, rows in self.rows.items())
        return sum(found.pop(key, 0) not in numbers for key, numbers in right) + len(found)

    def _place(self, key: tuple[str, ...]) -> Path:
        names = (f"{name}={value}" for name, value in zip(self.landed.columns, key, strict=True))
        return self.landed.folder.joinpath(*names, self._objects[key].name)

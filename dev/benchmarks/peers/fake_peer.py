"""A peer for the tests: its table is a copy of the landed files. `FAKE_PEER` makes it wrong in one way."""

import os
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from dev.benchmarks.peers.serve import How, Peer, Values, serve


class FakePeer(Peer):
    """Copies files."""

    distributions = ("pyarrow",)

    def create(self) -> None:
        """Print, as libraries do; it must not get into the replies."""
        print("a greeting")  # noqa: T201

    def open(self) -> None:
        """Nothing to do."""

    def _folder(self, partition: Values) -> Path:
        return self.place.folder.joinpath("table", *(f"{name}={value}" for name, value in partition.items()))

    calls = 0

    def refresh(self, partition: Values) -> None:
        """Copy the objects, and be wrong if asked."""
        self.calls += 1
        how, first = os.environ.get("FAKE_PEER", ""), not self._folder(partition).parent.exists()
        if not first and (
            how == "refuses after the first time" or (how == "refuses every other time" and self.calls % 2)
        ):
            raise RuntimeError("a conflict")
        folder = self._folder(partition)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for path in map(Path, self.place.objects(partition)):
            shutil.copy(path, folder / f"{path.stem}.copying")
            (folder / f"{path.stem}.copying").rename(folder / path.name)
        self._wrong(how, folder)

    def _wrong(self, how: str, folder: Path) -> None:
        first = min(folder.iterdir())
        match how:
            case "loses a row":
                pq.write_table(pq.ParquetFile(first).read().slice(1), first)
            case "doubles a row":
                rows = pq.ParquetFile(first).read()
                pq.write_table(rows.take([0, *range(1, rows.num_rows - 1), 0]), first)
            case "changes a value":
                rows = pq.ParquetFile(first).read()
                position = rows.column_names.index("city")
                column = rows["city"].to_pylist()
                pq.write_table(rows.set_column(position, "city", [["Elsewhere", *column[1:]]]), first)
            case "refuses":
                raise RuntimeError("not today")
            case "ends":
                sys.stderr.write("out of memory\n")
                os._exit(3)
            case "hangs":
                time.sleep(600)
            case "works":
                end = time.process_time() + 0.3
                while time.process_time() < end:
                    pass

    def refresh_all(self, partitions: Sequence[Values], how: How) -> None:
        """One after the other, if it has such an operation."""
        if os.environ.get("FAKE_PEER") == "one by one":
            super().refresh_all(partitions, how)
        for partition in partitions:
            self.refresh(partition)

    def query(self, sql: str, columns: Sequence[str], where: str) -> list[tuple[Any, ...]]:
        """The number of rows of each partition, whatever is asked."""
        files = Path(self.place.folder, "table").glob("*/*/*.parquet")
        return [
            (*(part.partition("=")[2] for part in file.parts[-3:-1]), pq.read_metadata(file).num_rows) for file in files
        ]

    def fill(self, files: Sequence[str], partitions: Sequence[Values]) -> None:
        """Links."""
        for file, partition in zip(files, partitions, strict=True):
            self._folder(partition).mkdir(parents=True, exist_ok=True)
            (self._folder(partition) / Path(file).name).hardlink_to(file)

    def count(self, partition: Values) -> int:
        """Of the files that are there."""
        return sum(pq.read_metadata(path).num_rows for path in self._folder(partition).glob("*.parquet"))

    def read_back(self, file: Path) -> str:
        """The files themselves."""
        return f"{self.place.folder}/table/*/*/*.parquet"


if __name__ == "__main__":
    serve(FakePeer)

"""This package with `copy: always`: the landed objects become data files by a copy of their bytes."""

from typing import ClassVar

from dev.benchmarks.peers.scripts.ours import Ours
from dev.benchmarks.peers.serve import Values, serve
from lake_assets.ingest.ingest_all import ingest
from lake_assets.ingest.outcome import IngestOptions


class Copied(Ours):
    """As `Ours`, but nothing is encoded."""

    copying: ClassVar[str] = "always"

    def refresh(self, partition: Values) -> None:
        """From listing to commit.

        Raises:
            RuntimeError: a file was encoded, so the figures would not be those of copying.
        """
        result = ingest(self.stream, self._partition(partition), lambda: self.spark, IngestOptions(force=True))
        copied, written = result.row.files_copied, result.row.files_written
        if copied != written:
            raise RuntimeError(f"{copied} of {written} files were copied: {dict(result.not_copied)}")


if __name__ == "__main__":
    serve(Copied)

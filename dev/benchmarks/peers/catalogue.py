"""The peers: their names, how each refreshes a partition, and which guarantees it gives."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

LOCKS = Path(__file__).parent / "locks"
OURS = "ours"
COPIED = "ours_copied"  # takes part in the refreshes of one partition only


@dataclass(frozen=True, slots=True)
class PeerKind:
    """A peer of the benchmark."""

    title: str
    refresh: str  # how it replaces a partition
    module: str  # of its script
    lock: Path | None  # what its environment is made of; None: the environment of this package

    @property
    def is_ours(self) -> bool:
        """Whether it is this package."""
        return self.lock is None


def _kind(title: str, refresh: str, name: str) -> PeerKind:
    return PeerKind(
        title, refresh, f"{__package__}.scripts.{name}", None if name in (OURS, COPIED) else LOCKS / f"{name}.lock"
    )


PEERS: Mapping[str, PeerKind] = {
    OURS: _kind("lake_assets", "`ingest`", OURS),
    COPIED: _kind("lake_assets, copied", "`copy: always`", COPIED),
    "deltalake": _kind("deltalake", "`overwrite` with a predicate", "deltalake"),
    "duckdb": _kind("DuckDB on DuckLake", "`DELETE` and `INSERT`", "duckdb"),
    "pyiceberg": _kind("PyIceberg", "`overwrite` with a filter", "pyiceberg"),
    "spark": _kind("Spark", "dynamic partition overwrite", "spark"),
    "dlt": _kind("dlt to DuckLake", "`merge`, delete-insert", "dlt"),
}
"""All peers by name, in the order in which they take turns."""

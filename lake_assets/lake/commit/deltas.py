"""The exported changes of a commit: their files, and the rows of the manifest that make these visible."""

import datetime as dt
import hashlib
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from lake_assets.config.lake import Lake
from lake_assets.config.sections import Deltas
from lake_assets.documented import Documented
from lake_assets.lake.failures import catalog_location
from lake_assets.lake.ledger.tables import Values
from lake_assets.lake.session import TableName

LATEST = "_latest.json"


@dataclass(frozen=True, slots=True)
class Export:
    """Where and how a commit exports its changes."""

    deltas: Deltas
    target_file_size: int  # bytes
    streams: tuple[str, ...]  # the names of the stream, the present one first


@dataclass(frozen=True, slots=True)
class DeltaFile(Documented):
    """A file of exported changes."""

    uri: str
    """Its path or URI."""
    rows_inserted: int
    """Rows that the commit inserted."""
    rows_deleted: int
    """Rows that the commit deleted."""
    size: Annotated[int, Field(serialization_alias="bytes")]
    """Its size in bytes."""


@dataclass(frozen=True, slots=True)
class Delta:
    """The exported changes of the commit that becomes one snapshot; no other commit may have them."""

    snapshot_id: int
    committed_at: dt.datetime
    files: Sequence[DeltaFile] = ()

    @property
    def values(self) -> list[Values]:
        """A row of the manifest of deltas for each file, without the columns of the ledger."""
        return [(self.committed_at, f.uri, f.rows_inserted, f.rows_deleted, f.size) for f in self.files]


def table_tag(lake: Lake, table: TableName) -> str:
    """Return a short text in the names of a table's exported files, so that maintenance of another lake leaves them."""
    return hashlib.sha256(f"{catalog_location(lake)}\n{table}".lower().encode()).hexdigest()[:8]


def file_prefix(tag: str, snapshot: int, moment: dt.datetime) -> str:
    """Return the beginning of the names of one attempt's files. Names sort by time, then by snapshot."""
    return f"{moment.astimezone(dt.UTC):%Y%m%dT%H%M%S.%fZ}-{snapshot:012d}-{tag}-{secrets.token_hex(4)}"


def file_pattern(tag: str) -> re.Pattern[str]:
    """Return the names of a table's exported files."""
    return re.compile(rf"\d{{8}}T\d{{6}}\.\d{{6}}Z-\d{{12,}}-{tag}-[0-9a-f]{{8}}-\d{{3,}}\.parquet")

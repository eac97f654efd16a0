"""What a lake has of streams that the config does not have: their tables, and commits under other names."""

import datetime as dt
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lake_assets.base.json_dataclasses import Documented
from lake_assets.config.lake import Lake
from lake_assets.config.models import LakeConfig
from lake_assets.lake.catalog.table import named_since
from lake_assets.lake.ducklake import DuckLake
from lake_assets.lake.ledger.read import filled_tables
from lake_assets.lake.session import LakeSession, TableName
from lake_assets.streams.stream import OpenStream, open_streams

_PAGE = "docs/how-to/rename-or-retire-a-stream.md"


@dataclass(frozen=True, slots=True)
class FormerStream(Documented):
    """Commits to a table that are of no stream of the config."""

    lake: str
    """Its name in the config."""
    table: str
    """With its schema, such as `main.sales`."""
    stream: str
    """The name of the stream that made them; of a table that no stream fills, of the last one."""
    filled_by: str | None
    """The stream that fills the table now; null if the config has none."""
    is_known: bool
    """Whether the config has a stream that has this name, or had it."""
    committed_at: dt.datetime | None
    """When the newest of them was made, with a time zone."""

    def __str__(self) -> str:
        previously = f"`previously: [{self.stream}]`"
        if self.filled_by is not None:
            return (
                f"lake {self.lake}: {self.table} has commits of a stream {self.stream}, and {self.filled_by} fills it: "
                f"if that is its new name, write {previously} at streams.{self.filled_by}."
            )
        renamed = "" if self.is_known else f"if it has a new name, write {previously} there; else "
        return (
            f"lake {self.lake}: {self.table}, which {self.stream} filled last, is the table of no stream: {renamed}"
            f"keep or drop the table as {_PAGE} describes."
        )


def former_streams(config: LakeConfig, *, at_hand: bool = False) -> list[FormerStream]:
    """Return the commits in a config's lakes that are of none of its streams; of each lake the newest last.

    Tables that were dropped or renamed since are left out. With `at_hand`, only lakes are read that no server and no
    other process can keep from it: SQLite with a folder.
    """
    lakes = {name: lake for name, lake in config.lakes.items() if not at_hand or _is_at_hand(lake)}
    streams, former = open_streams(config).values(), list[FormerStream]()
    for name, lake in lakes.items():
        with DuckLake(lake).open_if_exists() as session:
            if session is not None:
                former += _former(name, session, [stream for stream in streams if stream.lake_name == name])
    return former


def _is_at_hand(lake: Lake) -> bool:
    file = lake.catalog.file
    is_file = file is not None and lake.catalog.takes_several and file.exists()
    return is_file and lake.storage is not None and lake.storage.is_local


def _former(lake: str, session: LakeSession, streams: Sequence[OpenStream]) -> Iterable[FormerStream]:
    fillers = {str(stream.table).lower(): stream for stream in streams}
    names = {name for stream in streams for name in stream.names}
    newest: dict[tuple[str, str | None], FormerStream] = {}
    for row in filled_tables(session):
        filler = fillers.get(row.destination_table.lower())
        schema, _, name = row.destination_table.partition(".")
        table = TableName(schema, name, session.alias)
        is_own = filler is not None and row.stream in filler.names
        if is_own or not session.exists(table) or row.snapshot < named_since(session, table):
            continue
        by, taken_from = (None, None) if filler is None else (filler.name, row.stream)
        newest.pop((str(table), taken_from), None)
        newest[str(table), taken_from] = FormerStream(
            lake, str(table), row.stream, by, row.stream in names, row.finished_at
        )
    return newest.values()

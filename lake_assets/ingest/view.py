"""A partition after its commit, for people: columns, number of rows, and a preview."""

import dataclasses
from collections.abc import Callable, Mapping

from lake_assets.base.errors import LakeAssetsError
from lake_assets.base.texts import visible_name
from lake_assets.config.layout.partition import Partition
from lake_assets.ingest.outcome import Outcome
from lake_assets.lake.catalog.past_partitions import counted_rows, partition_condition
from lake_assets.lake.catalog.preview import PREVIEW_CHARACTERS, PREVIEW_ROWS, PartitionView, view_of_files
from lake_assets.lake.session import LakeSession, TableName
from lake_assets.storage.formats.parquet_files import column_descriptions
from lake_assets.storage.manifest import Manifest
from lake_assets.storage.store import Store
from lake_assets.streams.stream import OpenStream

PREVIEWS = 20  # of a run: reading rows takes longer than a small commit


class Viewer:
    """Views the partitions of a run, the first ones with a preview."""

    def __init__(self, stream: OpenStream, warn: Callable[[str], None]) -> None:
        self._stream = stream
        # Is called with a text if a partition cannot be read. Its commit is done, with or without a preview.
        self._warn = warn
        self._viewed = 0
        self._last: PartitionView | None = None
        self._descriptions: Mapping[str, str] | None = None  # None: not read yet

    def viewed(self, outcome: Outcome) -> Outcome:
        """Return the outcome with a view of the partition, if it is done and can be read."""
        return dataclasses.replace(outcome, view=self._view(outcome)) if outcome.is_done else outcome

    def _view(self, outcome: Outcome) -> PartitionView | None:
        self._viewed += 1
        partition, rows = outcome.partition, outcome.row.rows_after
        if self._viewed > PREVIEWS:
            return self._last and self._last.without_preview(rows)
        view = None
        try:
            with self._stream.lake.open(read_only=True) as lake:
                view = view_partition(lake, self._stream.table, partition, rows)
        except LakeAssetsError as error:
            self._warn(f"No preview of {visible_name(str(partition))}: {error}")
        if view is not None:
            view = dataclasses.replace(view, descriptions=self._described(outcome.manifest, view))
        self._last = view or self._last
        return view

    def _described(self, manifest: Manifest, view: PartitionView) -> Mapping[str, str]:
        """Return the descriptions of the columns; the footer of one landed object is read for it, once in a run."""
        if self._descriptions is None and (manifest.read or not self._reads_footers):
            self._descriptions = self._read_descriptions(manifest, view)
        return self._descriptions or {}

    @property
    def _reads_footers(self) -> bool:
        config = self._stream.config
        return config.format.has_statistics and config.transform is None  # with one, the landed columns are others

    def _read_descriptions(self, manifest: Manifest, view: PartitionView) -> dict[str, str]:
        configured = {name.lower(): text for name, text in self._stream.config.column_descriptions.items()}
        if unknown := sorted(configured.keys() - {name.lower() for name, _ in view.columns}):
            self._warn(
                f"streams.{self._stream.name}.columns describes {', '.join(map(visible_name, unknown))}, which the "
                f"table {self._stream.table} does not have: remove it, or correct the name."
            )
        landed: dict[str, str] = {}
        if self._reads_footers:
            try:
                described = column_descriptions(Store(self._stream.config.source), manifest.read[0].key)
                names = {source.lower(): name.lower() for name, source in self._stream.landed.rules.sources.items()}
                landed = {names.get(name, name): text for name, text in described.items()}
            except LakeAssetsError as error:
                self._warn(f"No descriptions of columns: {error}")
        return landed | configured


def view_partition(
    session: LakeSession, table: TableName, partition: Partition, rows: int | None = None
) -> PartitionView | None:
    """Read the columns, the number of rows and a preview of a partition; None if the table does not exist.

    `rows` is its number of rows, if that is known from its commit; they are counted otherwise.
    """
    seen = view_of_files(session, table, partition)
    if seen is not None and rows is not None:
        seen = dataclasses.replace(seen, rows=rows)
    if seen is not None and seen.preview is not None:
        return seen
    condition, parameters = partition_condition(partition)
    if seen is not None:
        columns, rows = seen.columns, seen.rows
    else:
        if not session.exists(table):
            return None
        columns = tuple((name, sql) for name, sql, *_ in session.rows(f"DESCRIBE {table.sql}"))
        if rows is None:
            rows = counted_rows(session, table, [partition])[partition]
    # DuckDB casts and cuts: any type has a text, and long values are not fetched.
    preview = session.rows(
        f"SELECT left(COLUMNS(*)::VARCHAR, {PREVIEW_CHARACTERS + 1}) FROM {table.sql} "  # noqa: S608 - quoted names
        f"WHERE {condition} LIMIT {PREVIEW_ROWS}",
        parameters,
    )
    return PartitionView(columns, rows, tuple(preview))

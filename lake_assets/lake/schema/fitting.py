"""Whether a landed file is one that every reader of the lake reads rightly as it is, for nothing of it is rewritten."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from lake_assets.duckdb_engine import glob_literal, identifier
from lake_assets.errors import SchemaError
from lake_assets.lake.catalog.footers import Footer
from lake_assets.lake.schema.paths import says
from lake_assets.lake.schema.types import PARTITION_ARROW_TYPES, is_read_as
from lake_assets.lake.session import LakeSession, translated
from lake_assets.layout.derived import Derived
from lake_assets.layout.partition import Partition, PartitionColumn
from lake_assets.layout.template import Template
from lake_assets.parquet.derived_columns import Made, made_of
from lake_assets.parquet.empty_columns import without_values
from lake_assets.parquet.schema_fit import Fitter, widens
from lake_assets.storage.store import LandedObject

_ROWS = 131_072  # of a batch
TOO_EARLY = ("INT32", "5877642-06-23 (BC)")
"""The text of a day that DuckDB writes and cannot read: in the catalog's statistics it would fail each query."""

Folders = frozenset[tuple[str, str]]
"""Partition columns, in lower case, each with the name of the folder that says it in the path."""

SchemaOf = Callable[[LandedObject], pa.Schema]
"""Reads the Arrow schema of a landed object; raises SourceError."""


@dataclass(frozen=True, slots=True)
class View:
    """How readers see a file's partition columns."""

    inside: frozenset[str]  # those that they take from the file, in lower case; the others from its path
    folders: Folders  # of the others, those whose folder has another name than the column
    ignored: frozenset[str]  # names in the file of those that they take from the path all the same


@dataclass(frozen=True, slots=True)
class Keys:
    """The partition columns of landed files."""

    columns: Sequence[PartitionColumn]
    layout: Template = field(default_factory=Template.root)  # of the landing zone
    derived: Sequence[Derived] = ()  # those that are made of another column of the files


class Fitting:
    """Looks at the files of one table. What files of one shape have in common is asked for once.

    Args:
        session: an open lake, whose engine has the secret of the landing zone.
        keys: the partition columns.
        target: the table's other columns.
        schema_of: asked once for all files of a shape.
    """

    def __init__(
        self,
        session: LakeSession,
        keys: Keys,
        target: pa.Schema,
        schema_of: SchemaOf,
    ) -> None:
        self._session = session
        self._columns = keys.columns
        self._other_names = {c.name: name for c in keys.columns if (name := keys.layout.folder(c.name)) != c.name}
        self._derived = keys.derived
        self._target = target
        self._schema_of = schema_of
        self._schemas: dict[int, pa.Schema] = {}
        self._sound: set[int] = set()  # shapes
        self._by_path: dict[tuple[str, Partition], frozenset[str]] = {}

    def view(self, o: LandedObject, partition: Partition, footer: Footer) -> View:
        """How readers see the file.

        Raises:
            SchemaError: its columns, a day or a row's partition are not what they must be; the error names it.
            SourceError: it cannot be read.
        """
        early = [p for p, chunks in footer.chunks.items() if any((c.type, c.least) == TOO_EARLY for c in chunks)]
        if early:
            raise SchemaError(
                f"column {early[0]!r} of the object {o.uri} has a day before 5877642-06-25 (BC), the first that "
                "DuckDB's DATE can hold:",
                "correct the value where it is written.",
            )
        schema = self._schemas.get(footer.shape)
        if schema is None:
            schema = self._schemas[footer.shape] = self._schema_of(o)
        if footer.shape not in self._sound:
            self._check_columns(o, partition, schema)
            self._sound.add(footer.shape)
        names = {name.lower(): name for name in schema.names}
        by_path = self._said_by_path(o, partition)
        inside = frozenset(column.name.lower() for column in self._columns) - by_path
        folders = self._under_other_names(o, partition, inside - names.keys())
        inside -= {name for name, _ in folders}
        for column, value in zip(self._columns, partition.values, strict=True):
            name = names.get(column.name.lower())
            if column.name.lower() in inside:
                self._check_inside(o, column, schema, name)
            if name is not None:
                self._check_values(o, partition, footer, name, None if value is None else str(value))
        for made in made_of(self._derived, partition, names, f"the object {o.uri}"):
            self._check_made(o, made, schema, footer)
        return View(inside, folders, frozenset(names[name] for name in by_path if name in names))

    def _check_columns(self, o: LandedObject, partition: Partition, schema: pa.Schema) -> None:
        fitter = Fitter(schema, self._target, partition, f"the object {o.uri}")
        for name, wanted in zip(fitter.columns, self._target, strict=True):
            given = schema.field(name).type
            if not is_read_as(given, wanted.type):
                if without_values(pa.schema([schema.field(name)])):
                    raise SchemaError(
                        f"column {name!r} of the object {o.uri} has no value and no type ({given}), and DuckLake reads "
                        f"such a column as integer, not as the table's {wanted.type}:",
                        "land it with the table's type, also where all of it is NULL, or use mode: replace, which "
                        "rewrites it.",
                    )
                raise SchemaError(
                    f"column {name!r} of the object {o.uri} is {given}, which DuckLake does not read as the table's "
                    f"{wanted.type}:",
                    "land it with the table's type, or use mode: replace, which rewrites it.",
                )

    def _said_by_path(self, o: LandedObject, partition: Partition) -> frozenset[str]:
        folder = o.uri.rpartition("/")[0]
        key = (folder, partition)
        if key not in self._by_path:
            folders = folder.split("/")
            self._by_path[key] = frozenset(
                column.name.lower()
                for column, value in zip(self._columns, partition.values, strict=True)
                if says(folders, column, value)
            )
        return self._by_path[key]

    def _under_other_names(self, o: LandedObject, partition: Partition, missing: Collection[str]) -> Folders:
        """The columns that the path says by a folder of another name, which readers get from the catalog."""
        folders = o.uri.rpartition("/")[0].split("/")
        return frozenset(
            (column.name.lower(), name)
            for column, value in zip(self._columns, partition.values, strict=True)
            if column.name.lower() in missing
            and (name := self._other_names.get(column.name)) is not None
            and says(folders, column, value, name)
        )

    def _check_inside(self, o: LandedObject, column: PartitionColumn, schema: pa.Schema, name: str | None) -> None:
        if name is None:
            raise SchemaError(
                f"the partition column {column.name!r} of the object {o.uri} stands neither in the file nor, as a "
                f"folder {column.name}=… that readers of the lake understand, in its path:",
                "land the column in the file too (landing: keep_path_columns: true), or use mode: replace.",
            )
        given, wanted = schema.field(name).type, PARTITION_ARROW_TYPES[column.type]
        if not (widens(given, wanted) and is_read_as(given, wanted)):
            raise SchemaError(
                f"the partition column {name!r} of the object {o.uri} is {given}, and the table's is {wanted}:",
                "land it with the table's type, or use mode: replace.",
            )

    def _check_values(self, o: LandedObject, partition: Partition, footer: Footer, name: str, text: str | None) -> None:
        """Every row is of the file's own partition; the footer mostly knows."""
        if name in footer.chunks and footer.is_always(name, text):
            return
        wrong = self._session.rows(
            f"SELECT {identifier(name)}::VARCHAR FROM read_parquet(?, hive_partitioning => false) "  # noqa: S608
            f"WHERE {identifier(name)}::VARCHAR IS DISTINCT FROM ? LIMIT 1",
            [glob_literal(o.uri), text],
        )
        if wrong:
            raise SchemaError(
                f"the object {o.uri} has a row with {name}={wrong[0][0]!r}, and belongs to {partition}:",
                "land the row in its own partition.",
            )

    def _check_made(self, o: LandedObject, made: Made, schema: pa.Schema, footer: Footer) -> None:
        """Every row is of the file's own partition, by the column that the partition's value is made of."""
        chunks = footer.chunks.get(made.name, ())
        kind = schema.field(made.name).type
        if chunks and all(made.is_proved(c.least, c.greatest, c.nulls, c.values, kind) for c in chunks):
            return
        sql = f"SELECT {identifier(made.name)} FROM read_parquet(?, hive_partitioning => false)"  # noqa: S608
        with translated(self._session.config), self._session.connection.cursor() as cursor:
            for batch in cursor.execute(sql, [glob_literal(o.uri)]).to_arrow_reader(_ROWS):
                made.check(batch)

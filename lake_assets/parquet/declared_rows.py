"""The rows of a landed object by the names that its columns have in the table."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from lake_assets.errors import SchemaDriftError
from lake_assets.parquet.bad_rows import BadRows
from lake_assets.parquet.declared import Declared
from lake_assets.parquet.job import Share
from lake_assets.parquet.landed_rows import LandedRows, Rows
from lake_assets.parquet.schema_fit import Fitter


class DeclaredRows:
    """Rows with declared names, without the columns that are left out.

    Args:
        rows: the open object.
        declared: the columns of the stream.
        origin: names the object in errors.

    Raises:
        SchemaError: two columns get one name.
    """

    def __init__(self, rows: LandedRows, declared: Declared, origin: str) -> None:
        self.schema = declared.renamed(rows.schema, origin)
        self._rows = rows
        self._declared = declared
        kept = (name for name in rows.schema.names if name.lower() not in declared.omitted)
        self._landed = dict(zip(self.schema.names, kept, strict=True))

    @property
    def is_small(self) -> bool:
        """See `LandedRows`."""
        return self._rows.is_small

    def read(
        self, share: Share, columns: Sequence[str], fitter: Fitter, *, numbered: bool, splits: bool
    ) -> Iterator[Rows | BadRows]:
        """See `LandedRows`."""
        names = {landed: name for name, landed in self._landed.items()}
        landed = [self._landed[name] for name in columns]
        fitter = fitter.reading(self._landed)
        try:
            for rows in self._rows.read(share, landed, fitter, numbered=numbered, splits=splits):
                if isinstance(rows, Rows):
                    batch = rows.batch.rename_columns([names.get(name, name) for name in rows.batch.schema.names])
                    yield replace(rows, batch=batch)
                else:
                    yield rows
        except SchemaDriftError as error:  # of a text whose later records have other columns
            schemas = [(origin, self._declared.renamed(schema, origin)) for origin, schema in error.schemas]
            raise SchemaDriftError(error.problem, error.hint, schemas) from error

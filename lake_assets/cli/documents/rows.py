"""The documents of `query` and `changes`: arrays of rows, whose columns are those of the query or table."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from lake_assets.cli.documents.base import Documented

_ANY_COLUMNS: dict[str, Any] = {**Documented.__pydantic_config__, "extra": "allow"}


@dataclass(frozen=True, slots=True)
class QueryRow(Documented):
    """A row of the result: its columns by name.

    Booleans and numbers are JSON's, and lists, structs and maps are arrays and objects. NULL is null, and so is a
    number that JSON lacks: NaN and the infinities. All other values are texts, as DuckDB casts them.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = _ANY_COLUMNS


@dataclass(frozen=True, slots=True)
class ChangedRow(Documented):
    """A row that a snapshot inserted or deleted: the table's columns by name, with values as in `query`, and these."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _ANY_COLUMNS

    _change: Literal["insert", "delete"]
    """What the snapshot did with the row."""
    _snapshot: int
    """The number of the snapshot."""
    _run_id: str | None
    """The run's id; null for another client."""
    _committed_at: str
    """When the snapshot was committed, in UTC, such as `2026-02-11 06:00:00.5+00`."""

"""The checks of a stream: built-in ones, the user's own, and those that block assets downstream."""

from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from lake_assets.config.fields import Identifier
from lake_assets.config.model import Model

BuiltIn = Literal[
    "row_counts",
    "landing_zone",
    "no_null_partition",
    "schema",
    "ledger",
    "data_files",
    "indexed_objects",
    "quarantine",
    "dead_letters",
    "appended_objects",
]


class Checks(Model):
    """The checks that run after a refresh, or on their own."""

    skip: tuple[BuiltIn, ...] = Field((), description="Built-in checks that do not run.")
    blocking: tuple[str, ...] = Field((), description="Checks whose failure blocks the assets downstream.")
    sql: dict[Identifier, str] = Field(
        default_factory=dict, description="Your own checks by name: each is a query that returns wrong rows."
    )

    @field_validator("sql")
    @classmethod
    def _one_query_each(cls, sql: dict[str, str]) -> dict[str, str]:
        import duckdb  # noqa: PLC0415 - takes a while to load, and few configs have SQL

        for name, text in sql.items():
            if name in BuiltIn.__args__:  # type: ignore[attr-defined]
                raise ValueError(f"{name} is a check of the package: give yours another name")
            try:
                kinds = [statement.type for statement in duckdb.extract_statements(text)]
            except duckdb.Error as error:
                raise ValueError(f"{name} is not SQL: {str(error).splitlines()[0]}") from error
            if kinds != [duckdb.StatementType.SELECT]:
                raise ValueError(f"{name} must be one SELECT, which returns wrong rows")
        return sql

    @model_validator(mode="after")
    def _blocking_exists(self) -> Self:
        known = [name for name in BuiltIn.__args__ if name not in self.skip] + list(self.sql)  # type: ignore[attr-defined]
        for name in self.blocking:
            if name not in known:
                raise ValueError(f"blocking names {name!r}, which is not a check: write one of {', '.join(known)}")
        return self

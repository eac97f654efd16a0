"""Which checks a stream has, which of them hold back what comes after, and those that the user writes."""

from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from lake_assets.config.fields import Identifier
from lake_assets.config.model import Model

BuiltIn = Literal[
    "row_counts", "landing_zone", "no_null_partition", "schema", "ledger", "data_files", "indexed_objects"
]


class Checks(Model):
    """The checks that run after a refresh, and by themselves."""

    skip: tuple[BuiltIn, ...] = Field((), description="Built-in checks that are left out.")
    blocking: tuple[str, ...] = Field((), description="Checks whose failure blocks the assets downstream.")
    sql: dict[Identifier, str] = Field(
        default_factory=dict, description="Your own checks by name: a query that returns the rows that are wrong."
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
                raise ValueError(f"{name} must be one SELECT, which returns the rows that are wrong")
        return sql

    @model_validator(mode="after")
    def _blocking_exists(self) -> Self:
        known = [name for name in BuiltIn.__args__ if name not in self.skip] + list(self.sql)  # type: ignore[attr-defined]
        for name in self.blocking:
            if name not in known:
                raise ValueError(f"blocking names {name!r}, which is none of the checks {', '.join(known)}")
        return self

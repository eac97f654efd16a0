"""Random questions on a table, each asked of the lake and of a plain DuckDB table of the landed rows."""

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

import duckdb
from duckdb.sqltypes import DuckDBPyType

from lake_assets.base.duckdb_engine import identifier, literal

TABLE = "{table}"
_TEXT = {"varchar"}
_WHOLE = {f"{sign}{name}" for sign in ("", "u") for name in ("tinyint", "smallint", "integer", "bigint")}
_NUMBERS = {*_WHOLE, "float", "double", "decimal"}


@dataclass(frozen=True)
class Expression:
    """A column, or a part of a nested one."""

    sql: str
    kind: str
    id: str


def expressions(name: str, kind: DuckDBPyType) -> Iterator[Expression]:
    """A column and the parts in it."""
    yield from _parts(identifier(name), kind)


def _parts(sql: str, kind: DuckDBPyType) -> Iterator[Expression]:
    children = (
        [(name, child) for name, child in kind.children if isinstance(child, DuckDBPyType)]
        if kind.id in {"struct", "list", "map"}
        else []
    )
    yield Expression(sql, str(kind), kind.id)
    if kind.id == "struct":
        for name, child in children:
            yield from _parts(f"{sql}.{identifier(name)}", child)
    elif kind.id == "list":
        yield from _parts(f"{sql}[1]", children[0][1])
        yield Expression(f"len({sql})", "BIGINT", "bigint")
    elif kind.id == "map":
        yield from _parts(f"{sql}['k0']", children[1][1])


def samples(client: duckdb.DuckDBPyConnection, expression: Expression) -> list[str]:
    """The texts of all values."""
    sql = (
        f"SELECT DISTINCT ({expression.sql})::VARCHAR AS v FROM expected WHERE {expression.sql} IS NOT NULL ORDER BY v"
    )
    return [text for (text,) in client.execute(sql).fetchall() if "\0" not in text]


def questions(
    chosen: random.Random, expression: Expression, texts: Sequence[str], keys: Sequence[str], *, only_values: bool
) -> Iterator[str]:
    """Queries about an expression.

    Args:
        chosen: the source of all chance.
        expression: the expression.
        texts: its values.
        keys: conditions that select partitions.
        only_values: conditions compare with values of the column only.
    """
    e = expression.sql
    yield f"SELECT count(*), count({e}) FROM {TABLE}"
    is_nested = expression.id in {"struct", "list", "map"}
    if not is_nested:
        yield f"SELECT min({e})::VARCHAR, max({e})::VARCHAR FROM {TABLE}"
        yield f"SELECT max({e})::VARCHAR, count(*) FROM {TABLE} WHERE {chosen.choice(keys)}"
        order = chosen.choice(["", "DESC"])
        yield f"SELECT ({e})::VARCHAR FROM {TABLE} ORDER BY {e} {order} NULLS LAST LIMIT 3"
    conditions = [f"{e} IS NULL", f"{e} IS NOT NULL"]
    if not is_nested:
        conditions += _conditions(chosen, expression, texts, only_values=only_values)
    for condition in conditions:
        where = f" AND {chosen.choice(keys)}" if chosen.random() < 0.25 else ""
        yield f"SELECT count(*) FROM {TABLE} WHERE {condition}{where}"


def _conditions(
    chosen: random.Random, expression: Expression, texts: Sequence[str], *, only_values: bool
) -> Iterator[str]:
    def value() -> str:
        text = (
            chosen.choice(texts)
            if texts and (only_values or chosen.random() < 0.7)
            else _other(chosen, expression, texts)
        )
        return f"TRY_CAST({literal(text)} AS {expression.kind})"  # a value near an end may be beyond it

    e = expression.sql
    if not texts and only_values:
        return
    yield f"{e} = {value()}"
    for operator in chosen.sample(["=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM"], 3):
        yield f"{e} {operator} {value()}"
    yield f"{e} BETWEEN {value()} AND {value()}"
    yield f"{e} IN ({value()}, {value()}, {value()})"
    yield f"NOT ({e} > {value()}) OR {e} = {value()}"
    if expression.id in _TEXT and texts:
        text = chosen.choice(texts)[: chosen.randint(0, 3)]
        yield f"{e} LIKE {literal(text + '%')}"
        yield f"starts_with({e}, {literal(text)})"
        yield f"{e} LIKE {literal('%' + text)}"
    if expression.id in _NUMBERS and not only_values:
        operator, number = chosen.choice(["<", ">", ">=", "="]), chosen.choice(["0", "0.1", "50", "-1", "1.5", "127"])
        # DuckDB casts the number to the column's type, and fails if that has no place for whole digits and a row asks.
        is_full = re.fullmatch(r"DECIMAL\(38, ?3[6-8]\)", expression.kind) is not None
        yield f"{e} {operator} {f'TRY_CAST({number} AS {expression.kind})' if is_full else number}"


def _other(chosen: random.Random, expression: Expression, texts: Sequence[str]) -> str:
    """A value near one of the column's, or a usual one."""
    near = chosen.choice(texts) if texts else ""
    usual = {
        "boolean": "true",
        "varchar": near + chosen.choice(["", "a", "\x7f"]),
        "blob": near + chosen.choice(["a", "\\xFF"]),
        "date": "2026-02-11",
        "time": "12:00:00",
        "uuid": "80000000-0000-0000-0000-000000000000",
    }
    if expression.id in usual:
        return usual[expression.id]
    if expression.id.startswith("timestamp"):
        return "2026-02-11 00:00:00"
    try:
        step = Decimal(1) if expression.id in _WHOLE else Decimal("0.01")
        return str(Decimal(near) + chosen.choice([-step, step]))
    except InvalidOperation:
        return "0"

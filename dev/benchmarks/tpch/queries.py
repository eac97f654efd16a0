"""What a reader of the table asks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dev.benchmarks.tpch.landing import Lineitem


@dataclass(frozen=True, slots=True)
class Query:
    """The arguments of the call `query`."""

    sql: str
    columns: Sequence[str]
    where: str = ""


def _query(select: str, where: str, columns: str, rest: str = "") -> Query:
    return Query(f"SELECT {select} FROM {{table}} WHERE {where} {rest}", columns.split(), where)


def counts(landing: Lineitem) -> Query:
    """The number of rows of each partition."""
    names = ", ".join(landing.landed.columns)
    return Query(f"SELECT {names}, count(*) FROM {{table}} GROUP BY {names}", list(landing.landed.columns))


def queries(landing: Lineitem) -> Mapping[str, Query]:
    """TPC-H's queries 1 and 6 with their validation values (TPC-H 3.0.1, 2.4.1.3 and 2.4.6.3), and one order."""
    partition, order = landing.an_order()
    price = "l_extendedprice * (1 - l_discount)"
    found = " AND ".join([*(f"{name} = '{value}'" for name, value in partition.items()), f"l_orderkey = {order}"])
    return {
        "Q1": _query(
            "l_returnflag, l_linestatus, sum(l_quantity), sum(l_extendedprice), "
            f"sum({price}), sum({price} * (1 + l_tax)), avg(l_quantity), avg(l_extendedprice), "
            "avg(l_discount), count(*)",
            "l_shipdate <= '1998-09-02'",
            "l_returnflag l_linestatus l_quantity l_extendedprice l_discount l_tax l_shipdate",
            "GROUP BY l_returnflag, l_linestatus ORDER BY l_returnflag, l_linestatus",
        ),
        "Q6": _query(
            "sum(l_extendedprice * l_discount)",
            "l_shipdate >= '1994-01-01' AND l_shipdate < '1995-01-01' AND l_discount >= 0.05 AND l_discount <= 0.07"
            " AND l_quantity < 24",
            "l_extendedprice l_discount l_quantity l_shipdate",
        ),
        "an order of a partition": _query(
            "sum(l_extendedprice), count(*)", found, " ".join([*partition, "l_orderkey", "l_extendedprice"])
        ),
    }

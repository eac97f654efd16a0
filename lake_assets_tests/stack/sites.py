"""What tests of a whole stack have in common: its objects, its catalog, and whether its web server answers."""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError

import pyarrow as pa
import pyarrow.parquet as pq

from dev.stack.probes import server_of

if TYPE_CHECKING:
    import psycopg

    from dev.servers.dagster import DagsterServer
    from dev.stack.site import Site


def put(site: "Site", region: str, date: object, rows: pa.Table, name: str = "part-0") -> None:
    """Land an object of the stream `transactions`."""
    buffer = io.BytesIO()
    pq.write_table(rows, buffer)
    key = f"transactions/region={region}/date={date}/{name}.parquet"
    server_of(site).client().put_object(Bucket="landing", Key=key, Body=buffer.getvalue())


@contextmanager
def catalog(site: "Site") -> Iterator["psycopg.Connection[tuple[Any, ...]]"]:
    """A client of the lake's database, by password, as PostgreSQL's own programs are."""
    import psycopg  # noqa: PLC0415 - takes long

    with psycopg.connect(
        host="127.0.0.1", port=site.ports.postgres, dbname="lake", user="lake", password=site.settings.lake_password
    ) as connection:
        yield connection


def answers(dagster: "DagsterServer") -> bool:
    """Whether the web server answers; its first request after PostgreSQL has gone may fail."""
    try:
        dagster.runs()
    except HTTPError:
        return False
    return True

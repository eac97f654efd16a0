"""SeaweedFS and PostgreSQL in place of local files and SQLite."""

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import urlsplit

from dev.benchmarks.peers.compare import Landed
from dev.benchmarks.scale.lake import server
from dev.servers.postgres import PostgresServer
from dev.servers.relay import relay
from dev.servers.s3 import WEED, S3Server, seaweedfs

ROLE = "bench"  # its name needs no quotes in a URL: dlt writes it there as it is


@dataclass
class Servers:
    """A bucket, and a database for each table."""

    store: S3Server
    postgres: PostgresServer
    bucket: str
    _databases: dict[Path, str] = field(default_factory=dict)

    def places(self, _: Landed, folder: Path) -> Mapping[str, str]:
        """Landing zone, table and catalog of a peer whose folder this is; a new folder gets new ones."""
        database = self._databases.setdefault(folder, "") or self.postgres.new_database()
        self._databases[folder] = database
        catalog = f"postgresql://{ROLE}:{ROLE}@{self.postgres.host}:{self.postgres.port}/{database}"
        return {"landing": f"s3://{self.bucket}/landing", "data": f"s3://{self.bucket}/{database}", "catalog": catalog}

    def put(self, key: str, file: Path) -> None:
        """Land an object."""
        self.store.put(self.bucket, f"landing/{key}", file.read_bytes())


@contextmanager
def servers(delay: float) -> Iterator[Servers]:
    """Both, on this machine; the environment gets the keys of the store, from which the peers take them.

    Each request to the store arrives `delay` milliseconds later.
    """
    with seaweedfs(WEED) as store, server() as postgres, ExitStack() as stack:
        endpoint = store.endpoint
        if delay:
            address = urlsplit(store.endpoint)
            assert address.hostname is not None
            assert address.port is not None
            endpoint = f"http://{stack.enter_context(relay(address.hostname, address.port, delay))}"
        os.environ |= {
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_ACCESS_KEY_ID": store.access_key,
            "AWS_SECRET_ACCESS_KEY": store.secret_key,
            "AWS_REGION": store.region,
            "AWS_ALLOW_HTTP": "true",
        }
        with postgres.connect() as connection:
            connection.execute(f"CREATE ROLE {ROLE} LOGIN CREATEDB PASSWORD '{ROLE}'".encode())
        yield Servers(store, replace(postgres, user=ROLE, password=ROLE), store.new_bucket())

"""A world that gets the state back that it had: its catalog, its lake's files, its exports and its dead letters.

Its landing zone is left alone, because no operation changes it, and a local object that is written again has another
ETag.
"""

import shutil
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import psycopg

from dev.servers.postgres import PostgresServer
from dev.servers.s3 import S3Server
from lake_assets.retrying import Limit, pause_between, retry
from lake_assets_tests.world import World


@dataclass(frozen=True)
class Template:
    """The state of a world. Its servers are reached without a proxy.

    Args:
        places: of the world's files; S3 storages or local folders.
        folder: has the copies of what is on disk.
        postgres: the catalog's server; None for a SQLite file.
    """

    catalog: dict[str, Any]
    places: list[dict[str, Any]]
    folder: Path
    s3: S3Server | None
    postgres: PostgresServer | None
    _objects: dict[str, dict[str, bytes]]

    @classmethod
    def of(cls, world: World, folder: Path, s3: S3Server | None, postgres: PostgresServer | None) -> "Template":
        """Take the state; nothing may use the world meanwhile."""
        places = [world.storage]
        places += [world.options[name]["to"] for name in ("deltas", "dead_letters") if name in world.options]
        template = cls(world.catalog, places, folder, s3, postgres, {})
        folder.mkdir()
        for number, place in enumerate(places):
            if place["type"] == "local":
                shutil.copytree(place["path"], folder / str(number))
            else:
                template._objects[place["bucket"]] = template._stored(place["bucket"])
        if postgres is not None:
            template._copy_database(world.catalog["database"], template._database)
        else:
            shutil.copyfile(world.catalog["path"], folder / "catalog.sqlite")
        return template

    def restore(self) -> None:
        """Give the world its state back."""
        for number, place in enumerate(self.places):
            if place["type"] == "local":
                shutil.rmtree(place["path"])
                shutil.copytree(self.folder / str(number), place["path"])
            else:
                self._restore_bucket(place["bucket"])
        if self.postgres is not None:
            self._copy_database(self._database, self.catalog["database"])
            return
        path = Path(self.catalog["path"])
        for suffix in ("-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
        shutil.copyfile(self.folder / "catalog.sqlite", path)

    @property
    def _database(self) -> str:
        return f"{self.catalog['database']}_template"

    def _copy_database(self, source: str, target: str) -> None:
        assert self.postgres is not None
        with self.postgres.connect() as connection:
            for statement in (
                f"DROP DATABASE IF EXISTS {target} WITH (FORCE)",
                f"CREATE DATABASE {target} TEMPLATE {source}",
            ):
                retry(
                    partial(connection.execute, statement.encode()),
                    transient=_is_in_use,
                    limit=Limit(seconds=60),
                    pause=pause_between(0.05, 0.5),
                )

    def _stored(self, bucket: str) -> dict[str, bytes]:
        assert self.s3 is not None
        client = self.s3.client()
        return {key: client.get_object(Bucket=bucket, Key=key)["Body"].read() for key in self._keys(bucket)}

    def _keys(self, bucket: str) -> dict[str, str]:
        assert self.s3 is not None
        listed = self.s3.client().list_objects_v2(Bucket=bucket).get("Contents", [])
        return {item["Key"]: item["ETag"] for item in listed}

    def _restore_bucket(self, bucket: str) -> None:
        assert self.s3 is not None
        objects, present = self._objects[bucket], self._keys(bucket)
        for key in present.keys() - objects.keys():
            self.s3.client().delete_object(Bucket=bucket, Key=key)
        for key in objects.keys() - present.keys():
            self.s3.put(bucket, key, objects[key])


def _is_in_use(error: BaseException) -> bool:
    """Whether a database has sessions that end soon: the user of the tests may not end an autovacuum."""
    return isinstance(error, psycopg.errors.InsufficientPrivilege | psycopg.errors.ObjectInUse)

"""What the other components expect of the servers: two databases, each with its user, and three buckets."""

from botocore.exceptions import BotoCoreError, ClientError
from psycopg import sql
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

from dev.servers.postgres import make_role, superuser
from dev.stack.probes import server_of
from dev.stack.site import Site

_SECONDS = 60


def databases(site: Site) -> None:
    """Make the lake's database and Dagster's, each with a user of its name, unless they are there."""
    passwords = {"lake": site.settings.lake_password, "dagster": site.settings.dagster_password}
    with superuser(site.folder / "postgres/data", site.ports.postgres) as connection:
        roles = {name for (name,) in connection.execute("SELECT rolname FROM pg_roles")}
        present = {name for (name,) in connection.execute("SELECT datname FROM pg_database")}
        for name, password in passwords.items():
            if name not in roles:
                make_role(connection, name, password)
            if name not in present:
                create = sql.SQL("CREATE DATABASE {} OWNER {}")
                connection.execute(create.format(sql.Identifier(name), sql.Identifier(name)))


def buckets(site: Site) -> None:
    """Make the buckets of landing zone, lake and logs, unless they are there, and wait until they take objects.

    Raises:
        BotoCoreError, ClientError: they do not within a minute.
    """
    client = server_of(site).client()
    wanted = [site.environment[name] for name in ("LANDING_BUCKET", "LAKE_BUCKET", "DAGSTER_LOGS_BUCKET")]
    for attempt in Retrying(
        retry=retry_if_exception_type((BotoCoreError, ClientError)),
        stop=stop_after_delay(_SECONDS),
        wait=wait_fixed(0.3),
        reraise=True,
    ):
        with attempt:
            present = {bucket["Name"] for bucket in client.list_buckets()["Buckets"]}
            for bucket in wanted:
                if bucket not in present:
                    client.create_bucket(Bucket=bucket)
                # An empty object would need no volume.
                client.put_object(Bucket=bucket, Key=".ready", Body=b"1")
                client.delete_object(Bucket=bucket, Key=".ready")

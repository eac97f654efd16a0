"""Whether each component of a stack does its work now: asked by its own protocol, with short time-outs."""

import os
import subprocess
import sys
import time
from typing import Any

import psycopg
import requests
from botocore.exceptions import BotoCoreError, ClientError

from dev.servers.postgres import superuser
from dev.servers.s3 import ACCESS_KEY, REGION, S3Server
from dev.stack.site import HOST, Site
from lake_assets.code_server import calls

_SECONDS = 5
_JOB_SECONDS = 60  # also of a busy cluster
_HEARTBEAT_SECONDS = 90  # three of the daemon's own intervals

_DAEMONS = "{ instance { daemonHealth { allDaemonStatuses { required lastHeartbeatTime } } } }"


def postgres(site: Site) -> bool:
    """Whether PostgreSQL executes a query."""
    try:
        with superuser(site.folder / "postgres/data", site.ports.postgres) as connection:
            return connection.execute("SELECT 1").fetchone() == (1,)
    except psycopg.OperationalError:
        return False


def s3(site: Site) -> bool:
    """Whether the S3 server lists its buckets, and writes an object as soon as there is a bucket for it."""
    client, bucket = server_of(site).client(), site.environment["DAGSTER_LOGS_BUCKET"]
    try:
        if bucket in {present["Name"] for present in client.list_buckets()["Buckets"]}:
            client.put_object(Bucket=bucket, Key=".ready", Body=b"1")
    except (BotoCoreError, ClientError):
        return False
    return True


def server_of(site: Site) -> S3Server:
    """The stack's S3 server."""
    return S3Server(site.s3_endpoint, "", ACCESS_KEY, site.settings.s3_secret, REGION, {})


_JOB = f"""
from lake_assets.spark.spark_session import own_session
from lake_assets.spark.cluster import prepare_workers
with own_session({{}}, transforms=False) as session:
    prepare_workers(session(), {_JOB_SECONDS})
"""


def executes_jobs(site: Site) -> bool:
    """Whether the Spark cluster executes a small job; the client is a process of its own, and takes some seconds."""
    url = f"sc://localhost:{site.ports.spark_connect}/;token={site.settings.spark_token}"
    environment = {**os.environ, **site.environment, "SPARK_REMOTE": url}
    command = [sys.executable, "-c", _JOB]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, timeout=2 * _JOB_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def has_application(site: Site) -> bool | None:
    """Whether the Spark master has a live application; None if the master does not answer, or recovers."""
    try:
        answer = requests.get(f"http://{HOST}:{site.ports.spark_master_page}/json/", timeout=_SECONDS)
        state: dict[str, Any] = answer.json()
    except (requests.RequestException, ValueError):
        return None
    return bool(state["activeapps"]) if state["status"] == "ALIVE" else None


def code_server(port: int) -> bool:
    """Whether Dagster's code server answers."""
    return calls(port, "Ping", _SECONDS)


def webserver(url: str) -> bool:
    """Whether Dagster's web server answers."""
    try:
        return requests.get(f"{url}/server_info", timeout=_SECONDS).ok
    except requests.RequestException:
        return False


def daemon(url: str) -> bool:
    """Whether each of the daemon's threads has told lately that it lives; False without the web server."""
    try:
        answer = requests.post(f"{url}/graphql", json={"query": _DAEMONS}, timeout=_SECONDS)
        answer.raise_for_status()
        found: list[dict[str, Any]] = answer.json()["data"]["instance"]["daemonHealth"]["allDaemonStatuses"]
    except (requests.RequestException, ValueError, KeyError, TypeError):
        return False  # GraphQL answers without data while the database is away
    beats = [status["lastHeartbeatTime"] or 0 for status in found if status["required"]]
    return bool(beats) and min(beats) > time.time() - _HEARTBEAT_SECONDS

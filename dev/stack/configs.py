"""The configs of a stack: those of `deploy/`, with what differs on one machine without AWS."""

import os
from typing import Any

import yaml

from dev.stack.site import ROOT, Site

DEPLOY = ROOT / "deploy"
CONCURRENT_RUNS = 4
CONCURRENT_RUNS_OF_A_KIND = 2  # of backfills, and of a sensor


def write_configs(site: Site) -> None:
    """Write the configs into the stack's folder; a `lake.yaml` that is there stays, with what a user changed in it."""
    site.dagster_home.mkdir(exist_ok=True)
    _write(site, "dagster/dagster.yaml", dagster_document())
    _write(site, "workspace.yaml", workspace_document(site))
    if not site.lake_config.exists():
        _write(site, "lake.yaml", lake_document(site))


def _write(site: Site, name: str, document: dict[str, Any]) -> None:
    text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True)
    (site.folder / name).write_text(f"# Made of a file of deploy/ by `make stack`.\n{text}", "utf-8")


def _deployed(name: str) -> dict[str, Any]:
    document = yaml.safe_load((DEPLOY / name).read_text("utf-8"))
    assert isinstance(document, dict)
    return document


def dagster_document() -> dict[str, Any]:
    """Dagster's settings of production, with more runs at once: Spark is elsewhere, so a run is a small process."""
    document = _deployed("dagster.yaml")
    runs = document["concurrency"]["runs"]
    runs["max_concurrent_runs"] = CONCURRENT_RUNS
    for limit in runs["tag_concurrency_limits"]:
        limit["limit"] = CONCURRENT_RUNS_OF_A_KIND
    return document


def workspace_document(site: Site) -> dict[str, Any]:
    """The workspace of production, with the stack's port."""
    document = _deployed("workspace.yaml")
    (location,) = document["load_from"]
    location["grpc_server"]["port"] = site.ports.code_server
    return document


def lake_document(site: Site) -> dict[str, Any]:
    """Lake and stream of production on the stack's Spark, with a sensor.

    Addresses and secrets are variables, as in production.
    """
    document = _deployed("lake.yaml")
    stream = document["streams"]["transactions"]
    document["lakes"]["retail"]["catalog"]["port"] = site.ports.postgres
    # More changed partitions than two are requested as ranges, because a run takes longer to start than its partitions.
    stream["sensor"] = {"interval": 5, "max_runs": 2}
    # A file may wait for other records of its partition; in a demonstration not for long.
    stream["landing"] = {"batch": {"records": 5000, "age": 2}}
    document["spark"] = {
        "remote": f"sc://localhost:{site.ports.spark_connect}/;token=${{SPARK_CONNECT_AUTHENTICATE_TOKEN}}"
    }
    return document


def lake_environment(site: Site) -> dict[str, str]:
    """The environment of a command on the stack, such as `lake-assets` or `dagster`."""
    return {**os.environ, **site.environment}

"""A run whose driver is a pod: the request's shape, its messages by the pod's log, and the real driver as a process."""

import json
import os
import sys
from pathlib import Path
from typing import Any
from unittest.mock import patch

import dagster as dg
import pytest

from dev.servers.kubernetes import PIECE, Cluster, cluster
from dev.servers.s3 import S3Server
from lake_assets.config.load import load_config
from lake_assets.errors import MissingExtraError
from lake_assets.launch.kubernetes import PodDriver
from lake_assets.launch.received import Received
from lake_assets.orchestration.partition_keys import partition_key
from lake_assets_tests.orchestration.checks.check_runs import PARTITIONS
from lake_assets_tests.orchestration.in_process import failure_of
from lake_assets_tests.orchestration.launched_runs import (
    DAYS,
    as_in_process,
    at_first_commit,
    check_cancelled,
    interrupt,
    land_many,
    retries,
    run,
)
from lake_assets_tests.remote.requests import request
from lake_assets_tests.world import NW, SW, World, sales

__all__ = ["cluster"]

SPARK = {"spark.master": "local[2]", "spark.driver.memory": "1g"}
OBJECTS = 150  # of a partition whose message is longer than a piece of a pod's log


def config_of(cluster: Cluster, world: World, folder: Path, **runs: Any) -> str:
    """Write the config; returns its path, which is that of the driver too."""
    pod = {"launcher": "kubernetes", "image": "lake:1", "kubeconfig": cluster.kubeconfig}
    place = {"config": str(folder / "lake.yaml")}
    return str(world.config_file(folder, runs=pod | place | runs, spark=SPARK))


@pytest.mark.soak
def test_the_events_are_those_of_a_run_in_process(cluster: Cluster, local_world: World, tmp_path: Path) -> None:
    local_world.options |= {"partitions": PARTITIONS, "description": "${ABOUT:-shops}"}
    for number in range(OBJECTS):
        local_world.land(NW, sales(number), name=f"a_name_that_fills_the_message_of_its_partition_{number}.parquet")
    local_world.land(SW, b"no Parquet")
    cluster.secrets["lake"] = {"ABOUT": "shops"}

    def runs(launcher: str) -> list[dg.ExecuteInProcessResult]:
        file = str(local_world.config_file(tmp_path, spark=SPARK))
        if launcher == "kubernetes":
            more = {"env_from": [{"secret": "lake"}], "service_account": "driver", "labels": {"team": "lake"}}
            size = {"requests": {"cpu": 1, "memory": "2Gi"}, "limits": {"memory": "2Gi"}}
            spec = {"nodeSelector": {"disk": "ssd"}, "containers": [{"imagePullPolicy": "Always"}]}
            file = config_of(cluster, local_world, tmp_path, **more, resources=size, pod_spec=spec, namespace="jobs")
        return [run(file, "2026-02-11|NW", "2026-02-11|SW")]

    kept = as_in_process(local_world, runs, "kubernetes")

    assert len(kept.totals) == OBJECTS
    kept.check_one_of_each()
    (body,) = cluster.created
    assert (body["metadata"]["namespace"], body["metadata"]["labels"]["team"]) == ("jobs", "lake")
    spec = body["spec"]
    assert (spec["serviceAccountName"], spec["restartPolicy"], spec["nodeSelector"]) == (
        "driver",
        "Never",
        {"disk": "ssd"},
    )
    (container,) = spec["containers"]
    assert (container["image"], container["imagePullPolicy"]) == ("lake:1", "Always")
    assert container["command"] == ["python", "-m", "lake_assets.remote"]
    cluster.settle()
    (pod,) = cluster.ended
    assert pod.parts >= 1
    assert pod.longest_message <= PIECE
    assert container["envFrom"] == [{"secretRef": {"name": "lake"}}]
    assert container["resources"] == {"requests": {"cpu": "1", "memory": "2Gi"}, "limits": {"memory": "2Gi"}}
    assert not cluster.pods


@pytest.mark.soak
@pytest.mark.kill
def test_a_cancelled_run_deletes_its_pod_and_records_what_had_begun(
    cluster: Cluster, local_world: World, tmp_path: Path
) -> None:
    land_many(local_world)
    file = config_of(cluster, local_world, tmp_path)

    def terminate() -> None:
        (pod,) = cluster.pods.values()
        interrupt(local_world, lambda: pod.is_deleted, seconds=1)

    with at_first_commit(local_world, terminate):
        result = run(file, f"{DAYS[0]}|NE", f"{DAYS[-1]}|SW")

    check_cancelled(result, local_world)
    events = result.get_asset_materialization_events()
    shown = {event.partition: event.materialization.metadata["snapshot"].value for event in events}
    rows = local_world.query(
        "SELECT load_partition, snapshot_id FROM lake.ingest_runs WHERE status = 'committed' ORDER BY snapshot_id"
    )
    stream = local_world.config.streams["sales"]
    partitions = {stream.partition_at(path): snapshot for path, snapshot in rows}
    assert shown == {partition_key(p): snapshot for p, snapshot in partitions.items() if p is not None}
    assert not cluster.pods


@pytest.mark.parametrize(
    ("fault", "value", "text"),
    [
        (
            *("refusal", (403, "pods is forbidden")),
            "Kubernetes, namespace lake, refuses to create the pod (403 Forbidden: pods is forbidden): correct `runs`",
        ),
        pytest.param(
            *("waiting", {"reason": "ImagePullBackOff", "message": "no lake:1"}),
            "the driver of the run did not start (pod NAME in namespace lake: ImagePullBackOff: no lake:1)",
            marks=pytest.mark.soak,
        ),
    ],
    ids=["refused", "cannot start"],
)
def test_a_pod_that_is_refused_or_cannot_start_fails_the_run_once(
    cluster: Cluster, local_world: World, tmp_path: Path, fault: str, value: Any, text: str
) -> None:
    local_world.options |= {"partitions": PARTITIONS}
    local_world.land(NW, sales(1))
    setattr(cluster, fault, value)

    result = run(config_of(cluster, local_world, tmp_path), "2026-02-11|NW", "2026-02-11|NW")

    assert not retries(result)
    (name,) = [body["metadata"]["name"] for body in cluster.created] or [""]
    assert failure_of(result).startswith(text.replace("NAME", name))


@pytest.mark.soak
def test_messages_may_be_in_a_bucket(cluster: Cluster, local_world: World, tmp_path: Path, s3: S3Server) -> None:
    local_world.options |= {"partitions": PARTITIONS}
    local_world.land(NW, sales(1, 2))
    variables = {
        "AWS_ENDPOINT_URL_S3": s3.endpoint,
        "AWS_ACCESS_KEY_ID": s3.access_key,
        "AWS_SECRET_ACCESS_KEY": s3.secret_key,
        "AWS_DEFAULT_REGION": s3.region,
    }
    cluster.secrets["s3"] = variables
    runs = {"messages": f"s3://{s3.new_bucket()}/messages", "env_from": [{"secret": "s3"}]}
    with patch.dict(os.environ, variables):
        result = run(config_of(cluster, local_world, tmp_path, **runs), "2026-02-11|NW", "2026-02-11|NW")

    assert result.success
    assert local_world.totals() == [1, 2]
    assert s3.secret_key not in json.dumps(cluster.created)


def test_without_the_extra_the_error_names_it(cluster: Cluster, local_world: World, tmp_path: Path) -> None:
    runs: Any = load_config(config_of(cluster, local_world, tmp_path)).runs
    with (
        patch.dict(sys.modules, {"kubernetes": None}),
        pytest.raises(MissingExtraError, match=r"run `pip install '\.\[kubernetes\]'` in"),
    ):
        PodDriver(runs, request("r1"), Received([], lambda _: None))

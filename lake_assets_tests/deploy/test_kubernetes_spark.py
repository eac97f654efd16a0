"""A real Spark driver with the settings of `deploy/kubernetes`: it has the rights that it needs; its executors work."""

import os
import subprocess
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes_validate import utils as schema

from dev.servers.spark_pods import ADDRESS, Cluster, cluster
from lake_assets.config.document import read_document
from lake_assets_tests.deploy.test_kubernetes import BASE, environment, manifests
from lake_assets_tests.world import NW, World, sales

pytestmark = [pytest.mark.long, pytest.mark.timeout(240)]


@pytest.fixture
def kubernetes(tmp_path: Path) -> Iterator[Cluster]:
    with cluster(tmp_path) as found:
        yield found


@pytest.fixture
def ingested(local_world: World, kubernetes: Cluster, tmp_path: Path) -> World:
    """The world after a command whose executors were pods."""
    local_world.land(NW, sales(1, 2))
    variables = environment("production") | {
        "POD_IP": ADDRESS,
        "POD_NAME": "driver",
        "POD_NAMESPACE": "lake-production",
    }
    spark = read_document((BASE / "lake.yaml").read_text("utf-8"), variables).data["spark"]
    spark |= {
        "master": f"k8s://{kubernetes.url}",
        "spark.kubernetes.executor.podTemplateFile": str(BASE / "executor-pod.yaml"),
        "spark.executor.instances": 1,
    }
    config = local_world.config_file(tmp_path, spark=spark)
    program = Path(sysconfig.get_path("scripts")) / "lake-assets"
    command = [str(program), "--config", str(config), "ingest", "sales", "--partition", NW]
    done = subprocess.run(command, env=os.environ, capture_output=True, text=True, check=False, timeout=200)
    logs = "\n".join(log.read_text("utf-8", "replace")[-2000:] for log in tmp_path.glob("*/log"))
    assert done.returncode == 0, f"{done.stdout}{done.stderr}{logs}"
    return local_world


def test_a_partition_is_read_by_an_executor_that_the_role_permits(ingested: World, kubernetes: Cluster) -> None:
    assert ingested.totals() == [1, 2]

    role, _ = manifests("rbac.yaml")
    permitted = {(verb, resource) for rule in role["rules"] for resource in rule["resources"] for verb in rule["verbs"]}
    # An executor that is idle, or fails, is deleted by its name.
    assert set(kubernetes.requests) == permitted - {("delete", "pods")}

    (pod,) = kubernetes.pods.values()
    schema.validate({"apiVersion": "v1", "kind": "Pod"} | pod, schema.latest_version(), strict=True)
    check(pod)


def check(pod: dict[str, Any]) -> None:
    """The pod has what the template and the settings say, and belongs to the driver's."""
    (template,) = yaml.safe_load_all((BASE / "executor-pod.yaml").read_text("utf-8"))
    (container,) = pod["spec"]["containers"]
    (wanted,) = template["spec"]["containers"]
    assert container["image"] == environment("production")["LAKE_IMAGE"]
    assert container["securityContext"] == wanted["securityContext"]
    assert container["envFrom"] == wanted["envFrom"]
    assert {mount["mountPath"] for mount in wanted["volumeMounts"]} <= {
        m["mountPath"] for m in container["volumeMounts"]
    }
    assert container["resources"]["limits"]["memory"] == "4096Mi"
    assert pod["spec"]["securityContext"] == template["spec"]["securityContext"]
    assert pod["spec"]["serviceAccountName"] == "lake-executor"
    assert pod["spec"]["automountServiceAccountToken"] is False
    assert [owner["name"] for owner in pod["metadata"]["ownerReferences"]] == ["driver"]

"""A real Spark driver with the settings of `deploy/kubernetes`: it has the rights that it needs; its executors work."""

import subprocess
import sysconfig
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes_validate import utils as schema

from dev.servers.spark_pods import ADDRESS, cluster
from lake_assets.config.document import read_document
from lake_assets_tests.deploy.test_kubernetes import BASE, environment, manifests
from lake_assets_tests.world import NW, World, sales


@pytest.mark.soak
@pytest.mark.timeout(400)
def test_a_partition_is_read_by_an_executor_that_the_role_permits(local_world: World, tmp_path: Path) -> None:
    local_world.land(NW, sales(1, 2))
    variables = environment("production") | {
        "POD_IP": ADDRESS,
        "POD_NAME": "driver",
        "POD_NAMESPACE": "lake-production",
    }
    spark = read_document((BASE / "lake.yaml").read_text("utf-8"), variables).data["spark"]
    with cluster(tmp_path) as kubernetes:
        spark |= {
            "master": f"k8s://{kubernetes.url}",
            "spark.kubernetes.executor.podTemplateFile": str(BASE / "executor-pod.yaml"),
            "spark.executor.instances": 1,
        }
        config = local_world.config_file(tmp_path, spark=spark)
        program = Path(sysconfig.get_path("scripts")) / "lake-assets"
        command = [str(program), "--config", str(config), "ingest", "sales", "--partition", NW]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)

    logs = "\n".join(log.read_text("utf-8", "replace")[-2000:] for log in tmp_path.glob("*/log"))
    assert done.returncode == 0, f"{done.stdout}{done.stderr}{logs}"
    assert local_world.totals() == [1, 2]
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

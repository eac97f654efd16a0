"""`deploy/kubernetes`: manifests, config and Helm values fit each other and the other targets; Spark works with them.

`make lint-deploy` has the manifests' schemas.
"""

import re
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes_validate import utils as schema

from dev.servers.spark_pods import ADDRESS, cluster
from lake_assets.config.document import read_document
from lake_assets.config.models import LakeConfig
from lake_assets_tests.deploy.commands import parse
from lake_assets_tests.deploy.test_systemd import assignments
from lake_assets_tests.world import NW, World, sales

DEPLOY = Path(__file__).parents[2] / "deploy"
KUBERNETES = DEPLOY / "kubernetes"
BASE = KUBERNETES / "base"
VALUES: dict[str, Any] = yaml.safe_load((KUBERNETES / "values.yaml").read_text("utf-8"))
(CODE,) = VALUES["dagster-user-deployments"]["deployments"]
PARTS = (VALUES["dagsterWebserver"], VALUES["dagsterDaemon"], CODE)
PAGE = (DEPLOY / "kubernetes.md").read_text("utf-8")
DOCKERFILE = (DEPLOY / "image/Dockerfile").read_text("utf-8")
SECRETS = {
    name: set(re.findall(r"--from-file=([\w-]+)", options))
    for name, options in re.findall(r"create secret generic ([\w-]+) (.+)$", PAGE, re.MULTILINE)
}


def settings(*overlays: str) -> dict[str, str]:
    """The variables of lake.env that are not comments, with those of overlays on top."""
    result: dict[str, str] = {}
    for file in (BASE, *(KUBERNETES / "overlays" / name for name in overlays)):
        text = (file / "lake.env").read_text("utf-8")
        result |= dict(line.split("=", 1) for line in text.splitlines() if "=" in line and not line.startswith("#"))
    return result


def manifests(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((BASE / name).read_text("utf-8")))


def environment(overlay: str) -> dict[str, str]:
    """What a process in the code server's container, or that of a run, finds in its environment."""
    fields = {entry["name"]: "example" for entry in CODE["env"] if "valueFrom" in entry}
    secrets = {key: "secret" for source in CODE["envSecrets"] for key in SECRETS[source["name"]]}
    return settings(overlay) | fields | secrets


def image(value: dict[str, str]) -> str:
    return f"{value['repository']}:{value['tag']}"


@pytest.mark.parametrize("overlay", ["staging", "production"])
def test_an_overlay_sets_what_the_base_has_and_its_config_is_that_of_the_other_targets(overlay: str) -> None:
    folder, variables = KUBERNETES / "overlays" / overlay, environment(overlay)
    changed = assignments(folder / "lake.env")
    host = yaml.safe_load((folder / "values.yaml").read_text("utf-8"))["postgresql"]["postgresqlHost"]
    mine, common = (
        read_document(file.read_text("utf-8"), variables) for file in (BASE / "lake.yaml", DEPLOY / "lake.yaml")
    )

    assert changed.keys() <= settings().keys()
    assert changed["LAKE_CATALOG_HOST"] == host
    assert (mine.problems, common.problems) == ([], [])
    spark = mine.data.pop("spark")  # executors are pods
    assert mine.data == common.data
    config = LakeConfig.model_validate(mine.data | {"spark": spark})
    assert config.spark.settings["spark.kubernetes.container.image"] == image(CODE["image"])


def test_what_the_values_refer_to_exists_and_only_runs_have_the_catalogs_password() -> None:
    kustomization = yaml.safe_load((BASE / "kustomization.yaml").read_text("utf-8"))
    generated = {generator["name"] for generator in kustomization["configMapGenerator"]}
    accounts = {manifest["metadata"]["name"] for manifest in manifests("service-accounts.yaml")}
    (tag,) = re.findall(r"--tag lake-assets:(\S+)", DOCKERFILE)
    (executor,) = manifests("executor-pod.yaml")

    assert {source["name"] for part in PARTS for source in part["envConfigMaps"]} == {"lake-env"} <= generated
    assert [volume["configMap"]["name"] for volume in CODE["volumes"] if "configMap" in volume] == ["lake-config"]
    assert VALUES["dagster-user-deployments"]["serviceAccount"] == {"create": False, "name": "lake-driver"}
    assert {"lake-config", "lake-driver"} <= generated | accounts
    assert {source["name"] for part in PARTS for source in part["envSecrets"]} <= SECRETS.keys()
    assert SECRETS["lake-secrets"] == {"LAKE_CATALOG_PASSWORD"}
    assert [part for part in PARTS if "lake-secrets" in str(part)] == [CODE]
    assert executor["spec"]["containers"][0]["envFrom"] == [{"secretRef": {"name": "lake-keys", "optional": True}}]
    assert {image(part["image"]) for part in PARTS} == {settings()["LAKE_IMAGE"]}
    assert settings()["LAKE_IMAGE"].endswith(f"/lake-assets:{tag}")
    parse("dagster", ["code-server", "start", "-h", "0.0.0.0", "-p", str(CODE["port"]), *CODE["codeServerArgs"]])


def test_dagsters_settings_are_those_of_the_other_targets_but_for_the_number_of_runs() -> None:
    mine = VALUES["additionalInstanceConfig"]
    common = yaml.safe_load((DEPLOY / "dagster.yaml").read_text("utf-8"))

    assert mine == {name: common[name] for name in mine} | {"concurrency": mine["concurrency"]}
    # The rest has values of the chart's own.
    assert common.keys() - mine.keys() == {"storage", "compute_logs", "telemetry"}
    # Else the chart writes these blocks a second time.
    daemon = VALUES["dagsterDaemon"]
    assert not any(daemon[name]["enabled"] for name in ("runCoordinator", "runMonitoring", "runRetries"))
    assert not any(daemon[name]["useThreads"] for name in ("sensors", "schedules"))


def test_no_container_is_root_or_writes_its_image() -> None:
    (executor,) = (manifest["spec"] for manifest in manifests("executor-pod.yaml"))
    run = VALUES["runLauncher"]["config"]["k8sRunLauncher"]
    pods = [*(part["podSecurityContext"] for part in PARTS), executor["securityContext"]]
    pods.append(run["runK8sConfig"]["podSpecConfig"]["securityContext"])
    containers = [*(part["securityContext"] for part in (*PARTS, run)), executor["containers"][0]["securityContext"]]
    (user,) = re.findall(r"^USER (\d+):", DOCKERFILE, re.MULTILINE)

    assert all(pod["runAsNonRoot"] and pod["runAsUser"] == int(user) for pod in pods)
    assert all(container["readOnlyRootFilesystem"] for container in containers)
    assert all(container["capabilities"] == {"drop": ["ALL"]} for container in containers)


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

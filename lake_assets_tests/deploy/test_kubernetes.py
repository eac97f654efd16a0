"""`deploy/kubernetes`: manifests, config and Helm values fit each other, Dagster's launcher and the other targets."""

import re
from pathlib import Path
from typing import Any

import kubernetes
import pytest
import yaml
from dagster_k8s.container_context import K8sContainerContext
from dagster_k8s.job import DagsterK8sJobConfig, construct_dagster_k8s_job
from kubernetes_validate import utils as schema

from lake_assets.config.document import read_document
from lake_assets.config.models import LakeConfig
from lake_assets_tests.deploy.commands import parse
from lake_assets_tests.deploy.test_systemd import assignments

DEPLOY = Path(__file__).parents[2] / "deploy"
KUBERNETES = DEPLOY / "kubernetes"
BASE = KUBERNETES / "base"
OVERLAYS = ("staging", "production")
VALUES: dict[str, Any] = yaml.safe_load((KUBERNETES / "values.yaml").read_text("utf-8"))
(CODE,) = VALUES["dagster-user-deployments"]["deployments"]
PAGE = (DEPLOY / "kubernetes.md").read_text("utf-8")
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


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_config_is_that_of_the_other_targets_with_executors_as_pods(overlay: str) -> None:
    variables = environment(overlay)
    documents = [
        read_document(file.read_text("utf-8"), variables) for file in (BASE / "lake.yaml", DEPLOY / "lake.yaml")
    ]

    assert [document.problems for document in documents] == [[], []]
    mine, common = (document.data for document in documents)
    spark = mine.pop("spark")
    assert mine == common
    config = LakeConfig.model_validate(mine | {"spark": spark})
    assert config.spark.settings["spark.kubernetes.container.image"] == image(CODE["image"])


def image(value: dict[str, str]) -> str:
    return f"{value['repository']}:{value['tag']}"


def test_all_processes_have_one_image_of_the_packages_version() -> None:
    images = {image(part["image"]) for part in (VALUES["dagsterWebserver"], VALUES["dagsterDaemon"], CODE)}
    (tag,) = re.findall(r"--tag lake-assets:(\S+)", (DEPLOY / "image/Dockerfile").read_text("utf-8"))

    assert images == {settings()["LAKE_IMAGE"]}
    assert images.pop().endswith(f"/lake-assets:{tag}")


def test_what_the_values_refer_to_exists() -> None:
    kustomization = yaml.safe_load((BASE / "kustomization.yaml").read_text("utf-8"))
    generated = {generator["name"] for generator in kustomization["configMapGenerator"]}
    accounts = {manifest["metadata"]["name"] for manifest in manifests("service-accounts.yaml")}
    parts = (VALUES["dagsterWebserver"], VALUES["dagsterDaemon"], CODE)

    assert {source["name"] for part in parts for source in part["envConfigMaps"]} == {"lake-env"} <= generated
    assert [volume["configMap"]["name"] for volume in CODE["volumes"] if "configMap" in volume] == ["lake-config"]
    assert VALUES["dagster-user-deployments"]["serviceAccount"] == {"create": False, "name": "lake-driver"}
    assert {"lake-config", "lake-driver"} <= generated | accounts
    assert {source["name"] for part in parts for source in part["envSecrets"]} <= SECRETS.keys()
    assert SECRETS[VALUES["global"]["postgresqlSecretName"]] == {"postgresql-password"}
    assert SECRETS["lake-secrets"] == {"LAKE_CATALOG_PASSWORD"}


def test_only_the_code_server_and_runs_have_the_catalogs_password() -> None:
    having = [name for name in ("dagsterWebserver", "dagsterDaemon") if "lake-secrets" in str(VALUES[name])]
    (executor,) = manifests("executor-pod.yaml")

    assert having == []
    assert {"name": "lake-secrets"} in CODE["envSecrets"]
    assert executor["spec"]["containers"][0]["envFrom"] == [{"secretRef": {"name": "lake-keys", "optional": True}}]


def test_dagsters_settings_are_those_of_the_other_targets_but_for_the_number_of_runs() -> None:
    mine = VALUES["additionalInstanceConfig"]
    common = yaml.safe_load((DEPLOY / "dagster.yaml").read_text("utf-8"))
    runs, others = mine["concurrency"]["runs"], common["concurrency"]["runs"]

    assert runs["max_concurrent_runs"] > others["max_concurrent_runs"]
    assert [limit["key"] for limit in runs["tag_concurrency_limits"]] == [
        limit["key"] for limit in others["tag_concurrency_limits"]
    ]
    assert mine == {name: common[name] for name in mine} | {"concurrency": {"runs": runs}}
    # The rest has values of the chart's own.
    assert common.keys() - mine.keys() == {"storage", "compute_logs", "telemetry"}
    logs = VALUES["computeLogManager"]["config"]["s3ComputeLogManager"]
    snake = {re.sub(r"[A-Z]", lambda match: f"_{match[0].lower()}", name): value for name, value in logs.items()}
    assert snake == common["compute_logs"]["config"]
    assert VALUES["postgresql"]["postgresqlScheme"] == common["storage"]["postgres"]["postgres_db"]["scheme"]
    # Else the chart writes these blocks a second time.
    assert not any(
        VALUES["dagsterDaemon"][name]["enabled"] for name in ("runCoordinator", "runMonitoring", "runRetries")
    )
    assert not VALUES["retention"]["enabled"]


def test_the_command_of_the_code_server_exists() -> None:
    parse("dagster", ["code-server", "start", "-h", "0.0.0.0", "-p", str(CODE["port"]), *CODE["codeServerArgs"]])


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_an_overlay_sets_what_the_base_has(overlay: str) -> None:
    folder = KUBERNETES / "overlays" / overlay
    changed = assignments(folder / "lake.env")
    kustomization = yaml.safe_load((folder / "kustomization.yaml").read_text("utf-8"))
    host = yaml.safe_load((folder / "values.yaml").read_text("utf-8"))["postgresql"]["postgresqlHost"]

    assert changed.keys() <= settings().keys()
    assert changed["LAKE_CATALOG_HOST"] == host
    assert kustomization["namespace"] == f"lake-{overlay}"
    assert f"--namespace lake-{overlay}" in PAGE or overlay == "staging"


@pytest.fixture
def job() -> dict[str, Any]:
    """The job of a run, made by Dagster's launcher of the config that the chart makes of the values."""
    launcher = VALUES["runLauncher"]["config"]["k8sRunLauncher"]
    of_launcher = {
        "image_pull_policy": launcher["imagePullPolicy"],
        "security_context": launcher["securityContext"],
        "run_k8s_config": {
            "pod_spec_config": launcher["runK8sConfig"]["podSpecConfig"],
            "job_spec_config": launcher["runK8sConfig"]["jobSpecConfig"],
        },
    }
    of_code = {
        "env_config_maps": [source["name"] for source in CODE["envConfigMaps"]],
        "env_secrets": [source["name"] for source in CODE["envSecrets"]],
        "volumes": CODE["volumes"],
        "volume_mounts": CODE["volumeMounts"],
        "resources": CODE["resources"],
        "env": CODE["env"],
        "namespace": "lake-production",
        "service_account_name": VALUES["dagster-user-deployments"]["serviceAccount"]["name"],
    }
    contexts = [K8sContainerContext.create_from_config({"k8s": part}) for part in (of_launcher, of_code)]
    config = DagsterK8sJobConfig(
        job_image=image(CODE["image"]),
        dagster_home=VALUES["global"]["dagsterHome"],
        instance_config_map="dagster-instance",
        postgres_password_secret=VALUES["global"]["postgresqlSecretName"],
    )
    made = construct_dagster_k8s_job(
        config, ["dagster", "api", "execute_run"], "run", contexts[0].merge(contexts[1]).run_k8s_config
    )
    result = kubernetes.client.ApiClient().sanitize_for_serialization(made)
    assert isinstance(result, dict)
    return result


def test_the_pod_of_a_run_is_valid_and_has_all_that_a_driver_needs(job: dict[str, Any]) -> None:
    schema.validate(job, schema.latest_version(), strict=True)

    pod = job["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["serviceAccountName"] == "lake-driver"
    assert pod["securityContext"] == CODE["podSecurityContext"]
    assert container["securityContext"] == CODE["securityContext"]
    fields = {entry["name"]: entry["valueFrom"] for entry in container["env"] if "valueFrom" in entry}
    assert fields["POD_IP"] == {"fieldRef": {"fieldPath": "status.podIP"}}
    assert {"name": "lake-secrets"} in [source.get("secretRef") for source in container["envFrom"]]
    mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert {"/etc/lake", "/tmp", VALUES["global"]["dagsterHome"]} <= mounts
    assert job["spec"]["ttlSecondsAfterFinished"] == 86400


def test_no_container_is_root_or_writes_its_image() -> None:
    (executor,) = manifests("executor-pod.yaml")
    pods = [part["podSecurityContext"] for part in (VALUES["dagsterWebserver"], VALUES["dagsterDaemon"], CODE)]
    containers = [part["securityContext"] for part in (VALUES["dagsterWebserver"], VALUES["dagsterDaemon"], CODE)]
    pods.append(executor["spec"]["securityContext"])
    containers.append(executor["spec"]["containers"][0]["securityContext"])
    (user,) = re.findall(r"^USER (\d+):", (DEPLOY / "image/Dockerfile").read_text("utf-8"), re.MULTILINE)

    assert all(pod["runAsNonRoot"] and pod["runAsUser"] == int(user) for pod in pods)
    assert all(container["readOnlyRootFilesystem"] for container in containers)
    assert all(container["capabilities"] == {"drop": ["ALL"]} for container in containers)

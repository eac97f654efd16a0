"""`deploy/aws`: the stack on moto's CloudFormation, and the command that undoes deletions.

`make lint-deploy` has the template's schema, its parameters and its resources.
"""

import datetime as dt
import json
import re
import runpy
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from dev.servers.moto import KEYS, REGION, Moto, moto
from lake_assets.streams.load import load_config
from lake_assets_tests.deploy.test_aws_policies import POLICIES, policy_of
from lake_assets_tests.world import World

__all__ = ["moto"]

DEPLOY = Path(__file__).parents[2] / "deploy"
ACCOUNT = "123456789012"  # moto's
SECRET = f"arn:aws:secretsmanager:{REGION}:{ACCOUNT}:secret:lake/catalog-a1b2c3"
PARAMETERS = {
    "CatalogHost": "catalog.example.com",
    "CatalogSecret": SECRET,
    "Subnets": "subnet-0a,subnet-0b",
    "SecurityGroups": "sg-0a",
}
RESOURCES = {
    "arn:aws:s3:::LANDING_BUCKET": f"arn:aws:s3:::lake-landing-{ACCOUNT}",
    "arn:aws:s3:::LAKE_BUCKET": f"arn:aws:s3:::lake-lake-{ACCOUNT}",
    "LANDING_PREFIX": "transactions",
    "LAKE_PREFIX": "tables",
}

Statement = dict[str, Any]


@cache
def template() -> dict[str, Any]:
    from cfnlint.decode.cfn_yaml import load  # type: ignore[import-untyped]  # noqa: PLC0415 - takes long

    found: dict[str, Any] = load(str(DEPLOY / "aws/template.yaml"))
    return found


class Stack:
    """The template's stack on moto."""

    def __init__(self, moto: Moto) -> None:
        from dev.servers.moto_stack import deploy  # noqa: PLC0415 - takes a second

        self.client = moto.client
        self.outputs = deploy(moto, (DEPLOY / "aws/template.yaml").read_text("utf-8"), PARAMETERS)

    def id_of(self, logical: str) -> str:
        found = self.client("cloudformation").describe_stack_resource(StackName="stack", LogicalResourceId=logical)
        return str(found["StackResourceDetail"]["PhysicalResourceId"])

    def policies(self) -> dict[str, str]:
        """The ARN of each managed policy."""
        kinds = {name: resource["Type"] for name, resource in template()["Resources"].items()}
        return {name: self.id_of(name) for name, kind in kinds.items() if kind == "AWS::IAM::ManagedPolicy"}

    def role(self, logical: str) -> tuple[set[str], list[Statement]]:
        """The ARNs of a role's managed policies, and the statements of its own."""
        iam, name = self.client("iam"), self.id_of(logical)
        attached = {p["PolicyArn"] for p in iam.list_attached_role_policies(RoleName=name)["AttachedPolicies"]}
        (own,) = iam.list_role_policies(RoleName=name)["PolicyNames"]
        return attached, iam.get_role_policy(RoleName=name, PolicyName=own)["PolicyDocument"]["Statement"]

    def queue(self, output: str) -> dict[str, str]:
        url = self.outputs[output]
        found = self.client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
        return dict(found)


@pytest.fixture
def stack(moto: Moto) -> Stack:
    return Stack(moto)


@pytest.mark.more
def test_roles_have_the_tried_policies_of_their_work_and_nothing_of_everything(stack: Stack) -> None:
    arns, places = (
        stack.policies(),
        RESOURCES | {"arn:aws:sqs:REGION:ACCOUNT:QUEUE": stack.queue("QueueUrl")["QueueArn"]},
    )
    for logical, arn in arns.items():
        file = POLICIES.parent / template()["Resources"][logical]["Properties"]["Description"]
        text = json.dumps(policy_of(file.stem))
        for place, value in places.items():
            text = text.replace(place, value)
        version = stack.client("iam").get_policy_version(PolicyArn=arn, VersionId="v1")["PolicyVersion"]
        assert version["Document"] == json.loads(text), logical

    (job, of_job), (host, of_host) = stack.role("JobRole"), stack.role("HostRole")
    assert job == {arns["IngestPolicy"]}
    assert host == {arns[f"{name}Policy"] for name in ("Ingest", "Maintain", "SenseObjects", "SenseQueue")}
    assert [s["Resource"] for s in of_job if s["Sid"] == "ReadPassword"] == [SECRET]
    (passed,) = (s for s in of_host if "iam:PassRole" in s["Action"])
    assert passed["Resource"] == stack.outputs["JobRoleArn"]
    for statement in (*of_job, *of_host):
        resources = statement["Resource"]
        assert not any("*" in action for action in statement["Action"]), statement
        assert "*" not in (resources if isinstance(resources, list) else [resources]), statement


def test_buckets_are_private_and_keep_what_is_deleted_and_the_queue_takes_from_one_of_them(stack: Stack) -> None:
    s3, outputs = stack.client("s3"), stack.outputs
    for output in ("LakeBucket", "LandingBucket", "RunsBucket"):
        bucket = outputs[output]
        (encrypted,) = s3.get_bucket_encryption(Bucket=bucket)["ServerSideEncryptionConfiguration"]["Rules"]
        assert encrypted["ApplyServerSideEncryptionByDefault"] == {"SSEAlgorithm": "AES256"}
        assert all(s3.get_public_access_block(Bucket=bucket)["PublicAccessBlockConfiguration"].values())
        assert s3.get_bucket_versioning(Bucket=bucket)["Status"] == "Enabled"
        assert template()["Resources"][output]["DeletionPolicy"] == "Retain"
        policy = json.loads(s3.get_bucket_policy(Bucket=bucket)["Policy"])["Statement"]
        denied = {statement["Sid"]: statement for statement in policy if statement["Effect"] == "Deny"}
        assert denied["OnlyByTls"]["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
        rules = s3.get_bucket_lifecycle_configuration(Bucket=bucket)["Rules"]
        if output == "RunsBucket":
            expiring = {rule["Filter"]["Prefix"]: rule["Expiration"]["Days"] for rule in rules if "Expiration" in rule}
            assert expiring == {"dagster/": 90, "messages/": 7, "emr/": 90}
        else:  # a live file never expires, and a deletion can be undone
            assert [rule for rule in rules if "Days" in rule.get("Expiration", {})] == []
            assert denied["NoDeletion"]["Action"] == ["s3:DeleteBucket", "s3:DeleteObjectVersion"]
            assert {rule["ID"]: rule for rule in rules}["Deleted"]["NoncurrentVersionExpiration"][
                "NoncurrentDays"
            ] == 35

    queue, dead = stack.queue("QueueUrl"), stack.queue("DeadLetterQueueUrl")
    allowed, tls = json.loads(queue["Policy"])["Statement"]
    assert (allowed["Action"], allowed["Principal"]) == ("sqs:SendMessage", {"Service": "s3.amazonaws.com"})
    assert allowed["Condition"]["ArnEquals"] == {"aws:SourceArn": f"arn:aws:s3:::{outputs['LandingBucket']}"}
    assert (tls["Effect"], tls["Condition"]) == ("Deny", {"Bool": {"aws:SecureTransport": "false"}})
    assert json.loads(queue["RedrivePolicy"])["deadLetterTargetArn"] == dead["QueueArn"]


@pytest.mark.more
def test_outputs_and_variables_are_what_the_config_needs(stack: Stack) -> None:
    described = {name: template()["Outputs"][name]["Description"] for name in stack.outputs}
    variables = {t.split()[0]: stack.outputs[name] for name, t in described.items() if t.endswith("in lake.env")}

    config = load_config(DEPLOY / "lake.yaml", variables | {"LAKE_CATALOG_PASSWORD": "example"})

    # The template's defaults are the prefixes of the config.
    assert config.streams["transactions"].source.root == f"s3://{stack.outputs['LandingBucket']}/transactions"
    assert config.lakes["retail"].own_storage.root == f"s3://{stack.outputs['LakeBucket']}/tables"
    (settings,) = template()["Resources"]["Application"]["Properties"]["RuntimeConfiguration"]
    given = {name.rpartition(".")[2]: value for name, value in settings["Properties"].items()}
    assert set(re.findall(r"\$\{(\w+)\}", (DEPLOY / "lake.yaml").read_text("utf-8"))) <= set(given)
    assert given["LAKE_CATALOG_PASSWORD"] == {"Fn::Sub": "EMR.secret@${CatalogSecret}"}


@pytest.mark.more
def test_landed_objects_reach_the_sensor_by_the_queue_of_the_stack(
    stack: Stack, moto: Moto, local_world: World
) -> None:
    # Dagster takes seconds to import.
    from lake_assets_tests.orchestration.sensors.test_stream_sensor import TODAY, key, keys_of  # noqa: PLC0415
    from lake_assets_tests.orchestration.ticks import ticks_of  # noqa: PLC0415

    bucket, url = stack.outputs["LandingBucket"], stack.outputs["QueueUrl"]
    local_world.source = {"type": "s3", "bucket": bucket, "prefix": "transactions", **KEYS}
    local_world.options["sensor"] = {"type": "sqs", "queue_url": url, "wait": 0, **KEYS}
    # moto evaluates no conditions of a bucket's policy, so what denies without TLS would deny all.
    moto.client("s3").delete_bucket_policy(Bucket=bucket)
    with ticks_of(local_world) as ticks:
        moto.put(bucket, f"transactions/region=NW/date={TODAY}/a.parquet")
        moto.put(bucket, f"others/region=SW/date={TODAY}/a.parquet")

        assert keys_of(ticks.tick()) == [key("NW")]
        assert ticks.tick() == []
        assert moto.left(url) == 0


def test_put_back_makes_live_again_what_was_deleted_since_and_names_what_has_no_version_any_more(
    moto: Moto, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in {"ACCESS_KEY_ID": "moto", "SECRET_ACCESS_KEY": "moto", "DEFAULT_REGION": REGION}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    s3, hour = moto.client("s3"), dt.timedelta(hours=1)
    s3.create_bucket(Bucket="lake")
    s3.put_bucket_versioning(Bucket="lake", VersioningConfiguration={"Status": "Enabled"})
    for key in ("tables/kept", "tables/deleted", "tables/lost", "others/deleted"):
        s3.put_object(Bucket="lake", Key=key, Body=key.encode())

    def put_back(since: str) -> str:
        """What the command prints, for all that was deleted since a moment."""
        monkeypatch.setattr(sys, "argv", ["put_back.py", "lake", "tables/", "--since", since])
        runpy.run_path(str(DEPLOY / "aws/put_back.py"), run_name="__main__")
        return capsys.readouterr().out

    def live() -> set[str]:
        return {obj["Key"] for obj in s3.list_objects_v2(Bucket="lake")["Contents"]}

    for key in ("tables/deleted", "others/deleted"):
        s3.delete_object(Bucket="lake", Key=key)
    now = dt.datetime.now(dt.UTC)
    assert put_back((now + hour).isoformat()) == "0 objects put back\n"
    assert [put_back((now - hour).isoformat()) for _ in range(2)] == ["1 objects put back\n", "0 objects put back\n"]
    assert live() == {"tables/kept", "tables/deleted", "tables/lost"}
    assert s3.get_object(Bucket="lake", Key="tables/deleted")["Body"].read() == b"tables/deleted"

    (version,) = s3.list_object_versions(Bucket="lake", Prefix="tables/lost")["Versions"]
    for key in ("tables/deleted", "tables/lost"):
        s3.delete_object(Bucket="lake", Key=key)
    s3.delete_object(Bucket="lake", Key="tables/lost", VersionId=version["VersionId"])
    with pytest.raises(SystemExit) as ended:
        put_back((now - hour).isoformat())
    assert ended.value.code == 1
    assert capsys.readouterr().err == "1 have no version any more:\ntables/lost\n"
    assert "tables/deleted" in live()
    with pytest.raises(SystemExit):
        put_back("2026-11-20T03:00")
    assert "has no time zone" in capsys.readouterr().err

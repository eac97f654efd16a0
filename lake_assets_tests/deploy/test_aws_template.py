"""`deploy/aws/template.yaml` on moto's CloudFormation: what it makes, and that its queue feeds the sensor."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cfnlint.decode.cfn_yaml import load as load_template  # type: ignore[import-untyped]

from dev.servers.moto import KEYS, REGION, Moto, moto
from lake_assets.config.load import load_config
from lake_assets.config.sections import SqsSensor
from lake_assets_tests.deploy.test_aws_policies import POLICIES, policy_of
from lake_assets_tests.orchestration.sensors.test_stream_sensor import TODAY, key, keys_of
from lake_assets_tests.orchestration.ticks import ticks_of
from lake_assets_tests.world import World

__all__ = ["moto"]

DEPLOY = Path(__file__).parents[2] / "deploy"
TEXT = (DEPLOY / "aws/template.yaml").read_text("utf-8")
TEMPLATE: dict[str, Any] = load_template(str(DEPLOY / "aws/template.yaml"))
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


@pytest.fixture
def outputs(moto: Moto) -> dict[str, str]:
    """The outputs of the stack."""
    # Its import takes a second.
    from dev.servers.moto_stack import deploy  # noqa: PLC0415

    return deploy(moto, TEXT, PARAMETERS)


def physical_id(moto: Moto, logical: str) -> str:
    found = moto.client("cloudformation").describe_stack_resource(StackName="stack", LogicalResourceId=logical)
    return str(found["StackResourceDetail"]["PhysicalResourceId"])


def managed_policies() -> list[str]:
    return [name for name, resource in TEMPLATE["Resources"].items() if resource["Type"] == "AWS::IAM::ManagedPolicy"]


def document(moto: Moto, arn: str) -> dict[str, Any]:
    found: dict[str, Any] = moto.client("iam").get_policy_version(PolicyArn=arn, VersionId="v1")["PolicyVersion"]
    written: dict[str, Any] = found["Document"]
    return written


def role(moto: Moto, logical: str) -> tuple[set[str], list[Statement]]:
    """The ARNs of a role's managed policies, and the statements of its own."""
    iam, name = moto.client("iam"), physical_id(moto, logical)
    attached = {p["PolicyArn"] for p in iam.list_attached_role_policies(RoleName=name)["AttachedPolicies"]}
    (own,) = iam.list_role_policies(RoleName=name)["PolicyNames"]
    return attached, iam.get_role_policy(RoleName=name, PolicyName=own)["PolicyDocument"]["Statement"]


def test_each_policy_is_the_tried_one_of_its_file(moto: Moto, outputs: dict[str, str]) -> None:
    arn = moto.client("sqs").get_queue_attributes(QueueUrl=outputs["QueueUrl"], AttributeNames=["QueueArn"])
    places = RESOURCES | {"arn:aws:sqs:REGION:ACCOUNT:QUEUE": arn["Attributes"]["QueueArn"]}
    for logical in managed_policies():
        file = POLICIES.parent / TEMPLATE["Resources"][logical]["Properties"]["Description"]
        text = json.dumps(policy_of(file.stem))
        for place, value in places.items():
            text = text.replace(place, value)

        assert document(moto, physical_id(moto, logical)) == json.loads(text), logical


def test_the_roles_have_the_policies_of_their_work_and_nothing_of_everything(
    moto: Moto, outputs: dict[str, str]
) -> None:
    arns = {name: physical_id(moto, name) for name in managed_policies()}
    job, of_job = role(moto, "JobRole")
    host, of_host = role(moto, "HostRole")

    assert job == {arns["IngestPolicy"]}
    assert host == {arns[f"{name}Policy"] for name in ("Ingest", "Maintain", "SenseObjects", "SenseQueue")}
    assert {s["Sid"]: s["Resource"] for s in of_job if s["Sid"] == "ReadPassword"} == {"ReadPassword": SECRET}
    (passed,) = (s for s in of_host if "iam:PassRole" in s["Action"])
    assert passed["Resource"] == outputs["JobRoleArn"]
    assert passed["Condition"] == {"StringEquals": {"iam:PassedToService": "emr-serverless.amazonaws.com"}}
    for statement in (*of_job, *of_host):
        resources = statement["Resource"]
        assert not any("*" in action for action in statement["Action"]), statement
        assert "*" not in (resources if isinstance(resources, list) else [resources]), statement


@pytest.mark.parametrize("output", ["LakeBucket", "LandingBucket", "RunsBucket"])
def test_a_bucket_is_encrypted_private_versioned_and_read_by_tls_only(
    moto: Moto, outputs: dict[str, str], output: str
) -> None:
    s3, bucket = moto.client("s3"), outputs[output]

    (encrypted,) = s3.get_bucket_encryption(Bucket=bucket)["ServerSideEncryptionConfiguration"]["Rules"]
    assert encrypted["ApplyServerSideEncryptionByDefault"] == {"SSEAlgorithm": "AES256"}
    assert all(s3.get_public_access_block(Bucket=bucket)["PublicAccessBlockConfiguration"].values())
    assert s3.get_bucket_versioning(Bucket=bucket)["Status"] == "Enabled"
    tls = statements_of(moto, bucket)["OnlyByTls"]
    assert tls["Resource"] == [f"arn:aws:s3:::{bucket}", f"arn:aws:s3:::{bucket}/*"]
    assert (tls["Effect"], tls["Principal"], tls["Action"]) == ("Deny", "*", "s3:*")
    assert tls["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
    assert TEMPLATE["Resources"][output]["DeletionPolicy"] == "Retain"
    assert TEMPLATE["Resources"][output]["UpdateReplacePolicy"] == "Retain"


def statements_of(moto: Moto, bucket: str) -> dict[str, Statement]:
    policy = json.loads(moto.client("s3").get_bucket_policy(Bucket=bucket)["Policy"])
    return {statement["Sid"]: statement for statement in policy["Statement"]}


@pytest.mark.parametrize("output", ["LakeBucket", "LandingBucket"])
def test_a_deletion_of_data_can_be_undone_for_some_days(moto: Moto, outputs: dict[str, str], output: str) -> None:
    s3, bucket = moto.client("s3"), outputs[output]
    rules = {rule["ID"]: rule for rule in s3.get_bucket_lifecycle_configuration(Bucket=bucket)["Rules"]}

    denied = statements_of(moto, bucket)["NoDeletion"]
    assert (denied["Effect"], denied["Principal"]) == ("Deny", "*")
    assert denied["Action"] == ["s3:DeleteBucket", "s3:DeleteObjectVersion"]
    assert rules["Deleted"]["NoncurrentVersionExpiration"] == {"NoncurrentDays": 35}
    assert rules["KilledUploads"]["AbortIncompleteMultipartUpload"] == {"DaysAfterInitiation": 1}
    # A live file of the lake never expires.
    assert [rule for rule in rules.values() if "Days" in rule.get("Expiration", {})] == []


def test_only_what_runs_print_and_report_expires(moto: Moto, outputs: dict[str, str]) -> None:
    rules = moto.client("s3").get_bucket_lifecycle_configuration(Bucket=outputs["RunsBucket"])["Rules"]

    found = {rule["Filter"]["Prefix"]: rule["Expiration"]["Days"] for rule in rules if "Expiration" in rule}
    assert found == {"dagster/": 90, "messages/": 7, "emr/": 90}


def test_only_the_landing_bucket_may_fill_the_queue_and_what_nobody_takes_is_kept(
    moto: Moto, outputs: dict[str, str]
) -> None:
    sqs = moto.client("sqs")
    attributes = sqs.get_queue_attributes(QueueUrl=outputs["QueueUrl"], AttributeNames=["All"])["Attributes"]
    dead = sqs.get_queue_attributes(QueueUrl=outputs["DeadLetterQueueUrl"], AttributeNames=["All"])["Attributes"]

    allowed, tls = json.loads(attributes["Policy"])["Statement"]
    assert allowed["Action"] == "sqs:SendMessage"
    assert allowed["Principal"] == {"Service": "s3.amazonaws.com"}
    assert allowed["Condition"] == {
        "ArnEquals": {"aws:SourceArn": f"arn:aws:s3:::{outputs['LandingBucket']}"},
        "StringEquals": {"aws:SourceAccount": ACCOUNT},
    }
    assert (tls["Effect"], tls["Condition"]) == ("Deny", {"Bool": {"aws:SecureTransport": "false"}})
    redrive = json.loads(attributes["RedrivePolicy"])
    assert (redrive["deadLetterTargetArn"], redrive["maxReceiveCount"]) == (dead["QueueArn"], 5)
    assert dead["MessageRetentionPeriod"] == attributes["MessageRetentionPeriod"] == "1209600"


def test_the_application_has_limits_and_stops_when_it_is_idle(moto: Moto, outputs: dict[str, str]) -> None:
    found = moto.client("emr-serverless").get_application(applicationId=outputs["ApplicationId"])["application"]

    assert found["maximumCapacity"] == {"cpu": "16 vCPU", "memory": "64 GB", "disk": "400 GB"}
    assert found["autoStopConfiguration"] == {"enabled": True, "idleTimeoutMinutes": 5}
    assert found["networkConfiguration"] == {"subnetIds": ["subnet-0a", "subnet-0b"], "securityGroupIds": ["sg-0a"]}


def test_drivers_get_every_variable_of_the_config_and_the_password_by_reference() -> None:
    (settings,) = TEMPLATE["Resources"]["Application"]["Properties"]["RuntimeConfiguration"]
    given = {name.rpartition(".")[2]: value for name, value in settings["Properties"].items()}
    text = (DEPLOY / "lake.yaml").read_text("utf-8")

    named = set(re.findall(r"\$\{(\w+)", text)) | {"AWS_REGION"}  # which buckets read without being told
    assert set(re.findall(r"\$\{(\w+)\}", text)) <= set(given) <= named
    assert {"LAKE_CATALOG_HOST", "LAKE_BUCKET", "AWS_REGION"} <= set(given)
    assert given["LAKE_CATALOG_PASSWORD"] == {"Fn::Sub": "EMR.secret@${CatalogSecret}"}


def test_the_outputs_are_what_the_config_and_the_environment_need(outputs: dict[str, str]) -> None:
    described = {name: TEMPLATE["Outputs"][name]["Description"] for name in outputs}
    variables = {text.split()[0]: outputs[name] for name, text in described.items() if text.endswith("in lake.env")}

    config = load_config(DEPLOY / "lake.yaml", variables | {"LAKE_CATALOG_PASSWORD": "example"})

    # The template's defaults are the prefixes of the config.
    assert config.streams["transactions"].source.root == f"s3://{outputs['LandingBucket']}/transactions"
    assert config.lakes["retail"].own_storage.root == f"s3://{outputs['LakeBucket']}/tables"
    assert SqsSensor(type="sqs", queue_url=outputs["QueueUrl"])


def test_landed_objects_reach_the_sensor_by_the_queue_of_the_stack(
    moto: Moto, outputs: dict[str, str], local_world: World
) -> None:
    bucket = outputs["LandingBucket"]
    local_world.source = {"type": "s3", "bucket": bucket, "prefix": "transactions", **KEYS}
    local_world.options["sensor"] = {"type": "sqs", "queue_url": outputs["QueueUrl"], "wait": 0, **KEYS}
    # moto evaluates no conditions of a bucket's policy, so what denies without TLS would deny all.
    moto.client("s3").delete_bucket_policy(Bucket=bucket)
    with ticks_of(local_world) as ticks:
        moto.put(bucket, f"transactions/region=NW/date={TODAY}/a.parquet")
        moto.put(bucket, f"others/region=SW/date={TODAY}/a.parquet")

        assert keys_of(ticks.tick()) == [key("NW")]
        assert ticks.tick() == []
        assert moto.left(outputs["QueueUrl"]) == 0


BAD = {
    "Name": ["Lake", "l", "-lake", "a" * 21],
    "LandingPrefix": ["", "/a", "a/", "a//b"],
    "NotifiedPrefix": ["a/"],
    "LakePrefix": ["/tables"],
    "CatalogHost": ["", "https://host", "-host"],
    "CatalogDatabase": ["a-b", "1a"],
    "CatalogUser": ["a b"],
    "CatalogSecret": ["lake/catalog", "a password", f"arn:aws:ssm:{REGION}:{ACCOUNT}:parameter/lake"],
    "ReleaseLabel": ["emr-7.12.0", "emr-spark-8.0.0-latest"],
}


def patterned() -> Iterator[tuple[str, dict[str, Any]]]:
    for name, parameter in TEMPLATE["Parameters"].items():
        if parameter["Type"] == "String" and "AllowedValues" not in parameter:
            yield name, parameter


def test_each_text_among_the_parameters_is_checked() -> None:
    good = PARAMETERS | {"Name": "lake-eu", "LandingPrefix": "retail/v=1", "ReleaseLabel": "emr-spark-8.0.0-20260421"}
    assert {name for name, _ in patterned()} == set(BAD)
    for name, parameter in patterned():
        values = [parameter["Default"]] if "Default" in parameter else []
        values += [good[name]] if name in good else []
        assert values
        assert all(re.fullmatch(parameter["AllowedPattern"], value) for value in values), name
        assert not any(re.fullmatch(parameter["AllowedPattern"], value) for value in BAD[name]), name


def test_each_number_among_the_parameters_has_limits() -> None:
    numbers = {name: p for name, p in TEMPLATE["Parameters"].items() if p["Type"] == "Number"}

    assert len(numbers) == 6
    assert all(p["MinValue"] <= p["Default"] <= p["MaxValue"] for p in numbers.values())

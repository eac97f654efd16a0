"""CloudFormation on moto, with the types and properties that moto's own leaves out.

Each type here calls moto's API of its service with the properties of the template, as CloudFormation calls AWS's.
"""

import json
from typing import Any

from moto.cloudformation import parsing
from moto.core.common_models import CloudFormationModel
from moto.iam.models import Role
from moto.s3.models import FakeBucket

from dev.servers.moto import Moto

Properties = dict[str, Any]

RELEASE = "emr-7.12.0"  # moto knows no release of Spark 4


def deploy(moto: Moto, template: str, parameters: dict[str, str], name: str = "stack") -> dict[str, str]:
    """Create a stack.

    Returns:
        Its outputs.
    """
    given = [{"ParameterKey": key, "ParameterValue": value} for key, value in parameters.items()]
    client = moto.client("cloudformation")
    client.create_stack(StackName=name, TemplateBody=template, Parameters=given, Capabilities=["CAPABILITY_IAM"])
    (stack,) = client.describe_stacks(StackName=name)["Stacks"]
    assert stack["StackStatus"] == "CREATE_COMPLETE", stack
    return {output["OutputKey"]: output["OutputValue"] for output in stack["Outputs"]}


class _Resource(CloudFormationModel):
    """A resource with an id, and perhaps an ARN."""

    def __init__(self, physical_id: str, arn: str = "") -> None:
        self._id = physical_id
        self._arn = arn

    @property
    def physical_resource_id(self) -> str:
        return self._id

    @classmethod
    def has_cfn_attr(cls, attr: str) -> bool:
        return attr == "Arn"

    def get_cfn_attribute(self, attribute_name: str) -> str:
        assert attribute_name == "Arn"
        return self._arn

    @staticmethod
    def cloudformation_name_type() -> str:
        return ""


# moto knows the direct subclasses of CloudFormationModel only, and the last one of a type.
class _Bucket(_Resource, CloudFormationModel):
    @staticmethod
    def cloudformation_name_type() -> str:
        return "BucketName"

    @staticmethod
    def cloudformation_type() -> str:
        return "AWS::S3::Bucket"

    @classmethod
    def create_from_cloudformation_json(
        cls, resource_name: str, cloudformation_json: Properties, account_id: str, region_name: str, **_: Any
    ) -> FakeBucket:
        bucket: FakeBucket = FakeBucket.create_from_cloudformation_json(
            resource_name, cloudformation_json, account_id, region_name
        )
        written, s3 = cloudformation_json["Properties"], Moto().client("s3")
        s3.put_bucket_versioning(Bucket=resource_name, VersioningConfiguration=written["VersioningConfiguration"])
        s3.put_public_access_block(
            Bucket=resource_name, PublicAccessBlockConfiguration=written["PublicAccessBlockConfiguration"]
        )
        s3.put_bucket_ownership_controls(Bucket=resource_name, OwnershipControls=written["OwnershipControls"])
        rules = [_rule(rule) for rule in written["LifecycleConfiguration"]["Rules"]]
        s3.put_bucket_lifecycle_configuration(Bucket=resource_name, LifecycleConfiguration={"Rules": rules})
        queues = written.get("NotificationConfiguration", {}).get("QueueConfigurations", [])
        s3.put_bucket_notification_configuration(
            Bucket=resource_name, NotificationConfiguration={"QueueConfigurations": [_notified(q) for q in queues]}
        )
        return bucket


def _rule(written: Properties) -> Properties:
    """A rule of a lifecycle as S3's API has it."""
    rule = {key: value for key, value in written.items() if key not in _RENAMED}
    expiration = {api: written[key] for key, api in _RENAMED.items() if api and key in written}
    rule |= {"ID": written["Id"], "Filter": {"Prefix": written.get("Prefix", "")}}
    return rule | ({"Expiration": expiration} if expiration else {})


_RENAMED = {
    "Id": "",
    "Prefix": "",
    "ExpirationInDays": "Days",
    "ExpiredObjectDeleteMarker": "ExpiredObjectDeleteMarker",
}


def _notified(written: Properties) -> Properties:
    """A notification to a queue as S3's API has it."""
    rules = written["Filter"]["S3Key"]["Rules"]
    found = {"QueueArn": written["Queue"], "Events": [written["Event"]]}
    return found | {"Filter": {"Key": {"FilterRules": rules}}}


class _BucketPolicy(_Resource, CloudFormationModel):
    @staticmethod
    def cloudformation_type() -> str:
        return "AWS::S3::BucketPolicy"

    @classmethod
    def create_from_cloudformation_json(
        cls, resource_name: str, cloudformation_json: Properties, *_: Any, **__: Any
    ) -> "_BucketPolicy":
        written = cloudformation_json["Properties"]
        Moto().client("s3").put_bucket_policy(Bucket=written["Bucket"], Policy=json.dumps(written["PolicyDocument"]))
        return cls(resource_name)


class _QueuePolicy(_Resource, CloudFormationModel):
    @staticmethod
    def cloudformation_type() -> str:
        return "AWS::SQS::QueuePolicy"

    @classmethod
    def create_from_cloudformation_json(
        cls, resource_name: str, cloudformation_json: Properties, *_: Any, **__: Any
    ) -> "_QueuePolicy":
        written = cloudformation_json["Properties"]
        for url in written["Queues"]:
            policy = {"Policy": json.dumps(written["PolicyDocument"])}
            Moto().client("sqs").set_queue_attributes(QueueUrl=url, Attributes=policy)
        return cls(resource_name)


class _Role(_Resource, CloudFormationModel):
    @staticmethod
    def cloudformation_name_type() -> str:
        return "RoleName"

    @staticmethod
    def cloudformation_type() -> str:
        return "AWS::IAM::Role"

    @classmethod
    def create_from_cloudformation_json(
        cls, resource_name: str, cloudformation_json: Properties, account_id: str, region_name: str, **_: Any
    ) -> Role:
        written = dict(cloudformation_json["Properties"])
        policies, attached = written.pop("Policies"), written.pop("ManagedPolicyArns")
        role: Role = Role.create_from_cloudformation_json(
            resource_name, {"Properties": written}, account_id, region_name
        )
        iam = Moto().client("iam")
        for policy in policies:
            document = json.dumps(policy["PolicyDocument"])
            iam.put_role_policy(RoleName=role.name, PolicyName=policy["PolicyName"], PolicyDocument=document)
        for arn in attached:
            iam.attach_role_policy(RoleName=role.name, PolicyArn=arn)
        return role


class _Application(_Resource, CloudFormationModel):
    @staticmethod
    def cloudformation_type() -> str:
        return "AWS::EMRServerless::Application"

    @classmethod
    def create_from_cloudformation_json(
        cls, resource_name: str, cloudformation_json: Properties, *_: Any, **__: Any
    ) -> "_Application":
        written = _lowered(cloudformation_json["Properties"])
        written |= {"releaseLabel": RELEASE, "clientToken": resource_name}
        made = Moto().client("emr-serverless").create_application(**written)
        return cls(made["applicationId"], made["arn"])


def _lowered(value: Any) -> Any:
    """Properties with the names of EMR's API, which begin with a small letter; those of Spark's settings stay."""
    if isinstance(value, list):
        return [_lowered(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {k[0].lower() + k[1:]: v if k == "Properties" else _lowered(v) for k, v in value.items()}


for found in (parsing.get_model_list, parsing.get_model_map, parsing.get_name_type_map):
    found.cache_clear()

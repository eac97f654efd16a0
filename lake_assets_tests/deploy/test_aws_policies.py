"""The policies of `deploy/aws/policies`, for users of a real S3 server: each suffices, and every action is needed.

SQS's is tried on moto, which evaluates policies too.
"""

import dataclasses
import itertools
import json
import uuid
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dev.servers.moto import REGION, Moto, moto
from dev.servers.s3 import S3Server
from lake_assets.base.errors import LakeAssetsError, QueueError
from lake_assets.config.sections import SqsSensor
from lake_assets.config.storages import AnyStorage, S3Storage
from lake_assets.orchestration.sensors.sqs_queue import Queue
from lake_assets.spark.task.job import LetterRules, discard_unfinished
from lake_assets.storage.store import Store
from lake_assets.streams.stream import LETTERS_FOLDER, list_scope
from lake_assets.upkeep.checks.facts import Scope
from lake_assets.upkeep.maintenance.compaction import compact
from lake_assets_tests.faults.without_spark import sessions
from lake_assets_tests.ingest.lettering import letters as dead_letters
from lake_assets_tests.ingest.lettering import stored
from lake_assets_tests.ingest.lettering import visible as visible_letters
from lake_assets_tests.lake.commit.test_deltas import visible
from lake_assets_tests.rights import reads_all
from lake_assets_tests.tiers import more, soak
from lake_assets_tests.upkeep.checks.checked import run_check
from lake_assets_tests.upkeep.maintenance.test_compaction import scatter
from lake_assets_tests.wings.land.streams import land_text, stream_of
from lake_assets_tests.world import NW, World, sales
from lake_assets_tests.world_fixtures import bucket_on

__all__ = ["moto", "sessions"]

POLICIES = Path(__file__).parents[2] / "deploy/aws/policies"
PREFIX = "some/prefix"

LIST_UPLOADS = "s3:ListBucketMultipartUploads"

Policy = dict[str, Any]


def policy_of(name: str) -> Policy:
    policy: Policy = json.loads((POLICIES / f"{name}.json").read_text(encoding="utf-8"))
    return policy


def without(policy: Policy, sid: str, action: str) -> Policy:
    """The policy without an action of one statement."""
    statements = [
        statement | {"Action": [a for a in statement["Action"] if (statement["Sid"], a) != (sid, action)]}
        for statement in policy["Statement"]
    ]
    # A policy needs a statement.
    nothing = {"Sid": "Nothing", "Effect": "Allow", "Action": ["s3:GetBucketLocation"], "Resource": "arn:aws:s3:::none"}
    return policy | {"Statement": [nothing, *(statement for statement in statements if statement["Action"])]}


@dataclass
class Account:
    """A world of the buckets' owner, on a server that makes users with policies."""

    owner: World
    s3: S3Server
    folder: Path
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def user(self, policy: Policy) -> World:
        """The same world, by the keys of a new user who has this policy."""
        deltas, letters = self.owner.options.get("deltas"), self.owner.options.get("dead_letters")
        places = {
            "LANDING_BUCKET": str(self.owner.source["bucket"]),
            "LAKE_BUCKET": str(self.owner.storage["bucket"]),
            "LANDING_PREFIX": PREFIX,
            "LAKE_PREFIX": PREFIX,
            "DELTAS_BUCKET": str(deltas["to"]["bucket"] if deltas else ""),
            "DELTAS_PREFIX": PREFIX,
            "LETTERS_BUCKET": str(letters["to"]["bucket"] if letters else self.owner.source["bucket"]),
            "LETTERS_PREFIX": PREFIX if letters else f"{PREFIX}/{LETTERS_FOLDER}",
        }
        text = json.dumps(policy)
        for place, value in places.items():
            text = text.replace(place, value)
        of_user = json.loads(text)
        of_bucket = [s for s in of_user["Statement"] if s["Action"] == [LIST_UPLOADS]]
        of_user["Statement"] = [s for s in of_user["Statement"] if s not in of_bucket]
        iam = boto3.client(
            "iam",
            endpoint_url=self.s3.endpoint,
            aws_access_key_id=self.s3.access_key,
            aws_secret_access_key=self.s3.secret_key,
            region_name=self.s3.region,
        )
        name = f"u-{uuid.uuid4().hex}"
        user = iam.create_user(UserName=name)["User"]
        made = iam.create_access_key(UserName=name)["AccessKey"]
        iam.put_user_policy(UserName=name, PolicyName="policy", PolicyDocument=json.dumps(of_user))
        for statement in of_bucket:  # SeaweedFS knows this action in policies of buckets only
            statements = [statement | {"Principal": {"AWS": user["Arn"]}}]
            document = json.dumps({"Version": "2012-10-17", "Statement": statements})
            self.s3.client().put_bucket_policy(Bucket=statement["Resource"].rpartition(":")[2], Policy=document)
        keys = {"key_id": made["AccessKeyId"], "secret": made["SecretAccessKey"]}
        options = dict(self.owner.options)
        options |= {name: value | {"to": value["to"] | keys} for name, value in options.items() if "to" in value}
        return dataclasses.replace(
            self.owner, source=self.owner.source | keys, storage=self.owner.storage | keys, options=options
        )

    def try_steps(self, name: str, user: World) -> None:
        """Do all that a user of this policy does."""
        for step in STEPS[name]:
            step(self, user)

    def number(self) -> float:
        return float(next(self.numbers))


def refresh(account: Account, user: World) -> None:
    account.owner.land(NW, sales(account.number()))
    assert user.ingest(NW).row.status == "committed"
    assert user.ingest(NW).row.status == "skipped"


def check(_: Account, user: World) -> None:
    result = run_check(user.stream, "data_files", Scope())
    assert result.passed, result


def give_up(account: Account, user: World) -> None:
    """What a failed task has written, and the upload that it has begun, are removed."""
    owned, storage = (world.config.lakes["test"].own_storage for world in (account.owner, user))
    _give_up(account, owned, storage)
    assert not {"whole.parquet", "begun.parquet"} & account.owner.data_files()


def _give_up(account: Account, owned: AnyStorage, storage: AnyStorage, folder: str = "") -> None:
    assert isinstance(storage, S3Storage)
    with Store(owned).create(f"{folder}whole.parquet") as file:
        file.write(b"whole")
    account.s3.client().create_multipart_upload(Bucket=storage.bucket, Key=f"{PREFIX}/{folder}begun.parquet")
    uris = [f"{storage.root}/{folder}{name}.parquet" for name in ("whole", "begun")]

    discard_unfinished(storage, uris, KeyError())

    assert f"{folder}whole.parquet" not in {obj.key for obj in Store(owned).list(folder)}
    assert "Uploads" not in account.s3.client().list_multipart_uploads(Bucket=storage.bucket)


def maintain_all(account: Account, user: World) -> None:
    """Files are compacted, and the old ones deleted."""
    scatter(account.owner, NW, 3)
    assert [item.why for item in compact(user.stream, 3, user.sessions)] == [None]
    done = user.tidy(days=30)
    assert done.cleaned.deleted


def deltas_of(world: World) -> AnyStorage:
    deltas = world.config.streams["sales"].deltas
    assert deltas is not None
    return deltas.to


def export(account: Account, user: World) -> None:
    """A run exports its changes, and removes what a failed one has written."""
    before = len(visible(account.owner))
    account.owner.land(NW, sales(account.number()))
    assert user.ingest(NW).row.status == "committed"
    assert len(visible(account.owner)) == before + 1
    _give_up(account, deltas_of(account.owner), deltas_of(user))


def maintain_deltas(account: Account, user: World) -> None:
    """Old exported files are deleted, and the list of the newest is written."""
    account.owner.land(NW, sales(account.number()))
    account.owner.ingest(NW)
    done = user.tidy(days=30)
    assert done.deltas
    latest = account.s3.client().get_object(Bucket=user.options["deltas"]["to"]["bucket"], Key=f"{PREFIX}/_latest.json")
    assert json.loads(latest["Body"].read())["files"] == []


def read_deltas(account: Account, user: World) -> None:
    storage = deltas_of(user)
    for _, uri in visible(account.owner):
        with Store(storage).open(uri.removeprefix(f"{storage.root}/")) as file:
            assert pq.read_table(file).num_rows


def letters_of(world: World) -> LetterRules:
    rules = world.stream.letters
    assert rules is not None
    return rules


def letter(account: Account, user: World) -> None:
    """A run writes a row of another partition as a dead letter, and removes what a failed one has written."""
    rows = sales(account.number(), 0.5).append_column("region", pa.array(["NW", "SW"]))
    account.owner.land(NW, rows)
    assert user.ingest(NW).row.rows_dead_lettered == 2
    folder = letters_of(user).folder
    _give_up(account, letters_of(account.owner).storage, letters_of(user).storage, folder)


def maintain_letters(account: Account, user: World) -> None:
    """The file of a killed run is deleted; that of a commit stays."""
    rules = letters_of(account.owner)
    with Store(rules.storage).create(f"{rules.folder}of-a-killed-run-{'0' * 32}-{rules.tag}.parquet") as file:
        file.write(b"of no commit")
    done = user.tidy(days=30)
    assert [obj.uri.rpartition("/")[2][:16] for obj in done.letters] == ["of-a-killed-run-"]
    assert stored(account.owner) == set(visible_letters(account.owner))


def read_letters(account: Account, user: World) -> None:
    assert dead_letters(user, visible_letters(account.owner))


def query(account: Account, user: World) -> None:
    assert user.totals(NW) == account.owner.totals(NW)


def read(account: Account, user: World) -> None:
    """All commands that read, of a partition that has changed since, so that its objects are read too."""
    account.owner.land(NW, sales(account.number()))
    reads_all(user.config_file(account.folder))


def list_landed(_: Account, user: World) -> None:
    landed, _unmatched = list_scope(user.stream, None)
    assert landed


def land(account: Account, user: World) -> None:
    records = account.folder / "records.jsonl"
    rows = [{"region": "NW", "date": "2026-02-11", "id": 1, "total": account.number()}]
    records.write_text("\n".join(map(json.dumps, rows)))
    land_text(stream_of(user.source), records)


STEPS: dict[str, tuple[Callable[[Account, World], None], ...]] = {
    "ingest": (refresh, check, give_up),
    "maintain": (maintain_all,),
    "query": (query,),
    "read": (read,),
    "export-deltas": (export,),
    "maintain-deltas": (maintain_deltas,),
    "read-deltas": (read_deltas,),
    "write-letters": (letter,),
    "maintain-letters": (maintain_letters,),
    "read-letters": (read_letters,),
    "sense-objects": (list_landed,),
    "land": (land,),
}
BASES = {  # the policies that a user has too
    "export-deltas": "ingest",
    "maintain-deltas": "maintain",
    "write-letters": "ingest",
    "maintain-letters": "maintain",
}
ACTIONS = [
    (name, statement["Sid"], action)
    for name in STEPS
    for statement in policy_of(name)["Statement"]
    for action in statement["Action"]
    if action != "s3:AbortMultipartUpload"  # SeaweedFS permits it with s3:PutObject
]


def based(name: str, policy: Policy) -> Policy:
    """The policy, with the statements of the other one that its users have."""
    also = policy_of(BASES[name])["Statement"] if name in BASES else []
    return policy | {"Statement": [*policy["Statement"], *also]}


@pytest.fixture
def account(local_world: World, s3: S3Server, tmp_path: Path, name: str, request: pytest.FixtureRequest) -> Account:
    """The buckets that users of this policy need; dead letters have their own if the test's `own_bucket` says so."""
    local_world.source, local_world.storage = bucket_on(s3), bucket_on(s3)
    if name.endswith("-deltas"):
        local_world.options = {"deltas": {"to": bucket_on(s3), "latest": True}}
        local_world.lake_options = {"maintenance": {"delta_retention": 1}}
    if name.endswith("-letters"):
        local_world.options = {"on_bad_row": "dead_letter"}
        if request.node.callspec.params.get("own_bucket"):
            local_world.options["dead_letters"] = {"to": bucket_on(s3)}
        # A row of another partition.
        local_world.land(NW, sales(0, 0.5).append_column("region", pa.array(["NW", "SW"])), "bad.parquet")
    local_world.commit(NW, 1)
    return Account(local_world, s3, tmp_path)


@pytest.mark.parametrize(
    ("name", "own_bucket"),
    [
        ("ingest", False),
        *more((name, False) for name in STEPS if name != "ingest"),
        *more((name, True) for name in STEPS if name.endswith("-letters")),
    ],
)
def test_a_policy_suffices(account: Account, name: str, own_bucket: bool) -> None:
    if own_bucket:
        assert letters_of(account.owner).storage.root != account.owner.stream.source.root

    account.try_steps(name, account.user(based(name, policy_of(name))))


@pytest.mark.parametrize(("name", "sid", "action"), [*more(ACTIONS[:1]), *soak(ACTIONS[1:])])
def test_every_action_of_a_policy_is_needed(account: Account, name: str, sid: str, action: str) -> None:
    user = account.user(based(name, without(policy_of(name), sid, action)))

    with pytest.raises((LakeAssetsError, AssertionError, OSError, duckdb.HTTPException)):
        account.try_steps(name, user)


@pytest.mark.parametrize("missing", [None, *more(["sqs:ReceiveMessage", "sqs:DeleteMessage"])])
def test_a_queue_needs_every_action_of_its_policy(moto: Moto, missing: str | None) -> None:
    url, name = moto.new_queue(VisibilityTimeout="0"), "sensor"
    moto.send(url, "a message")
    arn = moto.client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    policy = without(policy_of("sense-queue"), "ReceiveNotifications", missing or "")
    text = json.dumps(policy).replace("arn:aws:sqs:REGION:ACCOUNT:QUEUE", arn)
    text = text.replace("sqs:DeleteMessage", "sqs:DeleteMessageBatch")  # an action of its own in moto, and not in AWS
    iam = moto.client("iam")
    iam.create_user(UserName=name)
    made = iam.create_access_key(UserName=name)["AccessKey"]
    iam.put_user_policy(UserName=name, PolicyName="policy", PolicyDocument=text)
    keys = {"region": REGION, "key_id": made["AccessKeyId"], "secret": made["SecretAccessKey"]}
    queue = Queue(SqsSensor.model_validate({"type": "sqs", "queue_url": url, "wait": 0, **keys}))

    with pytest.raises(QueueError, match=r"403|refuses access") if missing else nullcontext():
        moto.by_policies(lambda: queue.delete([message.receipt for message in queue.receive()]))
    assert moto.left(url) == (1 if missing else 0)

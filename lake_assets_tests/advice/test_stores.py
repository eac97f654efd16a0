"""Advice of errors of folders, buckets and web servers, from which a stream reads and to which it writes."""

import json
import os
import resource
import tempfile
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from dev.servers.absent import absent
from dev.servers.listener import Listener
from dev.servers.odd_s3 import OddS3, odd_s3, role_keys
from dev.servers.postgres import PostgresServer
from dev.servers.s3 import S3Server
from dev.servers.tls import authority_in
from dev.servers.web import plain_web_server
from lake_assets.api import open_stream
from lake_assets.config.storages import GcsStorage
from lake_assets.storage.store import Store
from lake_assets.upkeep.doctor import probe_reading
from lake_assets_tests.advice.cases import Case, Cases, Steps, command, follow
from lake_assets_tests.faults.outage import noise, small_disk
from lake_assets_tests.storage.test_refusals import as_plain_user
from lake_assets_tests.test_denied import by_user
from lake_assets_tests.world import NW, SW, World, sales
from lake_assets_tests.world_fixtures import bucket_on, database_on

case = Cases()
of_server = Cases(pytest.mark.more)
KEY = "region=NW/date=2026-02-11/batch_1.parquet"


# Folders.


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder below those that every user may enter, which those of pytest are not."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@case
def a_plain_user_gets_rights_to_what_has_landed(local_world: World, open_folder: Path) -> Steps:
    local_world.source = {"type": "local", "path": str(open_folder)}
    file = Path(local_world.land(NW, sales(1)))
    look = partial(as_plain_user, partial(local_world.stream.source.list, "region=NW/"))
    for path, mode in ((file.parent, 0o000), (file.parent.parent, 0o644)):
        path.chmod(mode)
        yield look, "rights to it (chmod, chown): to read a file, to read and enter a folder"
        path.chmod(0o755)
    assert look()
    return [1] if local_world.ingest(NW) else None


@pytest.fixture
def shared_world(local_world: World, open_folder: Path) -> World:
    """The local world, in a folder that every user may enter."""
    open_folder.chmod(0o777)
    world = World.in_folder(open_folder, local_world.sessions)
    local_world.catalog, local_world.storage, local_world.source = world.catalog, world.storage, world.source
    return local_world


@case
def a_plain_user_gets_rights_to_the_folder_that_is_written_to(local_world: World, shared_world: World) -> Steps:
    data = Path(shared_world.storage["path"])
    data.mkdir(mode=0o755)
    local_world.land(NW, sales(1))
    ingest = partial(as_plain_user, partial(local_world.ingest, NW))
    yield ingest, "rights to it (chmod, chown): to read a file"
    data.chmod(0o777)
    ingest()
    return [1]


@case
def a_name_that_is_no_text_is_changed(local_world: World) -> Steps:
    landed = Path(local_world.land(NW, sales(1)))
    odd = landed.rename(landed.with_name(os.fsdecode(b"\xff.parquet")))
    look = local_world.stream.source.probe
    yield look, "storage_errors.py: rename it | storage_errors.py: move it away"
    away = odd.rename(Path(local_world.storage["path"]).with_name("away"))
    assert not look()
    away.rename(landed)
    assert look()
    return [1] if local_world.ingest(NW) else None


@case
def a_link_to_a_file_that_is_gone_is_mended(local_world: World) -> Steps:
    landed = Path(local_world.land(NW, sales(1)))
    link = landed.with_name("link.parquet")
    link.symlink_to("gone.txt")
    yield "restore that file, mount its disk"
    pq.write_table(sales(2), landed.with_name("gone.txt"))
    local_world.ingest(NW)
    landed.with_name("gone.txt").unlink()
    yield "storage_errors.py: remove the link"
    link.unlink()
    return [1]


@pytest.fixture
def odd(local_world: World) -> Iterator[OddS3]:
    """The bucket of the world's landing zone, with an object."""
    with odd_s3() as server:
        server.objects[KEY] = Path(local_world.land(NW, sales(1))).read_bytes()
        local_world.source = server.source
        yield server


def says(code: str) -> bytes:
    return b"<Error><Code>" + code.encode() + b"</Code></Error>"


@case
def an_object_in_an_archive_is_restored(local_world: World, odd: OddS3) -> Steps:
    odd.answers = lambda _, key: (403, says("InvalidObjectState")) if key else None
    yield "restore it there and ingest the partition with --force | let the stream's `files` leave it out"
    local_world.options = {"files": "*.csv"}
    assert local_world.stream.manifest(local_world.partition(NW)).objects == ()
    local_world.options = {}
    odd.answers = lambda *_: None
    local_world.ingest(NW, force=True)
    return [1]


@case
def a_clock_that_is_wrong_is_set(local_world: World, odd: OddS3) -> Steps:
    odd.answers = lambda *_: (403, says("RequestTimeTooSkewed"))
    yield partial(local_world.ingest, NW), "set the clock, such as by NTP"
    odd.answers = lambda *_: None
    local_world.ingest(NW)
    return [1]


@case
def a_role_that_trusts_nobody_is_corrected(local_world: World, odd: OddS3) -> Steps:
    role = {"role_arn": "arn:aws:iam::123456789012:role/lake"}
    with odd_s3() as sts:
        sts.answers = lambda *_: (403, says("AccessDenied"))
        local_world.source = odd.source | role | {"sts_endpoint": sts.source["endpoint"], "external_id": "wrong"}
        yield "let the role trust the user | grant this user sts:AssumeRole | correct role_arn and external_id"
        sts.answers = lambda *_: (200, role_keys())
        local_world.ingest(NW)
        sts.answers = lambda *_: (503, b"")
        requests = {"requests": {"retries": 0, "timeout": 59}}  # other clients, without keys
        local_world.source = {**local_world.source, **requests}
        yield "correct `sts_endpoint` or `proxy` | storage_errors.py: run it again when it answers"
        sts.answers = lambda *_: (200, role_keys())
        local_world.ingest(NW, force=True)
    return [1]


@case
def a_certificate_that_is_not_trusted_is_that_of_another_host(local_world: World, odd: OddS3, tmp_path: Path) -> Steps:
    with odd_s3(authority_in(tmp_path).context) as other:
        local_world.source = other.source
        yield partial(local_world.ingest, NW), "correct the host in `endpoint`"
    local_world.source = odd.source
    local_world.ingest(NW)
    return [1]


@case
def a_bucket_in_another_region_gets_its_region(local_world: World, odd: OddS3) -> Steps:
    odd.answers = lambda *_: (400, says("AuthorizationHeaderMalformed"))
    yield "set `region` of the storage to that of its bucket"
    odd.answers = lambda *_: None
    local_world.source = odd.source | {"region": "eu-central-1"}
    return [1]


@case
def a_server_with_a_certificate_of_an_authority_of_ones_own_is_trusted(
    local_world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Steps:
    body, authority = Path(local_world.land(NW, sales(1))).read_bytes(), authority_in(tmp_path)
    with odd_s3(authority.context) as server:
        server.objects[KEY] = body
        local_world.source = server.source
        yield "name the file of the authority that signed it as `certificates` of the storage"
        local_world.source = server.source | {"certificates": str(authority.file)}
        local_world.ingest(NW)
        local_world.source = server.source
        yield partial(local_world.ingest, NW, force=True), "in AWS_CA_BUNDLE"
        monkeypatch.setenv("AWS_CA_BUNDLE", str(authority.file))
        local_world.ingest(NW, force=True)
        assert local_world.totals() == [1]
    return None


@case
def a_file_of_certificates_is_corrected(local_world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Steps:
    body, authority = Path(local_world.land(NW, sales(1))).read_bytes(), authority_in(tmp_path)
    with odd_s3(authority.context) as server:
        server.objects[KEY] = body
        local_world.source = server.source | {"certificates": str(tmp_path / "gone.pem")}
        yield "correct `certificates` of the storage"
        local_world.source = server.source | {"certificates": str(authority.file)}
        local_world.ingest(NW)
        local_world.source = server.source
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "gone.pem"))
        yield partial(local_world.ingest, NW, force=True), "AWS_CA_BUNDLE and SSL_CERT_FILE"
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
        local_world.ingest(NW, force=True)
        assert local_world.totals() == [1]
    return None


@case
def a_bucket_whose_requester_pays_is_told_who_pays(local_world: World, odd: OddS3) -> Steps:
    def answers(*_: str) -> tuple[int, bytes] | None:
        return None if "x-amz-request-payer" in odd.requests[-1][2] else (403, says("AccessDenied"))

    odd.answers = answers
    yield "set `requester_pays: true`"
    local_world.source = odd.source | {"requester_pays": True}
    return [1]


@case
def an_endpoint_that_sends_requests_on_is_that_of_the_other_server(local_world: World, odd: OddS3) -> Steps:
    with odd_s3() as gate:
        gate.other = odd.endpoint
        local_world.source = gate.source
        yield "correct `endpoint` to the server that answers"
    local_world.source = odd.source
    return [1]


@case
def an_endpoint_of_a_console_is_corrected(local_world: World, odd: OddS3) -> Steps:
    with odd_s3() as console:
        console.answers = lambda *_: (200, b"<html></html>")
        local_world.source = console.source
        yield "correct `endpoint` to the address of its API"
    local_world.source = odd.source
    return [1]


@case
def a_proxy_that_refuses_head_permits_it(local_world: World, odd: OddS3) -> Steps:
    odd.answers = lambda method, _: (405, b"") if method == "HEAD" else None
    yield "permit requests of HEAD as of GET"
    yield partial(probe_reading, local_world.stream.source), "permit requests of HEAD as of GET"
    odd.answers = lambda *_: None
    assert probe_reading(local_world.stream.source)
    local_world.ingest(NW)
    return [1]


@case
def a_store_that_lists_in_a_circle_is_corrected(local_world: World, odd: OddS3) -> Steps:
    odd.objects |= {KEY.replace("batch", f"_{number:04}"): b"x" for number in range(1001)}
    with mock.patch.object(odd, "listing", lambda query: OddS3.listing(odd, query | {"continuation-token": ""})):
        yield "let the store's operator correct the pages of its listings"
    local_world.ingest(NW)
    return [1]


@case
def a_server_that_knows_no_checksums_of_new_clients_gets_none(local_world: World, odd: OddS3) -> Steps:
    def answers(*_: str) -> tuple[int, bytes] | None:
        return (400, says("MissingContentMD5")) if "x-amz-trailer" in odd.requests[-1][2] else None

    local_world.source = {"type": "local", "path": str(Path(local_world.storage["path"]).parent / "landing")}
    totals = np.random.default_rng(0).random(1_500_000)  # more than 10 MiB, which Arrow's client uploads
    local_world.land(NW, pa.table({"id": np.arange(len(totals)), "total": totals}))
    odd.answers = answers
    local_world.storage = odd.source | {"prefix": "lake"}
    yield "set `checksums: when_required` of the storage, and run it again"
    local_world.storage |= {"checksums": "when_required"}
    local_world.ingest(NW)
    (file,) = (key for key in odd.objects if key.startswith("lake/") and key.endswith(".parquet"))
    assert pq.read_table(pa.BufferReader(odd.objects[file])).column("total").to_numpy().sum() == totals.sum()
    return None


@case
def an_object_without_bytes_is_landed_again(local_world: World) -> Steps:
    local_world.land(NW, b"")
    yield "land it again"
    local_world.land(NW, sales(1))
    return [1]


@case
def a_disk_that_is_full_gets_space(local_world: World, tmp_path: Path) -> Steps:
    with small_disk(tmp_path / "data", "400k"):
        other = tmp_path / "data/other"
        other.write_bytes(b"x" * 300_000)
        local_world.land(NW, noise())
        yield "storage_errors.py: free space there"
        other.unlink()
        local_world.ingest(NW)
        assert len(local_world.totals()) == noise().num_rows
    return None


@case
def a_disk_that_is_full_is_left_for_a_larger_one(local_world: World, tmp_path: Path) -> Steps:
    with small_disk(tmp_path / "data"):
        local_world.land(NW, noise())
        yield "move the storage to a larger disk or quota, and run it again"
    local_world.ingest(NW)
    assert len(local_world.totals()) == noise().num_rows
    return None


@case
def a_disk_that_fails_is_replaced(local_world: World) -> Steps:
    broken = next((file for file in Path("/sys/devices").glob("**/autosuspend_delay_ms") if fails(file)), None)
    if broken is None:
        absent("no file whose reading fails, as on a disk that is broken: Linux has some in /sys")
    link = Path(local_world.land(NW, sales(1)))
    link.unlink()
    link.symlink_to(broken)
    yield "repair the disk or network share, and run it again"
    link.unlink()
    local_world.land(NW, sales(1))
    return [1]


def fails(file: Path) -> bool:
    try:
        file.read_bytes()
    except OSError:
        return True
    return False


@case
def a_process_with_too_many_files_gets_a_higher_limit(local_world: World) -> Steps:
    local_world.land(NW, sales(1))
    look = partial(local_world.stream.source.list, "region=NW/")
    (few, most) = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, most))
    try:
        yield look, "raise the limit of open files (ulimit -n)"
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (few, most))
    local_world.ingest(NW)
    return [1]


@case
def a_file_in_the_place_of_a_folder_is_moved(local_world: World) -> Steps:
    local_world.land(NW, sales(1))
    taken = Path(local_world.storage["path"], "main")
    taken.parent.mkdir()
    taken.write_bytes(b"")
    yield "correct the cause, and run it again"
    taken.unlink()
    return [1]


@case
def a_value_that_makes_too_long_a_name_is_shortened(local_world: World) -> Steps:
    local_world.options = {"layout": "{region}/{date}"}
    zone, long = Path(local_world.source["path"]), "N" * 250
    (zone / long / "2026-02-11").mkdir(parents=True)
    pq.write_table(sales(1), zone / long / "2026-02-11/a.parquet")
    yield partial(local_world.ingest, f"region={long},date=2026-02-11"), "shorten the partition's value"
    (zone / long).rename(zone / "NW")
    local_world.ingest(NW)
    return [1]


@case
def a_landing_zone_that_does_not_exist_is_corrected(local_world: World) -> Steps:
    source = local_world.source
    local_world.land(NW, sales(1))
    local_world.source = {"type": "local", "path": f"{source['path']}s"}
    yield "correct it in the config (`source` of a stream)"
    local_world.source = source
    return [1]


@case
def an_object_in_the_place_of_another_is_moved_away(local_world: World) -> Steps:
    foreign, store = Path(local_world.land(NW, sales(8, 9))), Store(local_world.config.streams["sales"].source)
    body = local_world.land(SW, sales(1))
    put = partial(store.put_new, KEY, Path(body).read_bytes())
    yield put, "move it away, and run it again"
    foreign.rename(body)
    put()
    local_world.ingest(NW)
    return [1]


def lost(world: World) -> Steps:
    """Lose the data file of a partition, and do what is said to a reader who has not seen it."""
    world.commit(NW, 1)
    store = Store(world.config.lakes["test"].own_storage)
    store.delete(tuple(file.key for file in store.list(files="*.parquet")))
    yield open_stream(world.config, "sales").partition(NW).read, "ingest its partition with --force"
    world.ingest(NW, force=True)
    return [1]


@case
def a_data_file_that_is_gone_is_written_again(local_world: World) -> Steps:
    return (yield from lost(local_world))


@case
def a_registered_object_that_is_gone_leaves_the_lake(local_world: World) -> Steps:
    local_world.options = {"mode": "index"}
    local_world.commit(SW, 5)
    local_world.commit(NW, 1)
    local_world.unland(NW)
    attempt = open_stream(local_world.config, "sales").partition(NW).read
    yield attempt, "run `lake-assets index STREAM --repair` if it is"
    command(local_world, "index", "sales", "--repair")
    return [5]


@of_server
def a_data_file_that_is_gone_from_a_bucket_is_written_again(local_world: World, s3: S3Server) -> Steps:
    local_world.storage = bucket_on(s3)
    return (yield from lost(local_world))


# Web servers, whose objects are known by their names.

ASKED_BY_NAME = {
    "files": "batch_1.parquet",
    "partitions": {"region": {"values": ["NW"]}, "date": {"type": "date", "start": "2026-01-01"}},
}


@case
def a_file_that_is_not_public_is_made_so(local_world: World) -> Steps:
    local_world.land(NW, sales(1))
    local_world.options = ASKED_BY_NAME
    folder = Path(local_world.source["path"])
    with plain_web_server(folder, status=403) as refusing:
        local_world.source = {"type": "web", "url": refusing.url}
        yield partial(local_world.ingest, NW), "read public files over https://"
    with plain_web_server(folder) as public:
        local_world.source = {"type": "web", "url": public.url}
        local_world.ingest(NW)
    return [1]


@case
def a_web_server_that_is_away_is_looked_for_where_it_is(local_world: World) -> Steps:
    local_world.land(NW, sales(1))
    local_world.options = ASKED_BY_NAME
    with plain_web_server(Path(local_world.source["path"])) as web:
        local_world.source = {"type": "web", "url": "http://127.0.0.1:9"}
        yield partial(local_world.ingest, NW), " of the storage"
        local_world.source = {"type": "web", "url": web.url}
        local_world.ingest(NW)
    return [1]


@case
def a_file_whose_changes_cannot_be_seen_is_served_with_its_time(local_world: World) -> Steps:
    local_world.land(NW, sales(1))
    zone, local_world.options = local_world.source, ASKED_BY_NAME
    with plain_web_server(Path(zone["path"]), hidden=("Last-Modified",)) as silent:
        local_world.source = {"type": "web", "url": silent.url}
        yield "let the server send one of them | land the file in a folder or bucket"
    with plain_web_server(Path(zone["path"]), hidden=("Last-Modified",), headers={"ETag": '"1"'}) as telling:
        local_world.source = {"type": "web", "url": telling.url}
        local_world.ingest(NW)
    assert local_world.totals() == [1]
    local_world.source = zone
    return [1]


# Buckets, and a catalog's server.


@of_server
def an_object_behind_a_web_address_is_read_from_its_bucket(local_world: World, s3: S3Server) -> Steps:
    bucket = bucket_on(s3)
    local_world.source = bucket
    local_world.land(NW, sales(1))
    local_world.options = ASKED_BY_NAME
    local_world.source = {"type": "web", "url": f"{s3.endpoint}/{bucket['bucket']}/{bucket['prefix']}"}
    yield "read public files over https://, and others from the bucket behind it"
    local_world.source = bucket
    return [1]


@of_server
def an_object_that_may_not_be_read_is_granted(local_world: World, s3: S3Server) -> Steps:
    bucket = local_world.source = bucket_on(s3)
    local_world.land(NW, sales(1))
    s3.deny_reading(bucket["bucket"], f"some/prefix/{KEY}")
    local_world.source = by_user(s3, bucket, "reader")
    yield "if it is granted already"
    s3.client().delete_bucket_policy(Bucket=bucket["bucket"])
    local_world.ingest(NW)
    local_world.source = by_user(s3, bucket, "lister")
    yield partial(local_world.ingest, NW, force=True), "if it is granted already"
    local_world.source = bucket
    local_world.ingest(NW, force=True)
    return [1]


@of_server
def a_bucket_that_may_not_be_listed_is_granted(local_world: World, s3: S3Server) -> Steps:
    bucket = local_world.source = bucket_on(s3)
    local_world.land(NW, sales(1))
    arn = f"arn:aws:s3:::{bucket['bucket']}"
    statement = {"Effect": "Deny", "Principal": "*", "Action": ["s3:ListBucket"], "Resource": [arn]}
    policy = {"Version": "2012-10-17", "Statement": [statement]}
    s3.client().put_bucket_policy(Bucket=bucket["bucket"], Policy=json.dumps(policy))
    local_world.source = by_user(s3, bucket, "reader")
    yield "if it is granted already"
    s3.client().delete_bucket_policy(Bucket=bucket["bucket"])
    return [1]


@of_server
def a_bucket_without_keys_gets_those_of_the_environment(
    local_world: World, s3: S3Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Steps:
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    bucket = local_world.source = bucket_on(s3)
    local_world.land(NW, sales(1))
    local_world.source = {name: value for name, value in bucket.items() if name not in ("key_id", "secret")}
    yield "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile or a role | give key_id and secret"
    profiles = tmp_path / "credentials"
    profiles.write_text(f"[ours]\naws_access_key_id = {s3.access_key}\naws_secret_access_key = {s3.secret_key}\n")
    with monkeypatch.context() as environment:
        environment.setenv("AWS_ACCESS_KEY_ID", "nobody")
        environment.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
        yield "the role of the credential chain"
    local_world._opened = None  # as in another process
    for variables in (
        {"AWS_ACCESS_KEY_ID": s3.access_key, "AWS_SECRET_ACCESS_KEY": s3.secret_key},
        {"AWS_SHARED_CREDENTIALS_FILE": str(profiles), "AWS_PROFILE": "ours"},
    ):
        with monkeypatch.context() as environment:
            for name, value in variables.items():
                environment.setenv(name, value)
            local_world.ingest(NW, force=True)
    local_world.source = bucket
    return [1]


@of_server
def a_server_that_is_away_is_looked_for_where_it_is(local_world: World, s3: S3Server) -> Steps:
    bucket = local_world.source = bucket_on(s3)
    local_world.land(NW, sales(1))
    local_world.source = bucket | {"endpoint": "http://127.0.0.1:9"}
    yield " of the storage"
    local_world.source = bucket
    return [1]


@of_server
def a_bucket_that_does_not_exist_is_corrected(local_world: World, s3: S3Server) -> Steps:
    bucket = local_world.source = bucket_on(s3)
    local_world.land(NW, sales(1))
    local_world.source = bucket | {"bucket": f"{bucket['bucket']}-none"}
    yield "storage_errors.py: create it | correct `"
    s3.client().create_bucket(Bucket=local_world.source["bucket"])
    local_world.land(NW, sales(2))
    local_world.ingest(NW)
    assert local_world.totals() == [2]
    local_world.source = bucket
    return [1]


@of_server
def a_bucket_of_the_lake_that_does_not_exist_is_created(local_world: World, tmp_path: Path) -> Steps:
    body = b"<?xml version='1.0'?><Error><Code>NoSuchBucket</Code><Message>no</Message></Error>"
    local_world.land(NW, sales(1))
    with closing(Listener(404, body, "application/xml")) as server:
        keys = {"key_id": "a-key", "secret": "a-secret"}
        local_world.storage = {"type": "s3", "bucket": "lake", "endpoint": server.url, **keys}
        yield "storage_errors.py: create it | correct `"
    local_world.catalog = {"type": "sqlite", "path": str(tmp_path / "new.sqlite")}
    local_world.storage = {"type": "local", "path": str(tmp_path / "new")}
    return [1]


@of_server
def a_catalog_is_looked_for_where_its_server_runs(local_world: World, postgres: PostgresServer) -> Steps:
    catalog = database_on(postgres)
    local_world.land(NW, sales(1))
    local_world.catalog = catalog | {"port": 1}
    yield "correct host and port"
    local_world.catalog = catalog
    return [1]


@case
def a_key_file_of_google_is_corrected(tmp_path: Path) -> Steps:
    file = tmp_path / "key.json"
    file.write_text("{}")
    storage = GcsStorage(bucket="lake", service_account=str(file))
    yield partial(Store(storage).open, "a"), "correct the key file"
    key = rsa.generate_private_key(65537, 2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    with closing(Listener(200, json.dumps({"access_token": "t", "expires_in": 3600}).encode())) as tokens:
        fields = {"client_email": "a@b", "private_key": key.decode(), "token_uri": tokens.url, "private_key_id": "1"}
        file.write_text(json.dumps({"type": "service_account", **fields}))
        assert Store(storage).backend.as_arrow()
    assert tokens.asked
    return None


@pytest.mark.parametrize("steps", [*case, *of_server])
@pytest.mark.usefixtures("impatient")
def test_advice_that_is_followed_ends_in_the_right_rows(steps: Case, request: pytest.FixtureRequest) -> None:
    follow(steps, request)

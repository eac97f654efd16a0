"""A project for files that have landed, by the commands of its page: in a folder, and in a bucket."""

import datetime as dt
import re
import shutil
from pathlib import Path

import pytest

from dev.servers.s3 import S3Server
from lake_assets.wings.templates.starter.project import start
from lake_assets_tests.pages.transcript import DOCS, Shown, follow, shown

pytestmark = pytest.mark.more

PAGE = DOCS / "how-to" / "start-from-a-landing-zone.md"
BUCKET = "retail-landing"


def commands(*, of_the_bucket: bool) -> list[Shown]:
    """Those of the page that show their outputs; the bucket has a project of its own."""
    first, _, _ = PAGE.read_text("utf-8").partition("## A bucket")
    begin = first.count("\n")
    return [
        each
        for each in shown(PAGE)
        if each.output is not None and (int(each.place.rpartition(":")[2]) > begin) == of_the_bucket
    ]


@pytest.fixture
def landed(folder: Path) -> list[Path]:
    """Files of two regions and two days, as paths below `landing`, which is all that the current folder has."""
    assert not list(folder.iterdir())
    start(Path("started"), dt.date(2026, 2, 11))
    Path("started/landing").rename("landing")
    shutil.rmtree("started")
    return [
        file.rename(file.with_name("part-0.parquet")).relative_to("landing")
        for file in sorted(Path("landing/sales").rglob("*.parquet"))
    ]


def test_the_commands_of_the_page_have_the_outputs_that_it_shows(landed: list[Path]) -> None:
    for file in landed:
        copy = Path("landing/stock/2026/02", file.parent.name.removeprefix("date=2026-02-"), file.name)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy("landing" / file, copy)

    follow(commands(of_the_bucket=False))


def test_the_commands_for_a_bucket_have_the_outputs_that_the_page_shows(
    landed: list[Path], s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in {
        "AWS_ENDPOINT_URL": s3.endpoint,
        "AWS_ACCESS_KEY_ID": s3.access_key,
        "AWS_SECRET_ACCESS_KEY": s3.secret_key,
        "AWS_REGION": s3.region,
    }.items():
        monkeypatch.setenv(name, text)
    s3.client().create_bucket(Bucket=BUCKET)
    for file in landed:
        for stream in ("sales", "returns"):
            key = Path("pos", stream, *file.parts[1:])
            s3.put(BUCKET, str(key), Path("landing", file).read_bytes())
    (config,) = re.findall(r"^```yaml\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    config = config.replace("http://localhost:8333", s3.endpoint)

    follow(commands(of_the_bucket=True), {"lake-assets validate": lambda: Path("lake.yaml").write_text(config)})

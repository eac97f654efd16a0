"""The image, built and run by buildah on a base of Debian's packages, without a registry: `make image-test`."""

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
BASE = os.environ.get("LAKE_ASSETS_IMAGE_BASE")
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
INDEX = Path("/etc/pip.conf")  # of the machine, if it has one

pytestmark = [
    pytest.mark.skipif(BASE is None, reason="it takes minutes; `make image-test` makes the base and runs it"),
    pytest.mark.timeout(1800),
]


@dataclass(frozen=True)
class Buildah:
    """buildah with a storage of its own."""

    folder: Path

    def __call__(self, *words: object, check: bool = True) -> subprocess.CompletedProcess[str]:
        place = ["--root", self.folder / "storage", "--runroot", self.folder / "run"]
        command = ["buildah", *map(str, place), *map(str, words)]
        return subprocess.run(command, capture_output=True, text=True, check=check, cwd=self.folder)

    def container(self, image: str) -> str:
        return self("from", image).stdout.strip()


@dataclass(frozen=True)
class Image:
    """The built image, and a container of it."""

    buildah: Buildah
    config: dict[str, Any]
    container: str

    def run(self, script: str, *options: str) -> str:
        """What a script prints that the image's entry point becomes."""
        entry: Sequence[str] = self.config["Entrypoint"]
        # In a container the entry is process 1; here -s lets it end the script's children too.
        command = ["--", entry[0], "-s", *entry[1:], "sh", "-c", script]
        done = self.buildah("run", "--isolation", "chroot", *options, self.container, *command, check=False)
        assert done.returncode == 0, f"{done.stdout}{done.stderr}"
        return done.stdout


@pytest.fixture(scope="module")
def image() -> Iterator[Image]:
    assert BASE is not None
    # Gigabytes: beside the base, because the tests' temporary folder may be in memory.
    buildah = Buildah(Path(tempfile.mkdtemp(prefix="buildah-", dir=Path(BASE).absolute().parent)))
    try:
        yield built_by(buildah, Path(BASE).absolute())
    finally:
        buildah("unmount", "--all", check=False)
        shutil.rmtree(buildah.folder, ignore_errors=True)


def built_by(buildah: Buildah, files: Path) -> Image:
    """The image on a base that has these files, an archive of tar's."""
    base = buildah.container("scratch")
    buildah("add", "--quiet", base, files, "/")
    buildah("copy", "--quiet", base, CERTIFICATES, CERTIFICATES)  # those of the machine's package index
    buildah("commit", "--quiet", base, "localhost/base")
    index = ["--secret", f"id=pip,src={INDEX}"] if INDEX.exists() else []
    what = ["--build-arg", "BASE=localhost/base", "--file", ROOT / "deploy/image/Dockerfile", "--tag", "localhost/lake"]
    where = ["--isolation", "chroot", "--network", "host", "--format", "docker"]
    built = buildah("build", *where, *index, *what, ROOT, check=False)
    assert built.returncode == 0, f"{built.stdout[-2000:]}{built.stderr[-4000:]}"
    described = json.loads(buildah("inspect", "--type", "image", "localhost/lake").stdout)
    return Image(buildah, described["Docker"]["config"], buildah.container("localhost/lake"))


def test_the_image_starts_the_code_server_as_a_user_without_rights(image: Image) -> None:
    assert image.config["User"] == "10001:10001"
    assert image.config["Cmd"][:3] == ["dagster", "code-server", "start"]
    assert image.config["Healthcheck"]["Test"][:3] == ["CMD", "dagster", "api"]
    assert image.run("id -u; touch /opt/lake/x 2>&1 || true").splitlines() == [
        "10001",
        "touch: cannot touch '/opt/lake/x': Permission denied",
    ]


def test_a_process_of_the_image_ingests_and_uses_the_class_archive(image: Image) -> None:
    config = (
        "lakes: {retail: {catalog: {type: sqlite, path: c.db}, storage: lake}}\\n"
        "streams: {transactions: {source: landing, destination: {table: transactions}, partitions: "
        "{region: {values: [NW, SW]}, date: {type: date, start: 2026-01-01}}}}\\n"
    )
    output = image.run(
        f"""cd "$(mktemp -d)" && printf '{config}' > lake.yaml
        export LAKE_CONFIG=$PWD/lake.yaml SPARK_LOCAL_IP=127.0.0.1
        python -c 'from lake_assets.spark.jvm import sharing_options as o
from lake_assets.spark.jvm import find_java
print("archive", *o(find_java(), {{}}))' | tr ' ' '\\n' | grep SharedArchiveFile
        seq 50 | sed 's/.*/{{"region": "NW", "date": "2026-02-11", "total": &}}/' | lake-assets land transactions -
        lake-assets ingest transactions --partition region=NW,date=2026-02-11
        lake-assets query 'SELECT count(*) AS n FROM transactions'"""
    )

    assert "-XX:SharedArchiveFile=/var/cache/lake/" in output
    assert "50" in output.splitlines()[-1]

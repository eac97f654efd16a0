import os
import time
from pathlib import Path
from subprocess import CompletedProcess

import platformdirs
import pytest
from filelock import FileLock

from lake_assets.base.errors import SparkUnavailableError
from lake_assets.spark import class_archive as make_archive
from lake_assets.spark import jvm
from lake_assets.spark.jvm import Java, class_archive, find_java, sharing_options
from lake_assets_tests.spark.processes import cache_in, run_python

JAVA = Java(Path("/opt/jdk"), 17, "JAVA_HOME", "17.0.1+7")
LOCAL = {"spark.master": "local[2]"}


@pytest.fixture
def scheduled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """The cache in the test's own folder, a plain environment, and a list of the times an archive was scheduled."""
    times: list[str] = []
    monkeypatch.setattr(platformdirs, "user_cache_path", lambda _: tmp_path)
    monkeypatch.setattr(jvm, "_make_at_exit", lambda: times.append("asked"))
    for name in (*jvm.CLASS_PATH_VARIABLES, jvm.OFF):
        monkeypatch.delenv(name, raising=False)
    return times


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch, scheduled: list[str]) -> list[list[str]]:
    """The commands that make an archive; they are replaced by the creation of a file."""
    commands: list[list[str]] = []

    def run(command: list[str], environment: dict[str, str] | None = None) -> None:
        commands.append(command)
        assert environment is None or environment[jvm.OFF]
        for option in command:
            if option.startswith("-XX:SharedArchiveFile="):
                Path(option.partition("=")[2]).write_text("archive")

    assert scheduled == []
    monkeypatch.setattr(make_archive, "_run", run)
    return commands


def put_archive(java: Java = JAVA) -> Path:
    path = class_archive(java).path
    path.parent.mkdir(exist_ok=True)
    path.write_text("archive")
    return path


@pytest.mark.parametrize(
    ("java", "settings", "variable"),
    [
        pytest.param(Java(JAVA.home, 17, "JAVA_HOME", "17.0.2+1"), LOCAL, None, id="another Java"),
        pytest.param(JAVA, {"spark.master": "spark://host:7077"}, None, id="a cluster"),
        pytest.param(JAVA, LOCAL | {"spark.driver.extraClassPath": "/opt/a.jar"}, None, id="another class path"),
        *((JAVA, LOCAL, name) for name in (jvm.OFF, *jvm.CLASS_PATH_VARIABLES)),
    ],
)
def test_an_archive_is_used_by_local_sessions_of_its_java_and_class_path(
    scheduled: list[str],
    monkeypatch: pytest.MonkeyPatch,
    java: Java,
    settings: dict[str, str],
    variable: str | None,
) -> None:
    assert (sharing_options(JAVA, LOCAL), scheduled) == ([], ["asked"])
    scheduled.clear()
    path = put_archive()
    assert f"-XX:SharedArchiveFile={path}" in sharing_options(JAVA, LOCAL)
    assert scheduled == []
    if variable is not None:
        monkeypatch.setenv(variable, "1")

    assert sharing_options(java, settings) == []
    assert bool(scheduled) == (java != JAVA)


AT_EXIT = """
import subprocess
from multiprocessing import get_context
from pathlib import Path
from lake_assets.spark import jvm
from lake_assets.spark.jvm import Java

def ask():
    subprocess.Popen = lambda command, **_: print(*command[1:], flush=True)
    for _ in range(2):
        assert jvm.sharing_options(Java(Path("/jdk"), 17, "PATH", "17"), {}) == []
    print("asked", flush=True)

WHERE
"""


@pytest.mark.parametrize(
    "where",
    [
        pytest.param("ask()", id="process"),
        pytest.param(
            "child = get_context('fork').Process(target=ask); child.start(); child.join()",
            id="child",
            marks=pytest.mark.more,
        ),
    ],
)
def test_the_archive_is_made_once_when_the_process_or_a_child_of_multiprocessing_ends(
    where: str, tmp_path: Path
) -> None:
    run = run_python("-c", AT_EXIT.replace("WHERE", where), folder=tmp_path, environment=cache_in(tmp_path))
    assert run.stdout.splitlines() == ["asked", "-m lake_assets.spark.class_archive"], run.stderr


def test_one_process_makes_a_verified_archive_and_removes_the_files_of_a_killed_one(steps: list[list[str]]) -> None:
    archive = class_archive(JAVA)
    left = archive.path.with_suffix(".making")
    left.mkdir(parents=True)
    (left / "archive.jsa").write_text("half")
    with FileLock(left.with_suffix(".lock")):
        assert not make_archive.make_archive(JAVA)
    assert steps == []

    assert make_archive.make_archive(JAVA)
    assert ["-Xshare:dump" in steps[1], "-Xshare:on" in steps[2], len(steps)] == [True, True, 3]
    assert {path.suffix for path in archive.path.parent.iterdir()} == {".jsa", ".lock"}
    assert not make_archive.make_archive(JAVA)
    assert len(steps) == 3


def test_a_failed_step_leaves_the_reason_and_no_archive_and_is_tried_again_a_day_later(
    monkeypatch: pytest.MonkeyPatch, scheduled: list[str]
) -> None:
    monkeypatch.setattr(make_archive, "_WARM_UP", "import sys; print('no room left', file=sys.stderr); sys.exit(3)")
    archive = class_archive(JAVA)
    with pytest.raises(SparkUnavailableError, match="no room left"):
        make_archive.make_archive(JAVA)
    assert "exit code 3" in archive.failure.read_text()
    assert {path.suffix for path in archive.path.parent.iterdir()} == {".failed", ".lock"}
    assert sharing_options(JAVA, LOCAL) == scheduled == []
    yesterday = time.time() - 90_000
    os.utime(archive.failure, (yesterday, yesterday))
    assert (sharing_options(JAVA, LOCAL), scheduled) == ([], ["asked"])


def test_the_archive_is_made_also_where_the_folder_of_the_process_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, java = tmp_path / "gone", find_java()
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    make_archive._run([os.fspath(java.home / "bin" / "java"), "-version"])


def test_the_archives_used_last_are_kept(steps: list[list[str]]) -> None:
    paths = [put_archive(Java(JAVA.home, 17, "PATH", f"17.0.{n}")) for n in range(4)]
    for age, path in enumerate(paths):
        os.utime(path, (1_000_000 - age, 1_000_000 - age))
    sharing_options(Java(JAVA.home, 17, "PATH", "17.0.3"), LOCAL)
    assert make_archive.make_archive(JAVA)
    assert steps
    assert set(paths[0].parent.glob("*.jsa")) == {class_archive(JAVA).path, paths[3], paths[0]}


MAKE = """
from lake_assets.spark import class_archive
from lake_assets.spark.jvm import class_archive as place
from lake_assets.spark.jvm import find_java
assert class_archive.make_archive(find_java())
print(place(find_java()).path)
"""
SESSION = """
from lake_assets.spark.spark_session import spark_config, start_session
session = start_session(spark_config(settings={"spark.master": "local[2]", "spark.driver.extraJavaOptions": SHARE}))
print(session.range(10).mapInArrow(lambda batches: batches, "id bigint").count())
"""


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_a_real_archive_is_used_and_a_damaged_one_is_not(tmp_path: Path) -> None:
    environment = cache_in(tmp_path)
    # Not by its command, which has the lowest priority and waits for all other tests.
    made = run_python("-c", MAKE, folder=tmp_path, environment=environment)
    assert made.returncode == 0, made.stderr
    path = Path(made.stdout.strip())
    assert find_java().build in path.name

    def session(share: str) -> CompletedProcess[str]:
        return run_python("-c", SESSION.replace("SHARE", repr(share)), folder=tmp_path, environment=environment)

    # With -Xshare:on the JVM ends when it cannot use the archive.
    assert session("-Xshare:on").stdout.strip() == "10"

    damaged = bytearray(path.read_bytes())
    for place in range(10_000, len(damaged), 100_000):
        damaged[place] ^= 0xFF
    path.unlink()  # another JVM may have it mapped
    path.write_bytes(damaged)
    run = session("-Xshare:auto")
    assert run.stdout.strip() == "10", run.stderr
    assert "cds" not in run.stderr
    assert "Spark's JVM ended while it started" in session("-Xshare:on").stderr

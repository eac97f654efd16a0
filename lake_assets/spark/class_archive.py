"""Make the class archive for the Java and the Spark of this machine: `python -m lake_assets.spark.class_archive`.

Sessions start this process (see `class_sharing`). The build of an image may run it too.
"""

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from typing import Any

from filelock import FileLock, Timeout

from lake_assets.base.errors import SparkUnavailableError
from lake_assets.base.machine import cache_folder
from lake_assets.spark.jvm import OFF, ClassArchive, Java, class_archive, find_java
from lake_assets.spark.spark_session import spark_config, start_session

# An archive takes 160 MB, and every virtual environment has its own.
KEPT = 3

_STEP_TIMEOUT = 900  # seconds
_WARM_UP = "from lake_assets.spark.class_archive import warm_up; warm_up()"


def make_archive(java: Java) -> bool:
    """Make the archive; False if it exists already, or another process is making it.

    The archive appears under its name complete and verified, or not at all. The last `KEPT` used archives are kept. If
    a step fails, `ClassArchive.failure` keeps the reason.
    """
    archive = class_archive(java)
    archive.path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(archive.path.with_suffix(".lock"), timeout=0):
            if archive.path.exists():
                return False
            _make(archive, java)
    except Timeout:
        return False
    others = sorted(archive.path.parent.glob("*.jsa"), key=lambda path: path.stat().st_mtime)
    for old in others[:-KEPT]:
        old.unlink(missing_ok=True)
    return True


def _make(archive: ClassArchive, java: Java) -> None:
    # The name is fixed, so that the files of a killed process are found. The lock is held, so no other process writes.
    folder = archive.path.with_suffix(".making")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    classes, made = folder / "classes.list", folder / "archive.jsa"
    command = [os.fspath(java.home / "bin" / "java"), "-cp", archive.class_path, f"-XX:SharedArchiveFile={made}"]
    try:
        # Replaces the user's options for a driver's JVM, such as a debugger's port.
        listing = shlex.join(["-cp", archive.class_path, f"-XX:DumpLoadedClassList={classes}"])
        path = os.pathsep.join(filter(None, sys.path))
        of_session = {OFF: "1", "SPARK_SUBMIT_OPTS": listing, "PYTHONPATH": path}
        _run([sys.executable, "-c", _WARM_UP], os.environ | of_session)
        _run([*command, "-Xshare:dump", f"-XX:SharedClassListFile={classes}"])
        # With -Xshare:on a JVM ends when it cannot use the archive.
        _run([*command, "-Xshare:on", "-XX:+VerifySharedSpaces", "-version"])
    except SparkUnavailableError as error:
        archive.failure.write_text(f"{error}\n")
        raise
    else:
        made.replace(archive.path)
        archive.failure.unlink(missing_ok=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run(command: list[str], environment: dict[str, str] | None = None) -> None:
    """Run a command until it and Spark's JVM, which holds the same pipes open, have ended.

    The folder of the process that asked for the archive may be gone, and Java needs one.
    """
    try:
        subprocess.run(  # noqa: S603 - our own Python and the user's java
            command,
            env=environment,
            check=True,
            capture_output=True,
            text=True,
            errors="replace",
            cwd=cache_folder(),
            timeout=_STEP_TIMEOUT,
        )
    except subprocess.TimeoutExpired as error:
        raise _failed(command, f"it took more than {_STEP_TIMEOUT} s") from error
    except subprocess.CalledProcessError as error:
        raise _failed(command, f"exit code {error.returncode}\n{error.stdout}\n{error.stderr}") from error


def _failed(command: list[str], why: str) -> SparkUnavailableError:
    return SparkUnavailableError(
        f"the class archive cannot be made, {command[0]} … {command[-1]} failed: {why}",
        f"Sessions start without it. Set {OFF}=1 to switch it off.",
    )


def warm_up() -> None:
    """Run the kinds of work of this package's jobs, so that Spark loads the classes that they need."""
    session = start_session(spark_config(settings={"spark.master": "local[2]"}))
    with tempfile.TemporaryDirectory() as folder:
        rows = session.range(1000).selectExpr(
            "id", "id % 10 AS k", "CAST(id AS STRING) AS t", "TIMESTAMP'2026-01-01' AS at", "id * 1.5 AS x"
        )
        rows.write.parquet(f"{folder}/rows")
        read = session.read.parquet(f"{folder}/rows")
        read.createOrReplaceTempView("rows")
        session.sql(
            "SELECT k, count(*), sum(x), max(t) FROM rows JOIN range(10) r ON k = r.id GROUP BY k ORDER BY k"
        ).collect()
        read.mapInArrow(_same, read.schema).toArrow()
    session.sparkContext.parallelize(list(range(10)), 2).mapPartitions(_same).collect()
    session.stop()


def _same(items: Iterable[Any]) -> Iterator[Any]:
    yield from items


def main() -> int:
    """Make the archive at the lowest priority, and print its path."""
    os.nice(19)
    java = find_java()
    try:
        made = make_archive(java)
    except SparkUnavailableError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"{class_archive(java).path}{'' if made else ' exists, or another process makes it'}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

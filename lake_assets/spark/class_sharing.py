"""Class-data sharing: the driver's JVM maps an archive of Spark's classes instead of reading them from the jars.

The first SQL result then takes 4.3 s instead of 6.5 s from the start of the process (two cores, Java 17, 21 or 25).
Making the archive takes the JVM 15 to 25 s. So a separate process (`lake_assets.spark.class_archive`) makes it, once
for each Java and Spark, after the first process without an archive has ended. The archive cannot prevent a start: the
JVM verifies its checksums (0.1 s), and starts without it if they are wrong. If the environment variable
LAKE_ASSETS_NO_CDS is set, class-data sharing is off.

Source of the rules: the `java` command's manual, "Application Class Data Sharing".
"""

import contextlib
import functools
import logging
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from multiprocessing.util import Finalize
from pathlib import Path

import pyspark

from lake_assets.base.machine import cache_folder
from lake_assets.spark.java import Java

OFF = "LAKE_ASSETS_NO_CDS"

_SPARK = Path(pyspark.__file__).parent
_JARS = _SPARK / "jars"

# Each of these can change the driver's class path. The archive is for that of pip's pyspark only.
CLASS_PATH_VARIABLES = (
    "HADOOP_CONF_DIR",
    "PYSPARK_SUBMIT_ARGS",
    "SPARK_CONF_DIR",
    "SPARK_DIST_CLASSPATH",
    "SPARK_HOME",
    "SPARK_TESTING",
    "YARN_CONF_DIR",
)

# Java 21 refuses an archive with a class from a jar that follows one whose manifest names missing jars. Derby and
# the Scala compiler have such manifests. A session needs none of their classes, so they come last.
_LAST_JARS = ("derby", "scala-compiler")

_CONTENT = "2: with jobs by RDD"  # changes when `class_archive.warm_up` covers other work

_RETRY_AFTER = 86_400  # seconds

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ClassArchive:
    """The archive of one Java and one Spark: its path, whether or not it exists, and its class path."""

    path: Path
    class_path: str

    @property
    def failure(self) -> Path:
        """A file with the reason why the archive could not be made; the next try is a day later."""
        return self.path.with_suffix(".failed")

    def failed_lately(self) -> bool:
        """Return whether the archive could not be made within the last day."""
        try:
            return time.time() - self.failure.stat().st_mtime < _RETRY_AFTER
        except FileNotFoundError:
            return False

    def options(self) -> list[str]:
        """Return the JVM's options to use the archive; a damaged or unsuitable archive is silently ignored."""
        file = f"-XX:SharedArchiveFile={self.path}"
        return ["-cp", self.class_path, file, "-XX:+VerifySharedSpaces", "-Xlog:cds*=off"]


def class_archive(java: Java) -> ClassArchive:
    """Return the archive of this Java and the installed pyspark, in the user's cache folder."""
    jars = sorted(_JARS.glob("*.jar"), key=lambda jar: (jar.name.startswith(_LAST_JARS), jar.name))
    # The JVM compares the jars' paths and times with those of the archive.
    text = f"{_CONTENT} {java.home} {_JARS} {_JARS.stat().st_mtime_ns}"
    digest = sha256(text.encode()).hexdigest()[:8]
    name = f"java-{java.build}-pyspark-{pyspark.__version__}-{digest}.jsa"
    return ClassArchive(cache_folder() / "class-data-sharing" / name, os.pathsep.join(map(os.fspath, jars)))


def sharing_options(java: Java, conf: Mapping[str, str]) -> list[str]:
    """Return the options by which the driver's JVM uses the archive; none without one, or if it does not apply.

    Only local sessions with Spark's own class path use it. If there is no archive yet, a process that makes it is
    started when this one ends.
    """
    if os.environ.get(OFF) or sys.platform == "win32" or not _plain(conf):
        return []
    archive = class_archive(java)
    if archive.path.is_file():
        # The archives with the oldest times are removed first; a read-only cache keeps all.
        with contextlib.suppress(OSError):
            os.utime(archive.path)
        return archive.options()
    if not archive.failed_lately():
        _make_at_exit()
    return []


def _plain(conf: Mapping[str, str]) -> bool:
    return (
        conf.get("spark.master", "local").startswith("local")
        and "spark.driver.extraClassPath" not in conf
        and not any(os.environ.get(name) for name in CLASS_PATH_VARIABLES)
        and _JARS.is_dir()
        # Spark's scripts put this folder on the class path, and read a spark-defaults.conf there.
        and not (_SPARK / "conf").exists()
    )


@functools.cache
def _make_at_exit() -> None:
    # After this process's own work, which it would slow down on few cores. `atexit` does not run in the children of
    # multiprocessing, such as the steps of Dagster's multiprocess executor; `Finalize` does.
    Finalize(None, _start_making, exitpriority=0)


def _start_making() -> None:
    command = [sys.executable, "-m", "lake_assets.spark.class_archive"]
    null = subprocess.DEVNULL
    try:
        # In a session of its own, so that it outlives this process and its terminal.
        subprocess.Popen(command, stdin=null, stdout=null, stderr=null, start_new_session=True)  # noqa: S603
    except OSError as error:
        logger.debug("the class archive is not made: %s", error)

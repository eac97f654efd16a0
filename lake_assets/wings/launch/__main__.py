"""`python -m lake_assets.wings.launch`: a driver of a run; a launcher starts it with the parameters of Dagster Pipes.

`spark-submit` starts this file by its path.
"""

import os
import sys
from pathlib import Path

from dagster_pipes import DAGSTER_PIPES_CONTEXT_ENV_VAR

if __name__ == "__main__":
    # A program that is started by its path finds modules beside it first.
    sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != Path(__file__).resolve().parent]
    if DAGSTER_PIPES_CONTEXT_ENV_VAR not in os.environ:
        sys.exit("Error: this program is started by a launcher of runs: see `runs` of the config, or --launcher.")
    from lake_assets.wings.launch.driver import main

    sys.exit(main())

"""The names of the launchers, for a command that is quick to import."""

from typing import Literal, get_args

Launcher = Literal["in_process", "spark_submit", "emr_serverless", "kubernetes"]
LAUNCHERS: tuple[Launcher, ...] = get_args(Launcher)

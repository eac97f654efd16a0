"""The words of modes, policies and launchers. Nothing heavy is imported here, since commands need them for `--help`."""

from typing import Literal, get_args

Mode = Literal["replace", "append", "index"]
OnEmpty = Literal["fail", "keep", "clear"]
OnChanged = Literal["fail", "refresh"]
OnBadObject = Literal["fail", "quarantine"]
OnBadRow = Literal["fail", "dead_letter"]
SchemaPolicy = Literal["strict", "evolve", "ignore_extra"]
Compression = Literal["zstd", "snappy", "gzip", "none"]
CopyPolicy = Literal["auto", "any", "always", "never"]
Verify = Literal["footer", "pages"]
FileFact = Literal["uri", "row_number", "modified", "written_at", "run_id"]

Launcher = Literal["in_process", "spark_submit", "emr_serverless"]
LAUNCHERS: tuple[Launcher, ...] = get_args(Launcher)

"""The words of modes, policies and launchers. Nothing heavy is imported here, since commands need them for `--help`."""

from enum import StrEnum
from typing import Literal, get_args


class Mode(StrEnum):
    """How landed objects become rows of the table: what a run reads, and what its commits do."""

    # What a stream's config cannot have beside its mode is in the table of `config/contradictions.py`.

    REPLACE = "replace"
    APPEND = "append"
    INDEX = "index"

    @property
    def replaces(self) -> bool:
        """A job reads all objects of a partition, and the commit replaces the partition's rows by theirs."""
        return self is Mode.REPLACE

    @property
    def reads_new(self) -> bool:
        """A job reads the objects that no commit has noted; the rows of the others stay, also when they vanish."""
        return self is Mode.APPEND

    @property
    def registers(self) -> bool:
        """No job reads the objects: they become files of the table as they are, and remain its files."""
        return self is Mode.INDEX

    @property
    def adds(self) -> bool:
        """A commit adds rows to those of the partition, and takes none away."""
        return self in (Mode.APPEND, Mode.INDEX)


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

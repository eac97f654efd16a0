"""The folder of a stack: its ports, its secrets, and what its processes find in their environment."""

import os
import secrets
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from dev.servers import s3
from dev.servers.process import free_ports
from dev.servers.standalone import cluster_environment

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "build/stack"
HOST = "127.0.0.1"
MARK = "LAKE_ASSETS_STACK"
"""The variable by which every process of a stack is known; its value is the folder."""

_LONGEST = 85  # characters of the folder: a path of a socket may have 107, and PostgreSQL's is 19 longer
_BREAKING = "%;#\"'\n"  # characters with a meaning in the supervisor's config


class StackError(Exception):
    """The stack cannot do what was asked for; the text says why, and what to do."""


class Ports(BaseModel):
    """The ports of 127.0.0.1 that a stack takes."""

    model_config = ConfigDict(frozen=True)

    webserver: int = 3000
    code_server: int = 4000
    postgres: int = 15432  # not PostgreSQL's own, which the machine may have
    spark_master: int = 7077
    spark_master_page: int = 8080
    spark_worker_1_page: int = 8081
    spark_worker_2_page: int = 8082
    spark_connect: int = 15002
    spark_connect_page: int = 4040
    s3: tuple[int, ...] = (8333, 8888, 9333, 9340, 18333, 18888, 19333, 19340)

    @classmethod
    def free(cls) -> "Ports":
        """Ports that nothing listens on at this moment."""
        single = [name for name in cls.model_fields if name != "s3"]
        found = free_ports(len(single) + s3.PORTS)
        return cls.model_validate({**dict(zip(single, found, strict=False)), "s3": found[len(single) :]})


def _secret() -> str:
    return secrets.token_hex(20)


class _Settings(BaseModel):
    """What a stack has from its first start on."""

    model_config = ConfigDict(frozen=True)

    ports: Ports
    lake_password: str = Field(default_factory=_secret)
    dagster_password: str = Field(default_factory=_secret)
    s3_secret: str = Field(default_factory=_secret)
    spark_token: str = Field(default_factory=_secret)


@dataclass(frozen=True)
class Site:
    """A stack's folder, which exists."""

    folder: Path
    settings: _Settings

    @classmethod
    def at(cls, folder: Path, ports: Ports | None = None) -> "Site":
        """The stack of a folder; a new one where there is none yet.

        Args:
            folder: made if it is not there. Its secrets are in a file that only its owner can read.
            ports: of a new stack; Ports() if None. An existing stack keeps its own.

        Raises:
            StackError: the folder's path cannot be that of a stack.
        """
        folder = folder.absolute()
        if len(os.fspath(folder)) > _LONGEST:
            raise StackError(f"{folder} is longer than {_LONGEST} characters, and sockets lie in it: use --folder")
        if breaking := [character for character in _BREAKING if character in os.fspath(folder)]:
            raise StackError(f"the path {folder} has {breaking[0]!r}: use --folder")
        file = folder / "stack.json"
        if not file.exists():
            folder.mkdir(parents=True, exist_ok=True)
            made = _Settings(ports=ports or Ports())
            file.touch(mode=0o600)
            file.write_text(made.model_dump_json(indent=2), "utf-8")
        return cls(folder, _Settings.model_validate_json(file.read_text("utf-8")))

    @classmethod
    def existing(cls, folder: Path) -> "Site":
        """The stack that was started in a folder.

        Raises:
            StackError: none was.
        """
        if not (folder / "stack.json").exists():
            raise StackError(f"no stack was started in {folder}: run make stack")
        return cls.at(folder)

    @property
    def ports(self) -> Ports:
        """The stack's ports."""
        return self.settings.ports

    @property
    def lake_config(self) -> Path:
        """The config of lake and streams."""
        return self.folder / "lake.yaml"

    @property
    def dagster_home(self) -> Path:
        """The folder of `dagster.yaml`."""
        return self.folder / "dagster"

    @property
    def logs(self) -> Path:
        """The folder with a log for each process."""
        return self.folder / "logs"

    @property
    def url(self) -> str:
        """The address of Dagster's web server."""
        return f"http://{HOST}:{self.ports.webserver}"

    @property
    def s3_endpoint(self) -> str:
        """The address of the S3 server."""
        return f"http://{HOST}:{self.ports.s3[0]}"

    @cached_property
    def environment(self) -> dict[str, str]:
        """The variables of all processes: those of `deploy/systemd/lake.env`, `secrets.env`, and a few more."""
        return {
            "DAGSTER_HOME": os.fspath(self.dagster_home),
            "DAGSTER_BACKFILL_RETRY_DEFINITION_CHANGED_ERROR": "1",
            "LAKE_CONFIG": os.fspath(self.lake_config),
            "LAKE_CATALOG_HOST": HOST,
            "LAKE_CATALOG_DATABASE": "lake",
            "LAKE_CATALOG_USER": "lake",
            "LAKE_CATALOG_PASSWORD": self.settings.lake_password,
            "LAKE_CODE_SERVER_HOST": HOST,
            "LAKE_BUCKET": "lake",
            "LANDING_BUCKET": "landing",
            "DAGSTER_PG_HOST": HOST,
            "DAGSTER_PG_PORT": str(self.ports.postgres),
            "DAGSTER_PG_DB": "dagster",
            "DAGSTER_PG_USERNAME": "dagster",
            "DAGSTER_PG_PASSWORD": self.settings.dagster_password,
            "DAGSTER_LOGS_BUCKET": "logs",
            "AWS_ENDPOINT_URL_S3": self.s3_endpoint,
            "AWS_ACCESS_KEY_ID": s3.ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": self.settings.s3_secret,
            "AWS_REGION": s3.REGION,
            "AWS_DEFAULT_REGION": s3.REGION,
            "SPARK_CONNECT_AUTHENTICATE_TOKEN": self.settings.spark_token,
            **cluster_environment(),
            **s3.ENVIRONMENT,
        }

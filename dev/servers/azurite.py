"""Azure's own emulator of its Blob service, Azurite, where the machine has it (`npm install -g azurite`)."""

import base64
import datetime as dt
import hashlib
import hmac
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

import pytest

from dev.servers.absent import absent, started
from dev.servers.process import free_ports, listens, retried, running
from lake_assets.config.storages import AzureStorage
from lake_assets.storage.storage_kinds import AzureContainer

ACCOUNT = "devstoreaccount1"
# The one key that every Azurite has; Azure's manual prints it.
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


@dataclass(frozen=True)
class AzureServer:
    """A Blob service over plain HTTP, with the account in the path."""

    port: int

    @property
    def connection_string(self) -> str:
        """With the account's key."""
        return f"{self._address};AccountKey={KEY}"

    @property
    def signed_connection_string(self) -> str:
        """With a signature for the account that is good for an hour."""
        return f"{self._address};SharedAccessSignature={_signature()}"

    @property
    def reading_connection_string(self) -> str:
        """With a signature that is good for reading and listing."""
        return f"{self._address};SharedAccessSignature={_signature('rl')}"

    @property
    def _address(self) -> str:
        endpoint = f"http://127.0.0.1:{self.port}/{ACCOUNT}"
        return f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};BlobEndpoint={endpoint}"

    def new_container(self) -> str:
        """Create an empty container with a name that was never used before.

        Returns:
            The container's name.
        """
        name = f"t-{uuid.uuid4().hex}"
        storage = AzureStorage.model_validate({"container": name, "connection_string": self.connection_string})
        AzureContainer(storage).as_arrow().create_dir(name)
        return name


def _signature(rights: str = "rwdlac") -> str:
    """An account's signature; source: Azure Storage's manual, "Create an account SAS", version 2020-12-06."""
    fields = {
        "sp": rights, "ss": "b", "srt": "sco", "st": "",
        "se": f"{dt.datetime.now(dt.UTC) + dt.timedelta(hours=1):%Y-%m-%dT%H:%M:%SZ}",
        "sip": "", "spr": "https,http", "sv": "2021-10-04", "ses": "",
    }  # fmt: skip
    signed = "\n".join([ACCOUNT, *fields.values(), ""])
    digest = hmac.new(base64.b64decode(KEY), signed.encode(), hashlib.sha256).digest()
    query = {name: value for name, value in fields.items() if value} | {"sig": base64.b64encode(digest).decode()}
    return urlencode(query)


@retried
def azurite(program: str) -> Iterator[AzureServer]:
    """Azurite on a free port of 127.0.0.1, its data in memory."""
    folder = Path(tempfile.mkdtemp(prefix="lake-assets-azure-"))
    [port] = free_ports(1)
    options = ["--inMemoryPersistence", "--skipApiVersionCheck", "--disableTelemetry", "--silent"]
    command = [program, "--blobHost", "127.0.0.1", "--blobPort", str(port), *options]
    with running(command, folder=folder, ready=lambda: listens(port)):
        yield AzureServer(port)


@pytest.fixture(scope="session")
def azure() -> Iterator[AzureServer]:
    """One Blob service for all tests of a run."""
    program = shutil.which("azurite-blob")
    if program is None:
        absent("no Azure: azurite-blob is not on the path (npm install -g azurite)")
    with started("Azure", azurite(program)) as server:
        yield server

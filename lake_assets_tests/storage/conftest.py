"""A storage of each kind, and objects in it."""

from pathlib import Path

import pytest

from dev.servers.azurite import azure
from lake_assets.config.storages import AnyStorage, AzureStorage, LocalStorage, R2Storage, S3Storage
from lake_assets_tests.world_fixtures import bucket_on, r2_bucket_on

__all__ = ["azure"]

SERVERS = [pytest.mark.servers]


STORAGES = ["local", pytest.param("s3", marks=SERVERS), pytest.param("r2", marks=[*SERVERS, pytest.mark.more])]


@pytest.fixture(params=STORAGES)
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> AnyStorage:
    """A new folder or bucket; a container if a test is parametrized with `azure`."""
    if request.param == "local":
        return LocalStorage(path=str(tmp_path))
    if request.param == "azure":
        server = request.getfixturevalue("azure")
        place = {"container": server.new_container(), "prefix": "some/prefix"}
        return AzureStorage.model_validate(place | {"connection_string": server.connection_string})
    if request.param == "r2":
        return R2Storage.model_validate(r2_bucket_on(request.getfixturevalue("s3")))
    return S3Storage.model_validate(bucket_on(request.getfixturevalue("s3")))

"""The whole way over Azure's Blob service, as its emulator plays it: landing zone and lake in one container each."""

import pytest

from dev.servers.azurite import KEY, AzureServer, azure
from lake_assets.base.errors import StorageError
from lake_assets.config.storages import AzureStorage
from lake_assets.storage.store import Store
from lake_assets_tests.world import NW, SW, World, sales

__all__ = ["azure"]


@pytest.fixture(params=["key", pytest.param("signature", marks=pytest.mark.more)])
def azure_world(request: pytest.FixtureRequest, azure: AzureServer, local_world: World) -> World:
    credential = azure.connection_string if request.param == "key" else azure.signed_connection_string
    place = {"type": "azure", "prefix": "some/prefix", "connection_string": credential}
    local_world.source = place | {"container": azure.new_container()}
    local_world.storage = place | {"container": azure.new_container()}
    return local_world


@pytest.mark.journey
def test_a_partition_is_ingested_replaced_and_read_by_a_plain_client(azure_world: World) -> None:
    azure_world.commit(NW, 1, 2)
    azure_world.commit(SW, 5)
    azure_world.land(NW, sales(3))

    result = azure_world.ingest(NW)

    assert (result.row.rows_before, result.row.row_count) == (2, 1)
    assert azure_world.totals() == [3, 5]
    assert result.destination.startswith("az://")
    root = azure_world.config.lakes["test"].own_storage.root
    assert [file.startswith(root) for file in azure_world.live_files()] == [True, True]
    assert azure_world.ingest(NW).row.status == "skipped"


@pytest.mark.more
def test_many_objects_are_deleted_though_some_are_gone(azure: AzureServer) -> None:
    location = {"container": azure.new_container(), "connection_string": azure.connection_string}
    store = Store(AzureStorage.model_validate(location))
    keys = tuple(f"region=N&<{n}> x/ü.parquet" for n in range(300))  # more than a request may name
    for key in keys[::2]:
        store.put_new(key, b"x", multipart_above=10)

    store.delete(keys)

    assert store.list() == ()


def test_what_is_not_there_or_not_allowed_is_named(azure: AzureServer) -> None:
    absent = AzureStorage.model_validate({"container": "absent", "connection_string": azure.connection_string})
    with pytest.raises(StorageError, match=r"the container 'absent' does not exist at http://127.*`container`"):
        Store(absent).list()
    wrong = azure.connection_string.replace(KEY, "d3Jvbmc=")
    refused = AzureStorage.model_validate({"container": "absent", "connection_string": wrong})
    with pytest.raises(
        StorageError, match=r"refuses access .*: grant the role .*; if it is granted already, correct account_key"
    ) as raised:
        Store(refused).list()
    assert "d3Jvbmc=" not in str(raised.value)

"""Whether launcher and driver have the same stream: its options, and where its lake and its landing zone are.

Credentials, and the address of a catalog, may differ: the driver can have others for the same places.
"""

from collections.abc import Iterator, Mapping

from pydantic import BaseModel, SecretStr

from lake_assets.config.lake import Lake
from lake_assets.config.models import LakeConfig
from lake_assets.config.storages import AnyStorage
from lake_assets.errors import LauncherError

_LENGTH = 200  # of a value in an error

Facts = dict[str, str]


def facts_of(config: LakeConfig, stream: str) -> Facts:
    """Return the facts of a stream and its lake by their keys, without secrets.

    Raises:
        KeyError: the config has no such stream.
    """
    lake = config.lake_name(stream)
    of_lake = config.lakes[lake]
    found = dict(_facts(config.streams[stream], f"streams.{stream}"))
    found |= _facts(of_lake, f"lakes.{lake}")
    found |= {f"lakes.{lake}.catalog.type": of_lake.catalog.type, f"streams.{stream}.lake": lake}
    if (database := getattr(of_lake.catalog, "database", None)) is not None:
        found[f"lakes.{lake}.catalog.database"] = str(database)
    return found


def _facts(value: object, key: str) -> Iterator[tuple[str, str]]:
    if value is None or isinstance(value, SecretStr):
        return
    if isinstance(value, AnyStorage):
        yield key, value.root
    elif isinstance(value, BaseModel):
        for name in type(value).model_fields:
            if not (isinstance(value, Lake) and name == "catalog"):
                yield from _facts(getattr(value, name), f"{key}.{name}")
    elif isinstance(value, Mapping):
        for name, item in value.items():
            yield from _facts(item, f"{key}.{name}")
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _facts(item, f"{key}[{index}]")
    else:
        yield key, str(value)


def check_same(stream: str, theirs: Facts, their_config: str, config: LakeConfig, own_config: str) -> None:
    """Refuse a driver's config whose stream is another one than the launcher's.

    Args:
        stream: its name.
        theirs: the facts of the launcher.
        their_config: path or URI of the launcher's config.
        config: of the driver.
        own_config: its path or URI.

    Raises:
        LauncherError: the driver's config lacks the stream, or a fact differs.
    """
    if stream not in config.streams:
        raise LauncherError(
            f"the launcher's config {their_config} has the stream {stream}, and the driver's {own_config} has not:",
            "copy the launcher's config to the driver's place.",
        )
    own = facts_of(config, stream)
    for key in sorted(theirs.keys() | own.keys()):
        if theirs.get(key) != own.get(key):
            raise LauncherError(
                f"{key} is {_shown(theirs.get(key))} in the launcher's config {their_config}, and "
                f"{_shown(own.get(key))} in the driver's {own_config}:",
                "copy the launcher's config to the driver's place, and reload the code location if that is newer.",
            )


def _shown(value: str | None) -> str:
    if value is None:
        return "absent"
    return repr(value) if len(value) <= _LENGTH else f"{value[:_LENGTH]!r}…"

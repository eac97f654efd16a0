"""The models of `lake.yaml`: lakes (a DuckLake catalog with its storage) and the streams that feed them.

All are frozen, refuse unknown keys, and hold no connection. Secrets are `SecretStr`, so that no `repr`, log or
error shows them. Paths are as written; `load.py` makes relative ones relative to the file.
"""

from collections.abc import Mapping
from typing import Any, Self

from pydantic import Field, model_validator

from lake_assets.config.catalogs import Catalog
from lake_assets.config.fields import Identifier
from lake_assets.config.model import Model
from lake_assets.config.storages import Storage
from lake_assets.config.streams import Stream


class Lake(Model):
    """A DuckLake: its catalog, its storage, and the names of the two tables that record the runs."""

    catalog: Catalog
    storage: Storage
    ledger: Identifier = Field("ingest_runs", description="Table with one row a run and partition.")
    manifest: Identifier = Field("ingest_files", description="Table of which object went into which partition.")
    commit_retries: int = Field(20, ge=0, le=1000, description="Tries again after a conflict with a writer.")

    @model_validator(mode="after")
    def _two_tables(self) -> Self:
        if self.ledger.lower() == self.manifest.lower():
            raise ValueError("ledger and manifest are two tables: give them two names")
        return self


class LakeConfig(Model):
    """A whole `lake.yaml`."""

    lakes: dict[Identifier, Lake] = Field(min_length=1)
    streams: dict[Identifier, Stream] = Field(min_length=1)
    spark: dict[str, str] = Field(default_factory=dict, description="Spark settings over ours.")

    @model_validator(mode="after")
    def _streams_have_lakes_of_their_own(self) -> Self:
        targets: dict[tuple[str, str, str], str] = {}
        for name, stream in self.streams.items():
            lake = self.lake_name(name)
            destination = stream.destination
            target = (lake, destination.schema_name.lower(), destination.table.lower())
            if target in targets:
                raise ValueError(
                    f"streams {targets[target]} and {name} both fill {destination.schema_name}."
                    f"{destination.table} of lake {lake}: give each its own table"
                )
            if destination.table.lower() in {self.lakes[lake].ledger, self.lakes[lake].manifest}:
                raise ValueError(f"stream {name} would fill the lake's own table {destination.table}")
            targets[target] = name
        return self

    def lake_name(self, stream: str) -> str:
        """The name of the stream's lake.

        Raises:
            ValueError: it names none and there are several, or one that does not exist.
        """
        lake = self.streams[stream].lake
        if lake is None and len(self.lakes) > 1:
            raise ValueError(f"stream {stream} names no lake and there are several: {', '.join(self.lakes)}")
        lake = lake or next(iter(self.lakes))
        if lake not in self.lakes:
            raise ValueError(f"stream {stream} names the lake {lake!r}, and there is only {', '.join(self.lakes)}")
        return lake


def schema_of(model: type[Model] = LakeConfig) -> Mapping[str, Any]:
    """The JSON Schema of a config file, for editors."""
    return model.model_json_schema()

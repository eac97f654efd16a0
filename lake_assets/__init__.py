"""Keeps a DuckLake true to its landing zone, one partition at a time: Dagster assets, Spark jobs, one commit."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lake_assets.orchestration.component import LakeStream

__all__ = ["LakeStream"]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - a module's attributes are of any type
    # Dagster takes a second to import, and most who import this package have no use for it.
    if name == "LakeStream":
        from lake_assets.orchestration.component import LakeStream  # noqa: PLC0415

        return LakeStream
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    # Dagster's `dg` looks for components among these names.
    return sorted({*globals(), *__all__})

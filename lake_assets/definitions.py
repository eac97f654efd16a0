"""Dagster's definitions of the config; `workspace.yaml` and `dagster … -m lake_assets.definitions` load this module.

The config is the file `$LAKE_CONFIG`, or `lake.yaml` of the current folder. It is read when Dagster loads or reloads
the code location, not when this module is imported.
"""

import dagster as dg

from lake_assets.base.errors import LakeAssetsError
from lake_assets.orchestration.build import build_definitions
from lake_assets.streams.load import load_config


@dg.definitions
def defs() -> dg.Definitions:
    """Return the definitions of the config."""
    try:
        return build_definitions(load_config())
    except LakeAssetsError as error:
        # Without traceback and cause, so that the UI shows only the error's text.
        raise error.with_traceback(None) from None

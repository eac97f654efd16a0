"""What `workspace.yaml` and `dagster … -m lake_assets.definitions` load: the definitions of the config in use.

The config is the file that `$LAKE_CONFIG` names, else `lake.yaml` of the current folder. It is read when Dagster
loads the code location, and again at "Reload"; importing this module reads nothing.
"""

import dagster as dg

from lake_assets.config.load import load_config
from lake_assets.errors import LakeAssetsError
from lake_assets.orchestration.build import build_definitions


@dg.definitions
def defs() -> dg.Definitions:
    """The definitions of the config in use.

    Raises:
        LakeAssetsError: the config cannot be read or is not valid; the UI shows its text as the location's error.
    """
    try:
        return build_definitions(load_config())
    except LakeAssetsError as error:
        # Without where it came from and what caused it, so that the text that is meant for a person stands out.
        raise error.with_traceback(None) from None

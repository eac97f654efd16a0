"""Checks files `dagster.yaml` by Dagster's own schemas: those of the file, and those of the classes that it names.

    python -m dev.lint_dagster deploy/dagster.yaml

Nothing is connected to, and no variable need be set.
"""

import importlib
import sys
from pathlib import Path

import dagster as dg
from dagster._config import resolve_to_config_type, validate_config
from dagster._core.instance.ref import InstanceRef
from dagster._serdes import ConfigurableClassData


def problems(file: Path) -> list[str]:
    """What Dagster refuses in a file; nothing if it accepts it."""
    try:
        instance = InstanceRef.from_dir(str(file.parent), config_filename=file.name)
    except dg.DagsterInvalidConfigError as error:
        return [str(error)]
    found = []
    for data in instance:
        if isinstance(data, ConfigurableClassData):
            kind = getattr(importlib.import_module(data.module_name), data.class_name)
            result = validate_config(resolve_to_config_type(kind.config_type()), data.config_dict)
            found += [f"{data.class_name}: {error.message}" for error in result.errors or ()]
    return found


def main() -> int:
    """Print the problems of the files that the arguments name; returns the exit code."""
    found = [f"{name}: {problem}" for name in sys.argv[1:] for problem in problems(Path(name))]
    sys.stderr.write("".join(f"{line}\n" for line in found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

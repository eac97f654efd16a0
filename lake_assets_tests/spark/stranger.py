"""A Python that has the packages of this one, but not lake-assets, as workers of a cluster may be."""

import os
import sysconfig
import venv
from pathlib import Path


def stranger(folder: Path) -> tuple[str, Path]:
    """Make it; returns its executable, and a folder on its path, empty at first, in which a test may put a package."""
    extra = folder / "extra"
    extra.mkdir(parents=True)
    venv.create(folder / "python", symlinks=True, with_pip=False)
    [site] = (folder / "python" / "lib").glob("python*/site-packages")
    # The files `*.pth` of the other folder, one of which finds this package, are not read.
    (site / "packages.pth").write_text(f"{extra}\n{sysconfig.get_path('purelib')}\n")
    return os.fspath(folder / "python" / "bin" / "python"), extra


def without(extra: Path, package: str) -> None:
    """Let executors of a standalone cluster lack a package, while the driver on the same machine has it."""
    code = f"import os, sys\nif 'SPARK_EXECUTOR_DIRS' in os.environ: sys.modules[{package!r}] = None\n"
    (extra / "sitecustomize.py").write_text(code)


def older(folder: Path, version: str | None) -> None:
    """Put another version of the package into a folder; one of before versions were compared if None."""
    package = folder / "lake_assets"
    package.mkdir()
    (package / "__init__.py").touch()
    if version is not None:
        (package / "version.py").write_text(f'VERSION = "{version}"\n')

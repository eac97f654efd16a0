"""The peers' environments: one for each, made from its lock file with pip, which verifies every hash."""

import hashlib
import subprocess
import sys
from pathlib import Path

from dev.benchmarks.peers.catalogue import PeerKind

ROOT = Path(__file__).parents[3]
ENVIRONMENTS = ROOT / ".peers"  # `make clean` removes it


class EnvironmentFailedError(Exception):
    """pip could not install a lock file; the text is pip's last line."""


def python_of(kind: PeerKind) -> Path:
    """The peer's Python; its environment is made if it is missing or of another lock file.

    Raises:
        EnvironmentFailedError: pip failed.
    """
    if kind.lock is None:
        return Path(sys.executable)
    digest = hashlib.sha256(kind.lock.read_bytes() + sys.version.encode()).hexdigest()[:12]
    folder = ENVIRONMENTS / f"{kind.lock.stem}-{digest}"
    python, stamp = folder / "bin" / "python", folder / ".installed"
    if not stamp.exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        done = subprocess.run(
            [*pip, "--require-hashes", "-r", str(kind.lock)], capture_output=True, text=True, check=False
        )
        if done.returncode:
            last = [line for line in done.stderr.splitlines() if line.strip()]
            raise EnvironmentFailedError(last[-1] if last else f"pip ended with {done.returncode}")
        stamp.touch()
    return python

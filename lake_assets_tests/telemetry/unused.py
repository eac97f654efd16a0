"""What a fresh interpreter imports of a library that the environment does not ask for."""

import os
import subprocess
import sys


def is_imported(library: str, script: str, prefix: str) -> bool:
    """Whether a script imports the library in an environment without variables of this prefix."""
    found = f"{script}\nimport sys; print(any(name.startswith({library!r}) for name in sys.modules))"
    environment = {name: text for name, text in os.environ.items() if not name.startswith(prefix)}
    done = subprocess.run([sys.executable, "-c", found], env=environment, capture_output=True, text=True, check=True)
    return done.stdout.strip() == "True"

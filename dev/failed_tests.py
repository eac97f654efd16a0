"""Run the tests again that the last run failed, one at a time, if they are at most three: `make test-failed`.

The last lines name the tests that passed only now: each has a race to mend.
"""

import json
import subprocess
import sys
from pathlib import Path

MOST = 3
FAILED = Path(".pytest_cache/v/cache/lastfailed")


def main() -> int:
    """Return the exit code: 0 if all of them pass now."""
    failed = sorted(json.loads(FAILED.read_text())) if FAILED.exists() else []
    if len(failed) > MOST:
        print(f"{len(failed)} tests failed; only up to {MOST} are run again", file=sys.stderr)
        return 1
    if not failed:
        print("the last run recorded no failed test: it ended before, or by another error", file=sys.stderr)
        return 1
    code = subprocess.call([sys.executable, "-m", "pytest", "-m", "not kill_all", *failed])
    if code == 0:
        print("Tests that passed only when they were run again:", *failed, sep="\n  ")
    return code


if __name__ == "__main__":
    sys.exit(main())

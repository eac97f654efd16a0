"""Each example of `examples/`, run on real data."""

from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"

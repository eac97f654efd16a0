"""Which partitions a person means: `date=2026-02,region=NW|NE`, those that have landed, those that failed."""

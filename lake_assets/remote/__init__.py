"""A run whose driver is a process of its own: what it gets, and what it reports by Dagster Pipes."""

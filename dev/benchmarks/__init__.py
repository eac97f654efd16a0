"""Measurements, each run by hand: `python -m dev.benchmarks.NAME`."""

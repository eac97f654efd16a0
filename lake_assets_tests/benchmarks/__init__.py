"""Measurements, each run by hand: `python -m lake_assets_tests.benchmarks.NAME`."""

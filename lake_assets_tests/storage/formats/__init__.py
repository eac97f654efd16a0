"""Tests of texts that land beside Parquet."""

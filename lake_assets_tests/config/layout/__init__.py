"""Tests of lake_assets/layout."""

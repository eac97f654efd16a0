"""Ingest: partitions of the lake from the landing zone, by replacement or by registration in place."""

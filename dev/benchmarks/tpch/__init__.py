"""TPC-H's `lineitem` loaded, restated and read by this package and by its peers: `make bench-tpch`."""

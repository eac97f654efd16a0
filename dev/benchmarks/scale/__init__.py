"""How cost grows: with partitions, files, objects, ledger rows, and writers of one catalog."""

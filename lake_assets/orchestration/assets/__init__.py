"""The assets: the table of a stream, its landing zone, its report, the ledger; and what assets downstream read."""

"""Whether a stream's table is what landing zone, ledger and catalog say it is. `run.py` has the list of checks."""

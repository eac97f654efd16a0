"""Checks of a stream's table against landing zone, ledger and catalog. `run.py` lists them."""

"""What `deploy/` has, tried."""

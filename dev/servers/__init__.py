"""Real servers for the tests: SeaweedFS for S3, a proxy in front of it, and PostgreSQL."""

"""Object stores behind one URI: local folders and S3."""

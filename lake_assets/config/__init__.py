"""What a user writes, validated before anything runs. No I/O but reading the file itself."""

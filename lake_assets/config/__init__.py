"""What a user writes, validated before anything runs. No I/O but reading the file itself.

A validator's refusal is a ValueError, of which pydantic makes its own; `load_config` makes a ConfigError of that.
"""

"""Environment variables that say yes or no."""

from collections.abc import Mapping

from lake_assets.errors import ConfigError

_TRUE, _FALSE = frozenset({"1", "true", "t", "yes", "y", "on"}), frozenset({"0", "false", "f", "no", "n", "off"})


def is_true(environment: Mapping[str, str], name: str, *, default: bool) -> bool:
    """Whether a variable says yes, in any case and with blanks around it; the default if it is absent or empty.

    Raises:
        ConfigError: it says neither yes nor no.
    """
    value = environment.get(name, "").strip().lower()
    if not value:
        return default
    if value not in _TRUE | _FALSE:
        raise ConfigError(
            f"{name} is {environment[name]!r}:", "set it to true, 1, yes or on, or to false, 0, no or off."
        )
    return value in _TRUE

"""Spark's settings in the config. They have no secrets, because `repr`, Spark's pages and Dagster's UI show them."""

import re
from collections.abc import Mapping

# Names that Spark itself redacts (spark.redaction.regex), and those of Azure's keys.
_SECRET = re.compile(
    r"secret|passw(?:or)?d|passphrase|token|(?:access|account|api|private)[._-]?key|azure\.sas", re.IGNORECASE
)
# The location of a secret, or whether there is one, but not the secret.
_REFERENCE = re.compile(r"\.kubernetes\.\w+\.(?:secrets|secretKeyRef)\.|(?:file|path|provider|enabled)$", re.IGNORECASE)
_SECRET_IN_VALUE = re.compile(rf"(?:{_SECRET.pattern})[\w.-]*=|://[^/\s:@]+:[^/\s@]+@", re.IGNORECASE)

_MAX_LENGTH = 10_000


def refuse_secrets(settings: Mapping[str, str]) -> None:
    """Refuse settings with a secret, and very long ones.

    Raises:
        ValueError: a setting has a secret, or is too long.
    """
    for name, value in settings.items():
        if len(value) > _MAX_LENGTH:
            raise ValueError(f"{name} has more than {_MAX_LENGTH} characters: write it in spark-defaults.conf")
        if (_SECRET.search(name) and not _REFERENCE.search(name)) or _SECRET_IN_VALUE.search(value):
            raise ValueError(
                f"{name} has a secret, and Dagster shows Spark's settings: remove it, and set it in "
                "spark-defaults.conf, in the environment of driver and workers, or by the credential chain"
            )

"""Masks the config's secrets in texts of clients and engines."""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from urllib.parse import quote, unquote

from pydantic import BaseModel, SecretStr

MOTHERDUCK_TOKEN = "MOTHERDUCK_TOKEN"  # noqa: S105 - the variable's name

_MASK = "***"
_LEAST_LENGTH = 6  # of a secret that is looked for in other texts
# Parts of connection strings and signed URLs; clients repeat single parts.
_PARTS = re.compile(r"(?:AccountKey|SharedAccessSignature|sig|password)=([^;&]+)", re.IGNORECASE)


def masked(text: str, *models: BaseModel) -> str:
    """Return the text with all secrets of these models, and MotherDuck's token, replaced by asterisks.

    A secret is found unchanged, quoted for SQL, and percent-encoded or decoded. Its parts are found too: the key of a
    connection string, the signature of a signed URL.
    """
    secrets = {form for model in models for secret in _secrets(model) for form in _forms(secret)}
    secrets |= set(_forms(os.environ.get(MOTHERDUCK_TOKEN, "")))
    for secret in sorted(secrets, key=len, reverse=True):  # a part must not be replaced before the whole
        text = text.replace(secret, _MASK)
    return text


@contextmanager
def masking(*models: BaseModel) -> Iterator[None]:
    """Mask the secrets of these models in errors of the block."""
    try:
        yield
    except Exception as error:
        mask_error(error, *models)
        raise


def mask_error(error: BaseException, *models: BaseModel) -> None:
    """Mask the texts of the error and of its causes and contexts, because a traceback prints them all."""
    seen: set[int] = set()
    pending: list[BaseException | None] = [error]
    while pending:
        current = pending.pop()
        if current is None or id(current) in seen:
            continue
        seen.add(id(current))
        current.args = tuple(masked(a, *models) if isinstance(a, str) else a for a in current.args)
        for name in ("strerror", "problem", "hint"):  # printed by OSError and LakeAssetsError
            if isinstance(text := getattr(current, name, None), str):
                setattr(current, name, masked(text, *models))
        pending += [current.__cause__, current.__context__]


def secret_in(text: str, model: BaseModel) -> bool:
    """Return whether the text has a secret of the model, or of a model within it; words of a few letters are none."""
    secrets = (secret for secret in _secrets(model) if len(secret) >= _LEAST_LENGTH)
    return any(form in text for secret in secrets for form in _forms(secret))


def _secrets(value: object) -> Iterator[str]:
    """Yield the secrets of a model, and of models within it."""
    if isinstance(value, SecretStr):
        yield value.get_secret_value()
    elif isinstance(value, BaseModel):
        yield from _secrets(value.model_dump())
    elif isinstance(value, Mapping | list | tuple):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from _secrets(item)


def _forms(secret: str) -> Iterator[str]:
    for text in (secret, *_PARTS.findall(secret)):
        if text:
            yield from (text, text.replace("'", "''"), quote(text, safe=""), quote(text), unquote(text))

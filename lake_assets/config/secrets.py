"""Keeping the config's secrets out of texts that come from clients and engines."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import quote, unquote

from pydantic import BaseModel, SecretStr

MOTHERDUCK_TOKEN = "MOTHERDUCK_TOKEN"  # noqa: S105 - the variable's name

_MASK = "***"
# What a connection string or a signed URL is made of; clients repeat the parts alone.
_PARTS = re.compile(r"(?:AccountKey|SharedAccessSignature|sig|password)=([^;&]+)", re.IGNORECASE)


def masked(text: str, *models: BaseModel) -> str:
    """The text with every secret of these models, and MotherDuck's token, replaced by asterisks.

    A secret is found as it is, as SQL quotes it, percent-encoded or decoded, and by the parts that clients take out
    of it (the key of a connection string, the signature of a signed URL).
    """
    secrets = {form for model in models for secret in _secrets(model) for form in _forms(secret)}
    secrets |= set(_forms(os.environ.get(MOTHERDUCK_TOKEN, "")))
    for secret in sorted(secrets, key=len, reverse=True):  # a part must not be replaced before the whole
        text = text.replace(secret, _MASK)
    return text


@contextmanager
def masking(*models: BaseModel) -> Iterator[None]:
    """Let no error pass with a secret of these models in it."""
    try:
        yield
    except Exception as error:
        mask_error(error, *models)
        raise


def mask_error(error: BaseException, *models: BaseModel) -> None:
    """Mask the error's own text, and those of the errors that it came from: a traceback prints them all."""
    seen: set[int] = set()
    pending: list[BaseException | None] = [error]
    while pending:
        current = pending.pop()
        if current is None or id(current) in seen:
            continue
        seen.add(id(current))
        current.args = tuple(masked(a, *models) if isinstance(a, str) else a for a in current.args)
        for name in ("strerror", "problem", "hint"):  # what an OSError and an error of ours print
            if isinstance(text := getattr(current, name, None), str):
                setattr(current, name, masked(text, *models))
        pending += [current.__cause__, current.__context__]


def _secrets(model: BaseModel) -> Iterator[str]:
    for name in type(model).model_fields:
        value = getattr(model, name)
        if isinstance(value, SecretStr):
            yield value.get_secret_value()


def _forms(secret: str) -> Iterator[str]:
    for text in (secret, *_PARTS.findall(secret)):
        if text:
            yield from (text, text.replace("'", "''"), quote(text, safe=""), quote(text), unquote(text))

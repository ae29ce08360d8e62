"""Settings in the file `.env` and in secret files (`ash_secret`), read by pydantic-settings."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import create_model
from pydantic_settings import (
    BaseSettings,
    DotEnvSettingsSource,
    PydanticBaseSettingsSource,
    SecretsSettingsSource,
    SettingsConfigDict,
)


class UnreadableFiles(Exception):
    """The files exist, but are not readable, or not text."""


class _Files(BaseSettings):
    model_config = SettingsConfigDict(env_prefix="ASH_", env_ignore_empty=True, extra="ignore")


def read_files(names: Sequence[str], dotenv: Path | None, secrets: Path | None) -> Mapping[str, str]:
    """Return the texts of these settings. Raises UnreadableFiles."""
    fields: dict[str, Any] = dict.fromkeys(names, (str | None, None))
    model = create_model("Files", __base__=_Files, **fields)
    texts: dict[str, str] = {}
    try:
        for source in _sources(model, dotenv, secrets):
            texts |= {name: text for name, text in source().items() if name in fields and text}
    except OSError as error:
        raise UnreadableFiles(error.strerror or "") from error
    except ValueError as error:  # its message may quote a secret
        raise UnreadableFiles("they are not text in UTF-8") from error
    return texts


def _sources(
    model: type[_Files], dotenv: Path | None, secrets: Path | None
) -> Iterator[PydanticBaseSettingsSource]:
    """Yield the sources; later ones have priority."""
    if secrets is not None:
        yield SecretsSettingsSource(model, secrets)
    if dotenv is not None:
        yield DotEnvSettingsSource(model, dotenv)

r"""Replacement of tokens, keys and passwords in texts that are shown to others, such as `[redacted: github token]`.

Uses the patterns of detect-secrets (https://github.com/Yelp/detect-secrets) for tokens of a fixed form, and patterns
for further forms that vendors document. Patterns that guess by entropy or by names of variables are not used, because
they would also remove ids and hashes. A replacement contains no quote and no backslash: texts may be redacted as JSON,
Markdown or HTML, and stay valid. In JSON, `\"` and `\n` stand for quotes and line ends, so patterns accept both.
"""

import re
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from typing import NamedTuple

_MAX_KEY_LENGTH = 16 * 1024
"""Characters of a private key with its header and footer."""


_KEY_HEADER, _KEY_FOOTER = b"-----BEGIN ", b"-----END "


class _Rule(NamedTuple):
    pattern: re.Pattern[str]
    replace: Callable[[re.Match[str]], str]


_DETECTORS = {
    "aws": "AWSKeyDetector",
    "azure_storage_key": "AzureStorageKeyDetector",
    "discord": "DiscordBotTokenDetector",
    "github_token": "GitHubTokenDetector",
    "gitlab_token": "GitLabTokenDetector",
    "mailchimp": "MailchimpDetector",
    "pypi_token": "PypiTokenDetector",
    "sendgrid": "SendGridDetector",
    "slack": "SlackDetector",
    "square_oauth": "SquareOAuthDetector",
    "stripe": "StripeDetector",
    "telegram_token": "TelegramBotTokenDetector",
    "twilio": "TwilioKeyDetector",
}
"""Classes of detect-secrets, by module."""

_QUOTE = r"(?:\\?[\"'])?"
_KEY_NAME = r"(?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)?-----"

_PATTERNS = {
    "private key": (
        rf"-----BEGIN {_KEY_NAME}(?:(?:(?!-----BEGIN )[\s\S]){{1,{_MAX_KEY_LENGTH}}}?-----END {_KEY_NAME}"
        r"|(?:(?:\\[nr]|\s)+[A-Za-z0-9+/=]{40,})*)"
    ),
    "json web token": r"eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}",
    "authorization header": (
        rf"(?i:authorization){_QUOTE}\s{{0,3}}[:=]\s{{0,3}}{_QUOTE}(?i:bearer|basic|token)\s{{1,3}}"
        r"(?P<secret>[A-Za-z0-9._~+/=-]{16,})"
    ),
    "password in a url": r"://[^\s/:@\"'\\<>]{1,64}:(?P<secret>[^\s/@\"'\\<>{}$]{3,256})@",
    "aws secret key": (
        rf"(?i:aws|secret)[A-Za-z_ .-]{{0,30}}{_QUOTE}\s{{0,3}}[=:]\s{{0,3}}{_QUOTE}"
        r"(?P<secret>[A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=])"
    ),
    "anthropic key": r"sk-ant-[A-Za-z0-9_-]{20,}",
    "openrouter key": r"sk-or-v1-[a-f0-9]{64}",
    "openai key": r"sk-(?:(?:proj|svcacct|admin)-[A-Za-z0-9_-]{20,}|[A-Za-z0-9]{32,})",
    "google api key": r"AIza[A-Za-z0-9_-]{35}",
    "google token": r"ya29\.[A-Za-z0-9_-]{20,}",
    "google client secret": r"GOCSPX-[A-Za-z0-9_-]{28}",
    "github token": r"github_pat_[A-Za-z0-9_]{22,255}",
    "hugging face token": r"hf_[A-Za-z0-9]{34}",
    "npm token": r"npm_[A-Za-z0-9]{36}",
    "digitalocean token": r"do[opr]_v1_[a-f0-9]{64}",
    "groq key": r"gsk_[A-Za-z0-9]{52}",
    "xai key": r"xai-[A-Za-z0-9]{80}",
    "ash key": r"ash_[A-Za-z0-9]{40,}",
}
"""If a pattern has a group `secret`, only this group is replaced."""


def redact(text: str) -> str:
    """Replace the secrets. About 0.2 s per megabyte: redact large texts in a thread."""
    for rule in _rules():
        text = rule.pattern.sub(rule.replace, text)
    return text


class RedactedStream:
    """Redacts a text that comes in pieces, line by line; a private key stays together.

    `has_keys_on_one_line`: each line is JSON, in which the line ends of a key are escaped.
    """

    def __init__(self, *, has_keys_on_one_line: bool = False) -> None:
        self._find_end = _end_of_line if has_keys_on_one_line else _end_outside_of_keys
        self._pending = bytearray()

    @property
    def pending_bytes(self) -> int:
        return len(self._pending)

    def add(self, piece: bytes, *, more: bool) -> bytes:
        """Return the redacted text up to the last line end, or all of it if no more follows."""
        self._pending += piece
        end = self._find_end(self._pending) if more else len(self._pending)
        text = self._pending[:end].decode("utf-8", "surrogateescape")
        del self._pending[:end]
        return redact(text).encode("utf-8", "surrogateescape")


def _end_of_line(text: bytearray) -> int:
    """Return the end of the last complete line."""
    return text.rfind(b"\n") + 1


def _end_outside_of_keys(text: bytearray) -> int:
    """Return the end of the last complete line, before a private key that is not complete."""
    end = _end_of_line(text)
    key = text.rfind(_KEY_HEADER, max(0, end - _MAX_KEY_LENGTH), end)
    is_incomplete = key >= 0 and text.find(_KEY_FOOTER, key, end) < 0
    return key if is_incomplete else end


@cache
def _rules() -> tuple[_Rule, ...]:
    return (*_own_rules(), *_library_rules())


def _own_rules() -> Iterator[_Rule]:
    for label, pattern in _PATTERNS.items():
        yield _Rule(re.compile(pattern), _replacer(label))


def _library_rules() -> Iterator[_Rule]:
    for module, name in _DETECTORS.items():
        detector = getattr(import_module(f"detect_secrets.plugins.{module}"), name)
        for pattern in detector.denylist:
            yield _Rule(pattern, _replacer(detector.secret_type.lower()))


def _replacer(label: str) -> Callable[[re.Match[str]], str]:
    def replace(match: re.Match[str]) -> str:
        start, end = match.span("secret" if "secret" in match.re.groupindex else 0)
        text = match.string
        return f"{text[match.start() : start]}[redacted: {label}]{text[end : match.end()]}"

    return replace

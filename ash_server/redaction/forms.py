"""The forms of tokens, keys and passwords, one row each, with links to their documentation.

There are no forms that guess by entropy or variable names, because they would also match ids and hashes. Each pattern
begins with a literal, has a bounded length and cannot match in two ways, so a search takes time in proportion to the
text. The characters before the literal are checked afterwards.
"""

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple, TypeAlias

MAX_LENGTH = 16 * 1024
"""Characters of the longest form, a private key with its header and footer."""

_MAX_TOKEN = 4096
_MAX_URL_PASSWORD = 256
_MAX_SESSION_TOKEN = 12 * 1024

SecretSpan: TypeAlias = tuple[int, int]
Find: TypeAlias = Callable[[str, int, int], Iterator[SecretSpan]]
"""Yields the spans that begin between two positions, in order."""


class Form(NamedTuple):
    label: str
    anchors: tuple[str, ...]
    """Literals; a text without any has no match."""
    find: Find
    ignores_case: bool = False
    """True if the anchors, which are in lower case, match in any case."""
    has_escapes: bool = False
    """True if JSON may contain the secret with escapes other than `\\u`, of quotes, slashes or line ends."""


def _matching(pattern: str, before: str = "", width: int = 0) -> Find:
    """Find a pattern, or its group `secret`.

    `before` must match up to `width` characters before it, which are included.
    """
    search = re.compile(pattern)
    preceding = re.compile(rf"(?:{before})\Z") if before else None
    return partial(_find_matches, search, preceding, width)


def _find_matches(
    pattern: re.Pattern[str], preceding: re.Pattern[str] | None, width: int, text: str, start: int, end: int
) -> Iterator[SecretSpan]:
    group = "secret" if "secret" in pattern.groupindex else 0
    for match in pattern.finditer(text, start, end):
        first, last = match.span(group)
        if preceding is None:
            yield first, last
        elif prefix := preceding.search(text, max(0, first - width), first):
            yield prefix.start(), last


_QUOTE = r"(?:\\{0,7}[\"'])?"
_AWS_SECRET = re.compile(r"(?<![A-Za-z0-9/+])[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+=])")
_AWS_NAME = re.compile(
    rf"(?i:aws|secret)[A-Za-z_ .-]{{0,30}}{_QUOTE}\s{{0,3}}[=:]\s{{0,3}}{_QUOTE}\Z", re.ASCII
)
_MAX_NAME = 64
_AWS_WORDS = ("key", "pw", "pass", "token")


def _find_aws_secrets(text: str, start: int, end: int) -> Iterator[SecretSpan]:
    """Find 40 characters after a name that identifies them as an AWS secret."""
    for match in _AWS_SECRET.finditer(text, start, end):
        first, last = match.span()
        name = text[max(0, first - _MAX_NAME) : first]
        is_digits = match[0].isdigit()  # a JSON number
        if not is_digits and (_AWS_NAME.search(name) or _is_quoted_aws_key(name, text[last : last + 1])):
            yield first, last


def _is_quoted_aws_key(name: str, after: str) -> bool:
    """True for a quoted text after `aws` and the name of a key, token or password on the same line."""
    line = re.split(r"[\r\n]", name)[-1].lower()
    at = line.find("aws")
    is_quoted = line.endswith(("'", '"')) and after in ("'", '"', "\\")
    return is_quoted and at >= 0 and any(word in line[at + 3 :] for word in _AWS_WORDS)


_DOTTED = re.compile(r"[A-Za-z0-9_-]++(?:\.[A-Za-z0-9_-]++)++")
_MIN_PART = 10


def _find_web_tokens(text: str, start: int, end: int) -> Iterator[SecretSpan]:
    """Find three parts separated by dots; the first two are Base64 of JSON objects."""
    for run in _DOTTED.finditer(text, start, end):
        if ".eyJ" not in run[0]:
            continue
        parts, at = run[0].split("."), run.start()
        for index, part in enumerate(parts[:-2]):
            header, rest = part.find("eyJ"), parts[index + 1 : index + 3]
            if header >= 0 and _are_parts(part[header:], *rest):
                length = len(part) + 2 + sum(map(len, rest))
                yield at + header, min(at + length, at + header + MAX_LENGTH)
            at += len(part) + 1


def _are_parts(header: str, payload: str, signature: str) -> bool:
    is_object = payload.startswith("eyJ")
    return is_object and min(len(header) - 3, len(payload) - 3, len(signature)) >= _MIN_PART


_KEY_NAME = r"(?:[A-Z0-9]{1,20} ){0,4}PRIVATE KEY(?: BLOCK)?-----"
_KEY_HEADER = re.compile(f"-----BEGIN {_KEY_NAME}")
_KEY_FOOTER = re.compile(f"-----END {_KEY_NAME}")
_KEY_LINES = re.compile(r"(?:(?:\\[nr]|[\s\"',])++[A-Za-z0-9+/=]{40,1024}+)*+")
"""The lines of a key without a footer, as text or as strings of a list."""


def _find_private_keys(text: str, start: int, end: int) -> Iterator[SecretSpan]:
    while header := _KEY_HEADER.search(text, start, end):
        start = _end_of_key(text, header.end(), min(end, header.start() + MAX_LENGTH))
        yield header.start(), start


def _end_of_key(text: str, start: int, limit: int) -> int:
    other = text.find("-----BEGIN ", start, limit)
    footer = _KEY_FOOTER.search(text, start, limit if other < 0 else other)
    if footer is not None:
        return footer.end()
    lines = _KEY_LINES.match(text, start, limit)
    return lines.end() if lines else start


_TOKEN = "[A-Za-z0-9_-]"
_URL_USER = r"[^\s/:@\"'\\<>]"
_URL_PASSWORD = r"[^\s/@\"'\\<>{}]"
_URL_PASSWORD_END = r"[^\s/@\"'\\<>{}?#,;&|]"
"""After an unescaped `@`; the characters that may end the authority of a URL are excluded."""

FORMS: tuple[Form, ...] = (
    # https://www.rfc-editor.org/rfc/rfc7468 and https://www.rfc-editor.org/rfc/rfc9580 (PGP)
    Form("private key", ("-----BEGIN ",), _find_private_keys, has_escapes=True),
    # https://www.rfc-editor.org/rfc/rfc7519
    Form("json web token", (".eyJ",), _find_web_tokens),
    # https://www.rfc-editor.org/rfc/rfc9110#name-authorization
    Form(
        "authorization header",
        ("authorization",),
        _matching(
            rf"[aA](?i:uthorization){_QUOTE}\s{{0,3}}[:=]\s{{0,3}}{_QUOTE}(?i:bearer|basic|token)\s{{1,3}}"
            rf"(?P<secret>[A-Za-z0-9._~+/=-]{{16,{_MAX_TOKEN}}})"
        ),
        ignores_case=True,
        has_escapes=True,
    ),
    # https://www.rfc-editor.org/rfc/rfc3986#section-3.2.1
    Form(
        "password in a url",
        ("@",),
        _matching(
            rf":\\{{0,7}}/\\{{0,7}}/{_URL_USER}{{0,64}}(?:@{_URL_USER}{{1,64}}){{0,2}}:(?P<secret>(?![{{$])"
            rf"(?:{_URL_PASSWORD}{{0,{_MAX_URL_PASSWORD}}}(?:@{_URL_PASSWORD_END}{{1,64}}){{1,4}}"
            rf"|{_URL_PASSWORD}{{3,{_MAX_URL_PASSWORD}}}))@"
        ),
        has_escapes=True,
    ),
    # https://docs.aws.amazon.com/IAM/latest/UserGuide/id_credentials_access-keys.html
    Form("aws secret key", ("aws", "secret"), _find_aws_secrets, ignores_case=True, has_escapes=True),
    # https://docs.aws.amazon.com/STS/latest/APIReference/API_Credentials.html
    Form(
        "aws session token",
        tuple(f"{kind}{between}token" for kind in ("session", "security") for between in ("", "_", "-")),
        _matching(
            rf"[sS](?i:ession|ecurity)[_-]?(?i:token){_QUOTE}\s{{0,3}}[=:>]{{1,2}}\s{{0,3}}b?{_QUOTE}"
            rf"(?P<secret>[A-Za-z0-9+/=%_-]{{100,{_MAX_SESSION_TOKEN}}})"
        ),
        ignores_case=True,
        has_escapes=True,
    ),
    # https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_identifiers.html
    Form(
        "aws access key",
        ("A3T", "ABIA", "ACCA", "AKIA", "ASIA"),
        _matching(r"A(?:3T[A-Z0-9]|BIA|CCA|KIA|SIA)[0-9A-Z]{16,128}"),
    ),
    # https://platform.claude.com/docs/en/api/overview
    Form("anthropic key", ("sk-ant-",), _matching(rf"sk-ant-{_TOKEN}{{20,{_MAX_TOKEN}}}")),
    # https://openrouter.ai/docs/api-reference/authentication
    Form("openrouter key", ("sk-or-v1-",), _matching(rf"sk-or-v1-[a-f0-9]{{64,{_MAX_TOKEN}}}")),
    # https://platform.openai.com/docs/api-reference/authentication
    Form(
        "openai key",
        ("sk-",),
        _matching(
            rf"sk-(?:(?:proj|svcacct|admin)-{_TOKEN}{{20,{_MAX_TOKEN}}}|[A-Za-z0-9]{{32,{_MAX_TOKEN}}})"
        ),
    ),
    # https://docs.cloud.google.com/docs/authentication/api-keys
    Form("google api key", ("AIza",), _matching(rf"AIza{_TOKEN}{{35,{_MAX_TOKEN}}}")),
    # https://developers.google.com/identity/protocols/oauth2
    Form("google token", ("ya29.",), _matching(rf"ya29\.{_TOKEN}{{20,{_MAX_TOKEN}}}")),
    Form("google client secret", ("GOCSPX-",), _matching(rf"GOCSPX-{_TOKEN}{{28,{_MAX_TOKEN}}}")),
    # https://docs.github.com/en/authentication/keeping-your-account-and-data-secure/about-authentication-to-github
    Form("github token", ("github_pat_",), _matching(rf"github_pat_[A-Za-z0-9_]{{22,{_MAX_TOKEN}}}")),
    Form(
        "github token",
        ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"),
        _matching(rf"gh[pousr]_[A-Za-z0-9_]{{36,{_MAX_TOKEN}}}"),
    ),
    # https://docs.gitlab.com/security/tokens/#token-prefixes
    Form(
        "gitlab token",
        ("glpat-", "gldt-", "glft-", "glsoat-", "glrt-", "glcbt-", "glimt-", "glptt-", "glagent-", "gloas-"),
        _matching(
            rf"gl(?:pat|dt|ft|soat|rt|cbt|imt|ptt|agent|oas)-{_TOKEN}{{20,{_MAX_TOKEN}}}",
        ),
    ),
    Form("gitlab token", ("GR1348941",), _matching(rf"GR1348941{_TOKEN}{{20,{_MAX_TOKEN}}}")),
    # https://huggingface.co/docs/hub/security-tokens
    Form("hugging face token", ("hf_",), _matching(rf"hf_[A-Za-z0-9]{{34,{_MAX_TOKEN}}}")),
    # https://docs.npmjs.com/about-access-tokens
    Form("npm token", ("npm_",), _matching(rf"npm_[A-Za-z0-9]{{36,{_MAX_TOKEN}}}")),
    # https://docs.digitalocean.com/reference/api/create-personal-access-token/
    Form(
        "digitalocean token",
        ("dop_v1_", "doo_v1_", "dor_v1_"),
        _matching(rf"do[opr]_v1_[a-f0-9]{{64,{_MAX_TOKEN}}}"),
    ),
    # https://console.groq.com/docs/quickstart
    Form("groq key", ("gsk_",), _matching(rf"gsk_[A-Za-z0-9]{{52,{_MAX_TOKEN}}}")),
    # https://docs.x.ai/docs/tutorial
    Form("xai key", ("xai-",), _matching(rf"xai-[A-Za-z0-9]{{80,{_MAX_TOKEN}}}")),
    # ash_server/keys/digests.py
    Form("ash key", ("ash_",), _matching(rf"ash_[A-Za-z0-9]{{40,{_MAX_TOKEN}}}")),
    # https://learn.microsoft.com/azure/storage/common/storage-configure-connection-string
    Form(
        "azure storage account access key",
        ("AccountKey=",),
        _matching(rf"AccountKey=[A-Za-z0-9+/=]{{88,{_MAX_TOKEN}}}"),
        has_escapes=True,
    ),
    # https://docs.discord.com/developers/reference#authentication
    Form(
        "discord bot token",
        (".",),
        _matching(rf"\.{_TOKEN}{{6}}\.{_TOKEN}{{27,128}}", rf"[MNO]{_TOKEN}{{23,25}}", 26),
    ),
    # https://mailchimp.com/developer/marketing/guides/quick-start/#generate-your-api-key
    Form("mailchimp access key", ("-us",), _matching(r"-us[0-9]{1,2}", r"[0-9a-z]{32}", 32)),
    # https://docs.pypi.org/api/secrets/
    Form(
        "pypi token",
        ("pypi-AgE",),
        _matching(rf"pypi-AgE(?:IcHlwaS5vcmc|NdGVzdC5weXBpLm9yZw){_TOKEN}{{70,{_MAX_TOKEN}}}"),
    ),
    # https://www.twilio.com/docs/sendgrid/ui/account-and-settings/api-keys
    Form("sendgrid api key", ("SG.",), _matching(rf"SG\.{_TOKEN}{{22}}\.{_TOKEN}{{43,{_MAX_TOKEN}}}")),
    # https://docs.slack.dev/authentication/tokens and https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks
    Form(
        "slack token",
        ("xox",),
        _matching(r"[xX][oO][xX][abcdeoprsABCDEOPRS]-(?:[0-9]{1,64}-){1,32}[A-Za-z0-9]{1,1024}"),
        ignores_case=True,
    ),
    Form(
        "slack token",
        ("xapp-",),
        _matching(r"xapp-[0-9]{1,4}-[A-Z0-9]{1,64}-[0-9]{1,64}-[A-Za-z0-9]{16,1024}"),
    ),
    Form(
        "slack token",
        ("hooks.slack.com",),
        _matching(
            r"[hH](?i:ooks\.slack\.com)\\{0,7}/(?i:services)\\{0,7}/[tT][A-Za-z0-9_]{1,64}\\{0,7}/"
            r"[bB][A-Za-z0-9_]{1,64}\\{0,7}/[A-Za-z0-9_]{1,1024}"
        ),
        ignores_case=True,
        has_escapes=True,
    ),
    # https://developer.squareup.com/docs/build-basics/access-tokens
    Form("square oauth secret", ("sq0csp-",), _matching(rf"sq0csp-[0-9A-Za-z_-]{{43,{_MAX_TOKEN}}}")),
    # https://docs.stripe.com/keys
    Form(
        "stripe access key",
        ("k_live_",),
        _matching(rf"k_live_[0-9a-zA-Z]{{24,{_MAX_TOKEN}}}", "[rs]", 1),
    ),
    # https://core.telegram.org/bots/api#authorizing-your-bot
    Form("telegram bot token", (":",), _matching(rf":{_TOKEN}{{35,128}}", "[0-9]{8,10}", 10)),
    # https://www.twilio.com/docs/glossary/what-is-a-sid
    Form("twilio api key", ("AC",), _matching(r"AC[a-z0-9]{32}")),
    Form("twilio api key", ("SK",), _matching(r"SK[a-z0-9]{32}")),
)
"""All forms. If the matches of several overlap, the first form labels the secret."""

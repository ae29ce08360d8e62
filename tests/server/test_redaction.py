"""Redaction of tokens, keys and passwords in texts."""

import json
from pathlib import Path

import pytest

from ash_server.redaction import RedactedStream, redact
from tests.shared.conftest import CORPUS

# Each value is assembled, so that scanners of repositories do not report it.
ALNUM = "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0dF3gH6jK9mN2pQ5sT8vW1yZ4"
HEX = "0123456789abcdef" * 4
SECRETS = {
    "anthropic key": "sk-ant-" + "api03-" + ALNUM,
    "openai key": "sk-" + "proj-" + ALNUM,
    "openrouter key": "sk-" + "or-v1-" + HEX,
    "google api key": "AIza" + ALNUM[:35],
    "google token": "ya29." + ALNUM,
    "google client secret": "GOCSPX-" + ALNUM[:28],
    "github token": "ghp_" + ALNUM[:36],
    "gitlab token": "glpat-" + ALNUM[:20],
    "hugging face token": "hf_" + ALNUM[:34],
    "npm token": "npm_" + ALNUM[:36],
    "digitalocean token": "dop_v1_" + HEX,
    "groq key": "gsk_" + ALNUM[:52],
    "xai key": "xai-" + (ALNUM * 2)[:80],
    "ash key": "ash_" + ALNUM[:43],
    "aws access key": "AKIA" + "Z7Q4M2X5P3L6K2W5",
    "slack token": "xoxb-" + "1234567890-" + "abcdef123456",
    "stripe access key": "sk_" + "live_" + ALNUM[:24],
    "sendgrid api key": "SG." + ALNUM[:22] + "." + ALNUM[:43],
    "json web token": "eyJhbGciOiJIUzI1NiJ9" + ".eyJzdWIiOiIxMjM0NTYifQ" + ".dBjftJeZ4CVP-mB92K27uh",
    "azure storage account access key": "AccountKey=" + (ALNUM * 2)[:86] + "==",
}
FRAMES = ("{}", "token {} here", '{{"key":"{}"}}', '"{{\\"key\\":\\"{}\\"}}"', "TOKEN={}\nnext", "<b>{}</b>")


@pytest.mark.parametrize("label", SECRETS)
def test_replaces_a_secret_within_any_text(label: str) -> None:
    redacted = [redact(frame.format(SECRETS[label])) for frame in FRAMES]

    assert redacted == [frame.format(f"[redacted: {label}]") for frame in FRAMES]


KEY = "-----BEGIN RSA PRIVATE KEY-----\n" + f"{ALNUM}\n" * 3 + "-----END RSA PRIVATE KEY-----"


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        (f"cat key\n{KEY}\ndone", "cat key\n[redacted: private key]\ndone"),
        (KEY.removesuffix("-----END RSA PRIVATE KEY-----") + "cut off", "[redacted: private key]\ncut off"),
        (f"{KEY} and {KEY}", "[redacted: private key] and [redacted: private key]"),
        (
            f"Authorization: Bearer {ALNUM}",
            "Authorization: Bearer [redacted: authorization header]",
        ),
        (
            "postgresql://ash:hunter2@db.example/ash",
            "postgresql://ash:[redacted: password in a url]@db.example/ash",
        ),
        (
            f'aws_secret_access_key = "{ALNUM[:40]}"',
            'aws_secret_access_key = "[redacted: aws secret key]"',
        ),
        (
            f'{{"SecretAccessKey": "{ALNUM[:40]}"}}',
            '{"SecretAccessKey": "[redacted: aws secret key]"}',
        ),
    ],
)
def test_replaces_only_the_secret(text: str, redacted: str) -> None:
    assert redact(text) == redacted
    # Within JSON, the same text has escapes.
    assert json.loads(redact(json.dumps(text))) == redacted


@pytest.mark.parametrize(
    "text",
    [
        "git checkout 3f2504e04f8911d39a0c0305e82c3301 && sha256:" + HEX,
        "uuid 0199f3a2-7c1e-7b3a-9d55-0c7b8f1f2e60, toolu_01AbCdEfGhIjKlMnOpQrStUv, msg_01AbCdEfGhIjKlMnOpQrStUv",
        "http://127.0.0.1:4100/sessions/1 mailto:a@example.com https://user@example.com",
        "postgresql://{user}:{password}@{host} and ${USER}:${PASSWORD}",
        "the secret key is task-related; Bearer of news",
        "ash_request_duration_seconds ash_database_connections",
    ],
)
def test_leaves_other_texts_alone(text: str) -> None:
    assert redact(text) == text


@pytest.mark.slow
@pytest.mark.skipif(not CORPUS.exists(), reason="the corpus is not here")
def test_real_transcripts_stay_valid() -> None:
    for path in sorted(Path(CORPUS).rglob("*.jsonl")):
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines()[:20]:
            redacted = redact(line)
            assert redacted == line or json.loads(redacted)


def in_pieces(text: str, size: int, *, has_keys_on_one_line: bool = False) -> str:
    stream, data = RedactedStream(has_keys_on_one_line=has_keys_on_one_line), text.encode()
    pieces = [stream.add(data[start : start + size], more=True) for start in range(0, len(data), size)]
    return b"".join([*pieces, stream.add(b"", more=False)]).decode()


@pytest.mark.parametrize("size", [1, 7, 64, 100_000])
def test_secrets_are_found_in_a_text_that_comes_in_pieces(size: int) -> None:
    text = f"é {SECRETS['github token']}\n{KEY}\n-----BEGIN nothing\n" + "x\n" * 20_000 + f"{KEY}\nend"

    assert in_pieces(text, size) == redact(text)


def test_a_line_with_the_header_of_a_key_does_not_wait_in_a_stream_of_events() -> None:
    stream = RedactedStream(has_keys_on_one_line=True)
    event = b'data: {"text":"-----BEGIN RSA PRIVATE KEY-----"}\n\n'

    assert stream.add(event, more=True) == b'data: {"text":"[redacted: private key]"}\n\n'

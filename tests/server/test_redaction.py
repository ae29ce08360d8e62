"""Redaction of tokens, keys and passwords in texts."""

import json
from base64 import b64encode
from functools import partial
from pathlib import Path
from re._parser import parse  # type: ignore[import-not-found]  # not public
from typing import Any

import pytest

from ash_server.redaction import RedactedLines, redact, redact_json, redact_name, redact_text, secrets
from ash_server.redaction.chunks import hide_event_texts
from ash_server.redaction.forms import FORMS, MAX_LENGTH
from ash_shared.model.blocks import MAX_DEPTH
from benchmarks.redacting import INPUTS
from tests.marking import slow_unless
from tests.secret_samples import ALNUM, HEX, SECRETS
from tests.shared.records.events import wire_event
from tests.shared.sample_files import CORPUS

OTHER_FORMS = {
    "github token": ["github_" + "pat_" + ALNUM, *(f"gh{kind}_{ALNUM[:36]}" for kind in "ours")],
    "gitlab token": [
        *(
            f"{kind}-{ALNUM[:20]}"
            for kind in ("gldt", "glft", "glsoat", "glrt", "GR1348941", "glcbt", "glcbt-0a_")
        ),
        "glimt-" + ALNUM[:25],
        "glptt-" + ALNUM[:40],
        "glagent-" + ALNUM[:50],
        "gloas-" + (ALNUM * 2)[:64],
    ],
    "slack token": [
        *(f"xox{kind}-1234567890-1234-{ALNUM[:24]}" for kind in "abposr"),
        "xapp-" + "1-A0123456789-1234567890123-" + HEX,
        "hooks.slack.com/" + "services/T0123/B0123/" + ALNUM[:24],
    ],
    "aws access key": [f"{kind}Z7Q4M2X5P3L6K2W5" for kind in ("A3TX", "ABIA", "ACCA", "ASIA")],
    "stripe access key": ["rk_" + "live_" + ALNUM[:24]],
    "pypi token": ["pypi-" + "AgENdGVzdC5weXBpLm9yZw" + (ALNUM * 2)[:70]],
    "twilio api key": ["AC" + HEX[:32]],
    "openai key": ["sk-" + ALNUM, *("sk-" + f"{kind}-{ALNUM}" for kind in ("svcacct", "admin"))],
    "digitalocean token": [f"do{kind}_v1_{HEX}" for kind in "or"],
}
FRAMES = ("{}", "token {} here", '{{"key":"{}"}}', '"{{\\"key\\":\\"{}\\"}}"', "TOKEN={}\nnext", "<b>{}</b>")


@pytest.mark.parametrize("label", SECRETS)
def test_replaces_a_secret_within_any_text(label: str) -> None:
    redacted = [redact(frame.format(SECRETS[label])) for frame in FRAMES]

    assert redacted == [frame.format(f"[redacted: {label}]") for frame in FRAMES]


@pytest.mark.parametrize("label", OTHER_FORMS)
def test_replaces_each_form(label: str) -> None:
    assert [redact(f"<{form}>") for form in OTHER_FORMS[label]] == [f"<[redacted: {label}]>"] * len(
        OTHER_FORMS[label]
    )


SESSION_TOKEN = "IQoJb3JpZ2lu" + ALNUM * 2 + "%2F/+=="
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
            f"my AWS access_token => '{ALNUM[:40]}'",
            "my AWS access_token => '[redacted: aws secret key]'",
        ),
        ("redis://cache:hun$ter2$@db", "redis://cache:[redacted: password in a url]@db"),
        ("redis://cache:p@ss@w@db.example/0", "redis://cache:[redacted: password in a url]@db.example/0"),
        ("redis://cache:@hunter2@db", "redis://cache:[redacted: password in a url]@db"),
        ("redis://cache:hunter2@db?by=a@b", "redis://cache:[redacted: password in a url]@db?by=a@b"),
        (
            "mongodb://a:hunter2@one,mongodb://b:hunter3@two",
            "mongodb://a:[redacted: password in a url]@one,mongodb://b:[redacted: password in a url]@two",
        ),
        ("smtp://a@b.example:hunter2@mail", "smtp://a@b.example:[redacted: password in a url]@mail"),
        (f"redis://:{ALNUM[:9]}@cache", "redis://:[redacted: password in a url]@cache"),
        *(
            (before + SESSION_TOKEN + after, f"{before}[redacted: aws session token]{after}")
            for before, after in (
                ("export AWS_SESSION_TOKEN=", "\n"),
                ('"SessionToken": "', '"'),
                ("<SessionToken>", "</SessionToken>"),
                ("{'X-Amz-Security-Token': b'", "'}"),
                ("x-amz-security-token:", "\nx-amz-date:20260101T000000Z"),
                ("?X-Amz-Security-Token=", "&X-Amz-Date=20260101T000000Z"),
            )
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
    assert json.loads(redact_json(json.dumps(text))) == redacted


@pytest.mark.parametrize(
    "text",
    [
        "git checkout 3f2504e04f8911d39a0c0305e82c3301 && sha256:" + HEX,
        "uuid 0199f3a2-7c1e-7b3a-9d55-0c7b8f1f2e60, toolu_01AbCdEfGhIjKlMnOpQrStUv, msg_01AbCdEfGhIjKlMnOpQrStUv",
        "http://127.0.0.1:4100/sessions/1 mailto:a@example.com https://user@example.com",
        "postgresql://{user}:{password}@{host} and ${USER}:${PASSWORD}",
        "postgresql://ash:$PASSWORD@db and postgresql://ash:${PASSWORD}@db",
        "the user's session token: expired; session_token=" + ALNUM + " securityToken: undefined",
        "https://example.com:8080/a@b http://host:80 me@example.com npm://react@18:x@y xapp-1-A0-1-short",
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
            redacted = redact_text(line)
            assert redacted == line or json.loads(redacted)


def in_pieces(text: str, size: int) -> str:
    lines, data = RedactedLines(), text.encode()
    pieces = [lines.add(data[start : start + size], more=True) for start in range(0, len(data), size)]
    return b"".join([*pieces, lines.add(b"", more=False)]).decode()


@pytest.mark.parametrize("size", [1, 7, 64, 100_000])
def test_secrets_are_found_in_lines_that_come_in_pieces(size: int) -> None:
    line = json.dumps({"text": f"é {SECRETS['github token']}\n{KEY}\u2028"}, ensure_ascii=False)
    text = f"{line}\n" + "x\n" * 2_000 + f"data: {line}\n\nend"

    assert in_pieces(text, size) == "\n".join(
        [
            "data: " * line.startswith("data: ") + redact_text(line.removeprefix("data: "))
            for line in text.split("\n")
        ]
    )


def test_a_line_with_the_header_of_a_key_does_not_wait_in_a_stream_of_events() -> None:
    event = b'data: {"text":"-----BEGIN RSA PRIVATE KEY-----"}\n\n'

    assert RedactedLines().add(event, more=True) == b'data: {"text":"[redacted: private key]"}\n\n'


def nested(value: str, levels: int) -> str:
    """Return JSON nested in JSON strings, with this many levels."""
    document = json.dumps({"text": value, "after": "x"})
    return document if levels == 1 else nested(document, levels - 1)


def innermost(document: str, levels: int) -> str:
    text: str = json.loads(document)["text"]
    return text if levels == 1 else innermost(text, levels - 1)


def escaped(text: str) -> str:
    """Return the content of a JSON string with every character escaped."""
    return "".join(f"\\u{ord(character):04x}" for character in text)


@pytest.mark.parametrize("label", SECRETS)
def test_values_are_redacted_before_they_are_encoded(label: str) -> None:
    secret, replaced = SECRETS[label], f"[redacted: {label}]"
    for levels in (1, 2, 3, 5):
        assert innermost(redact_text(nested(f"a\n{secret}", levels)), levels) == f"a\n{replaced}", levels
    assert json.loads(redact_text(f'{{"a":"{escaped(secret)}"}}')) == {"a": replaced}
    first = f"{escaped(secret[0])}{secret[1:]}"
    assert innermost(redact_text(json.dumps({"text": f'{{"text":"{first}"}}'})), 2) == replaced
    with_slashes = json.dumps({"a": secret}).replace("/", "\\/")
    assert json.loads(redact_text(with_slashes)) == {"a": replaced}


@pytest.mark.parametrize(
    ("document", "redacted"),
    [
        (
            '{"a":"https:\\/\\/me:hunter2@db\\/x"}',
            '{"a":"https:\\/\\/me:[redacted: password in a url]@db\\/x"}',
        ),
        (json.dumps(KEY.splitlines()), json.dumps(["[redacted: private key]"] * 5)),
        (
            '{"a":"-----BEGIN PRIVATE KEY-----","b":"-----END PRIVATE KEY-----"}',
            '{"a":"[redacted: private key]","b":"-----END PRIVATE KEY-----"}',
        ),
        (f'{{"a":"C:\\\\npm_{ALNUM[:36]}"}}', '{"a":"C:[redacted: npm token]"}'),
        (f'{{"aws_secret":{"1" * 40}}}', f'{{"aws_secret":{"1" * 40}}}'),
    ],
)
def test_a_redacted_document_stays_valid(document: str, redacted: str) -> None:
    assert json.loads(redact_json(document)) == json.loads(redacted)
    assert redact_json(document) == redacted


BLOB = b64encode(b"\x0a\x28" + SECRETS["github token"].encode() + bytes(range(256))).decode()


@pytest.mark.parametrize(
    "blob",
    slow_unless(
        lambda blob: len(blob) < 10_000,
        [BLOB, BLOB * 1_000, "A", BLOB.replace("/", "\\/"), escaped(BLOB[:40])],
    ),
    ids=["short", "several slices", "cut", "slashes", "escapes"],
)
@pytest.mark.parametrize(
    "frame",
    [
        '{"base64":"BLOB"}',
        '{"table":"steps","key":{"base64":"BLOB"},"columns":{"a":{"base64":"BLOB"},"b":null}}',
        '{ "columns" : [{\n "base64" : "BLOB" \n}, 1, {"b\\u0061se64":"BLOB"}] }',
    ],
)
def test_binary_values_are_hidden_at_every_level(frame: str, blob: str) -> None:
    hidden = frame.replace("BLOB", "[redacted: binary data]")
    document, expected = frame.replace("BLOB", blob), hidden
    for _ in range(4):
        assert redact_text(document) == expected
        assert redact_text(expected) == expected
        assert redact(f"row {document}") == f"row {expected}"
        document, expected = json.dumps({"row": document}), json.dumps({"row": expected})


@pytest.mark.parametrize(
    "text",
    [
        '{"type":"base64","media_type":"image/png","data":"iVBORw0KGgo="}',
        '{"base64":"iVBORw0KGgo=","type":"image/png","originalSize":8}',
        '{"type":"image/png","base64":"iVBORw0KGgo="}',
        '{"base64":null}',
        '{"base64":{"base64":""}}',
        '["base64","iVBORw0KGgo="]',
    ],
)
def test_other_base64_is_shown(text: str) -> None:
    assert redact_text(text) == text
    assert redact_text(json.dumps({"text": text})) == json.dumps({"text": text})


def test_a_binary_value_that_is_cut_is_hidden() -> None:
    assert redact(f'a row: {{"base64":"{BLOB}') == 'a row: {"base64":"[redacted: binary data]'
    assert redact(f'{{"base64":"{BLOB} (cut)') == '{"base64":"[redacted: binary data] (cut)'
    assert redact('{"base64":"') == '{"base64":"'


@pytest.mark.parametrize("end", ["", " (cut)", '\n\n... 7 lines "left out" ...\n', '"]'])
def test_a_binary_value_that_is_cut_within_a_string_is_hidden(end: str) -> None:
    document: Any = {"output": f'a row: {{"base64":"{BLOB}{end}', "id": "c1"}
    expected: Any = {"output": f'a row: {{"base64":"[redacted: binary data]{end}', "id": "c1"}
    for _ in range(3):
        assert redact_text(json.dumps(document)) == json.dumps(expected)
        assert redact_text(json.dumps([document, document])) == json.dumps([expected, expected])
        document, expected = (
            {"row": json.dumps(document), "id": "c1"},
            {"row": json.dumps(expected), "id": "c1"},
        )


@pytest.mark.parametrize("length", [10, 33, 39])
def test_the_last_word_of_a_cut_name_is_left_out(length: int) -> None:
    beginning = "w " * 80 + "x" * (39 - length) + " "
    name = (beginning + SECRETS["github token"])[:200]
    name = name.ljust(200, "y")

    assert redact_name(name) == f"{beginning}\u2026"
    for key in ("title", "prompt", "lastText", "rawType", "clientVersion", "cliVersion"):
        assert json.loads(redact_json(json.dumps({key: name}))) == {key: f"{beginning}\u2026"}
    assert redact_name("word " * 39 + "more") == "word " * 39 + "more"


@pytest.mark.parametrize("label", [*SECRETS, "private key"])
def test_a_secret_across_two_slices_is_found(label: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets, "_SLICE", border := 1024)
    secret = KEY.replace(ALNUM, f"{ALNUM}\n{ALNUM}") if label == "private key" else SECRETS[label]
    step = 1 if len(secret) < 200 else 97
    for before in range(border - len(secret) - 2, border + 3, step):
        text = f"{' ' * before}{secret} end"
        assert redact(text) == f"{' ' * before}[redacted: {label}] end", before


def test_the_longest_key_across_two_slices_is_found() -> None:
    header, footer = "-----BEGIN PGP PRIVATE KEY BLOCK-----\n", "\n-----END PGP PRIVATE KEY BLOCK-----"
    key = (header + "Comment: x\n" * 2000)[: MAX_LENGTH - len(footer)] + footer

    for before in range(secrets._SLICE - len(key) - 1, secrets._SLICE + 1, 501):
        assert redact(f"{' ' * before}{key} end") == f"{' ' * before}[redacted: private key] end", before


@pytest.mark.parametrize("type", ["assistant_chunk", "raw"])
def test_events_with_deep_chunks_stay_valid(type: str) -> None:
    chunk = {"type": "response.verse.delta", "delta": "TEXT"}
    event = wire_event(type, source="openai_responses", raw=chunk, id="e1")
    for depth in (1, 190, 700):
        deep = json.dumps(event).replace('"TEXT"', f'{"[" * depth}"heron"{"]" * depth}')
        hidden = json.loads(hide_event_texts(type, deep.encode()))
        is_read = type != "raw" or depth < MAX_DEPTH  # a record that nests deeper is not a chunk
        assert {**hidden, "payload": None} == {**event, "payload": None}, depth
        assert ("heron" in json.dumps(hidden)) is not is_read, depth


def test_each_pattern_has_a_bounded_length() -> None:
    """Otherwise one call of the pattern matcher, which no other thread can interrupt, could take very long."""
    patterns = [form.find.args[0] for form in FORMS if isinstance(form.find, partial)]
    lengths = [parse(pattern.pattern).getwidth()[1] for pattern in patterns]

    assert len(patterns) > 30
    assert [pattern for pattern, length in zip(patterns, lengths, strict=True) if length > MAX_LENGTH] == []


@pytest.mark.parametrize("unit", INPUTS.values(), ids=INPUTS)
def test_the_worst_inputs_stay_valid(unit: str) -> None:
    text = (unit * (100_000 // len(unit)))[:100_000]
    document = json.dumps({"text": text, "after": SECRETS["github token"]})

    assert redact(f"{text}\n<{SECRETS['github token']}").endswith("[redacted: github token]")
    assert json.loads(redact_json(document))["after"] == "[redacted: github token]"

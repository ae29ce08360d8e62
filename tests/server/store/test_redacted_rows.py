"""Redacted messages are complete: only secrets are replaced."""

import json

from ash_server.store.conversation.redacted_rows import redact_standard_message
from ash_shared import transform_messages
from ash_shared.model.blocks import MAX_DEPTH
from tests.secret_samples import SECRETS


def test_messages_of_any_depth_are_redacted() -> None:
    [secret, *_] = SECRETS.values()
    value: object = secret
    for _ in range(MAX_DEPTH - 3):
        value = [value]
    record = {"role": "user", "content": [{"type": "holo", "deep": value}]}
    [message] = transform_messages([json.dumps(record)])

    text = redact_standard_message(message).model_dump_json()

    assert secret not in text
    assert "[redacted: " in text
    assert text.count("[") - text.count("[redacted: ") == message.model_dump_json().count("[")

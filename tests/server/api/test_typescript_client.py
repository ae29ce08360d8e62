"""The original project's TypeScript client works unchanged: it asks for pages with `limit` and `after`."""

import json
import shutil
import subprocess
from datetime import datetime

import httpx2
import pytest

from tests.waiting import TIMEOUT

CLIENT = """
class AshClient {
  constructor(serverUrl) { this.url = serverUrl.replace(/\\/$/, ""); }
  async listMessages(sessionId, opts = {}) {
    const params = new URLSearchParams();
    if (opts.limit) params.set("limit", String(opts.limit));
    if (opts.after) params.set("after", String(opts.after));
    const query = params.toString();
    const path = `/api/sessions/${sessionId}/messages${query ? `?${query}` : ""}`;
    const res = await fetch(this.url + path, { headers: { "Content-Type": "application/json" } });
    if (!res.ok) throw new Error(`${res.status}`);
    return (await res.json()).messages;
  }
}
const [url, session] = process.argv.slice(1);
const client = new AshClient(url);
const read = [];
for (let page; (page = await client.listMessages(session, { limit: 2, after: read.at(-1)?.sequence })).length; ) {
  read.push(...page.map(({ id, sessionId, role, content, sequence, createdAt }) =>
    ({ id, sessionId, role, content, sequence, createdAt })));
}
console.log(JSON.stringify({ read, first: (await client.listMessages(session)).length }));
"""

MESSAGES = [
    {"id": "1", "role": "user", "content": '{"type":"user","message":{"role":"user","content":"Go on."}}'},
    {"id": "2", "role": "assistant", "content": '[{"type":"text","text":"É € 😀 \\u0000"}]'},
    {"id": "3", "role": "assistant", "content": "plain words"},
]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_reads_every_message_once(server: str) -> None:
    session = httpx2.post(f"{server}/api/sessions", json={}).json()["id"]
    httpx2.post(f"{server}/api/sessions/{session}/messages", json=MESSAGES).raise_for_status()

    ran = subprocess.run(
        ["node", "--input-type=module", "--eval", CLIENT, server, session],
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )

    assert ran.stderr == ""
    result = json.loads(ran.stdout)
    times = [datetime.fromisoformat(message.pop("createdAt")) for message in result["read"]]
    assert result["read"] == [
        {**message, "sessionId": session, "sequence": sequence}
        for sequence, message in enumerate(MESSAGES, start=1)
    ]
    assert times == sorted(times)
    assert result["first"] == len(MESSAGES)


def test_same_requests_from_python(server: str) -> None:
    session = httpx2.post(f"{server}/api/sessions", json={}).json()["id"]
    httpx2.post(f"{server}/api/sessions/{session}/messages", json=MESSAGES).raise_for_status()

    page = httpx2.get(f"{server}/api/sessions/{session}/messages", params={"limit": 2, "after": 1}).json()[
        "messages"
    ]

    expected = {"id", "sessionId", "role", "content", "sequence", "createdAt"}
    assert [message["id"] for message in page] == ["2", "3"]
    assert all(expected <= message.keys() for message in page)

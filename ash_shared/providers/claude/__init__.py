"""The Claude family: Messages API, Claude Agent SDK (`stream-json`) and Claude Code session lines.

Sources: the block and event unions of the `anthropic` package, `SDKMessage` of `claude-agent-sdk`, and captured
session files, whose entry types are published nowhere. Both spellings of a key occur (`toolUseResult` on disk,
`tool_use_result` in the stream), and every record may carry keys that no published type names.
"""

from ash_shared.providers._kit.contract import Provider, WireType
from ash_shared.providers.claude.content import read_block
from ash_shared.providers.claude.fast_path import FAST_PATH
from ash_shared.providers.claude.messages import facts, parts
from ash_shared.providers.claude.recognition import MARKS, recognizes
from ash_shared.providers.claude.records import read, unwrap
from ash_shared.providers.claude.steps import steps

_WIRE_TYPE = WireType(
    read=lambda record: read(unwrap(record)),
    parts=lambda record, reading: parts(unwrap(record), reading),
    steps=lambda record, reading: steps(unwrap(record), reading),
)

PROVIDER = Provider(
    source="claude",
    recognizes=recognizes,
    marks=MARKS,
    wire_type=lambda record: _WIRE_TYPE,
    read_block=read_block,
    facts=lambda record: facts(unwrap(record)),
    fast_path=FAST_PATH,
)

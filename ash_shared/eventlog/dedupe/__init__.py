"""Deduplication: content that a session contains more than once becomes one event.

Of each duplicate one is the original, which counts. Duplicates are recognised by digest (`digests`) or by call id; the
state keeps as many digests of each kind as the `MAX_` constants in `state` allow.

| duplicate | original | recognised by | formats | module |
|---|---|---|---|---|
| copy: two kinds of record have a text | the other kind | text and role | Claude Code, Codex, Gemini | `copies` |
| copy of a call or result | the other kind | call id | Codex | `copies` |
| revision: an item written again | the first form | content by key | Gemini CLI, LangChain, pi, Vercel | `revisions` |
| revision of a streamed response | the stream | response id | LangChain, Vercel | `revisions` |
| revision of a call or result | the first | call id | Codex, Cursor, pi, Vercel | `copies` |
| section of a message, written again | the newest | content by message and section | OpenCode | `revisions` |
| growth: a message while it grows | the last form | place, text or call id in its message | Claude | `revisions` |
| recap: all texts of the turn again | the stream | length and checksum | Cursor | `repetitions` |
| assembled answer: the client stores it | the stream | blocks and response id | all APIs | `assembled_answers` |
| resent message: in each request | the first | blocks and their number | all APIs | `resent_messages` |
| repetition of an event | the first in the turn | key | Codex | `repetitions` |
| repetition of usage | the first | key | Codex | `relations.stated_totals` |

The digests are `text_digest` for texts and keys, `content_digest` for the blocks of revisions, and `message_digest`,
which does not depend on the format, for blocks of answers and messages.

An item that is streamed and then complete in the same answer is not recognised by content, but by its slot: the
complete item is emitted, and the slot is discarded (`streaming.discard_slots`). Standard messages keep copies and mark
them (`conversation.shadows`).
"""

"""Deduplication: content that a session holds more than once becomes one event.

Duplicates are recognised by digest (`digests`). There are five kinds; of each, the original counts and the copy is
dropped:

- Streamed, then complete in the same answer: the complete message is emitted, its slots are discarded
  (`streaming.discard_slots`).
- Streamed, then stored as the client assembled it: the assembled record is dropped, except for its usage
  (`assembled_answers`).
- Written by two kinds of record: a copy (`Part.is_copy`) is held until its original comes (`copies`).
- An item that is written again when it changes: only new blocks are emitted, removed ones are retracted
  (`complete_messages`, a part with the relation `revision`).
- A request that repeats the conversation so far: blocks that were counted before it are dropped (`resent_messages`).

The state keeps only digests, as many of each kind as the `MAX_` constants in `state` allow.
"""

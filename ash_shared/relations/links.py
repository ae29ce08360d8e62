"""The links between the parts of a session, and the decisions of a part about others."""

from collections.abc import Iterable, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

import msgspec

from ash_shared.records.digests import evict_oldest
from ash_shared.records.steps import Part
from ash_shared.relations.prompt_queue import Entry, PromptQueue, QueuedPrompt

MAX_PROMPTS = 32
MAX_FIRST_PROMPTS = 4
MAX_SIDECHAIN_LINES = 64
MAX_STATED_USAGES = 8
MAX_COST_SESSIONS = 4


class Revert(msgspec.Struct, omit_defaults=True):
    """The last message that the person reverted, with everything after it."""

    message: str
    """Digest of its id."""
    until: int
    """The time of the record that reverts it; messages after it stay."""
    has_begun: bool = False
    """True if the message has come after that record."""


class Links(msgspec.Struct, omit_defaults=True):
    """The state of the relations."""

    queue: PromptQueue = msgspec.field(default_factory=PromptQueue)
    sidechain_calls: dict[str, str] = {}
    """The calls of subagents' lines that do not state their call, by digest of the line's id."""
    prompts_by_parent: dict[str, str] = {}
    """The ids of prompts, by digest of the id of the preceding record."""
    first_prompts: dict[str, str] = {}
    """The ids of prompts that follow no record, by digest of the provider's id of the session; empty if the
    conversation began otherwise."""
    revert: Revert | None = None
    dialect: str = ""
    """The message model of the session, for formats with several."""
    replay: str | None = None
    """The key of the open replay; empty if none is open, None before the session has begun."""
    stated_usages: dict[str, None] = {}
    """Digests of the keys of usage that copies stated."""
    recounted_usages: dict[str, None] = {}
    """Digests of the keys of recounts."""
    may_be_recounted: bool = False
    """True if a copy has stated the usage of the next recount."""
    costs_by_session: dict[str, float] = {}
    """The last total cost of each of the provider's sessions."""

    def forget_oldest(self) -> None:
        """Keep the state small. A forgotten link has no effect: nothing is retracted, usage counts again."""
        evict_oldest(self.prompts_by_parent, MAX_PROMPTS)
        evict_oldest(self.first_prompts, MAX_FIRST_PROMPTS)
        evict_oldest(self.sidechain_calls, MAX_SIDECHAIN_LINES)
        evict_oldest(self.costs_by_session, MAX_COST_SESSIONS)
        evict_oldest(self.stated_usages, MAX_STATED_USAGES)
        evict_oldest(self.recounted_usages, MAX_STATED_USAGES)


_Prompt = TypeVar("_Prompt", bound=QueuedPrompt, covariant=True)


class Surroundings(Protocol[_Prompt]):
    """The knowledge of a reader about the parts before."""

    def queued_prompts(self) -> Sequence[_Prompt]: ...
    def calls_with_prompt(self, prompt: str) -> Iterable[str]:
        """Yield the calls without a result that give a subagent this prompt, in order."""
        ...


class Resolution(NamedTuple, Generic[Entry]):
    """The decisions of a part without content about other parts."""

    retracted: tuple[str, ...] = ()
    """The ids of retracted records and messages."""
    retracted_from: str | None = None
    """The id of a message that is retracted with everything after it, if it is known."""
    is_from_start: bool = False
    """True if everything is retracted if that message is not known."""
    is_new_version: bool = False
    """True if the person went back to that message, which ends the turn."""
    retracted_turns: int = 0
    """How many of the last turns are retracted."""
    line_call: str | None = None
    """The call of the subagent that the rest of the line belongs to; empty for the main conversation, None if the part
    does not say."""
    delivered: Entry | None = None
    """A queued prompt that the agent received although no line sends it."""
    withdrawn: Entry | None = None
    """A queued prompt that the person withdrew."""
    removes_section: bool = False
    """True if the section of the part no longer exists."""


def is_in_dialect(links: Links, part: Part) -> bool:
    """True if the part belongs to the message model of the session, which is the first one in it, or to none."""
    if part.dialect is None:
        return True
    links.dialect = links.dialect or part.dialect
    return links.dialect == part.dialect

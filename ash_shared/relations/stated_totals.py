"""Usage and costs that a transcript states several times, or as a total: each counts once."""

from ash_shared.model.blocks import Block
from ash_shared.records.digests import text_digest
from ash_shared.records.steps import Part
from ash_shared.relations.links import Links


def accept_usage(links: Links, part: Part) -> bool:
    """Return False for a part without a role that only repeats usage (`copy`) or recounts it (`recount`)."""
    if part.role is not None or part.relation not in ("copy", "recount") or part.key is None:
        return True
    digest = text_digest(part.key)
    is_recounted = digest in links.recounted_usages
    is_known = is_recounted or digest in links.stated_usages
    if part.relation == "copy":
        links.stated_usages[digest] = None
        links.may_be_recounted = links.may_be_recounted or not is_known
        return not is_known
    if is_recounted:
        return False
    is_new = not (is_known or links.may_be_recounted)
    links.recounted_usages[digest] = None
    links.may_be_recounted = False
    return is_new


def cost_since_last(links: Links, total: float, session: str) -> float:
    """Return the increase of the total cost of a session since it was last stated.

    A lower total means that the client was started again.
    """
    earlier = links.costs_by_session.pop(session, 0.0)
    links.costs_by_session[session] = total
    return total - (earlier if earlier <= total else 0.0)


def revised_usage(earlier: Block, usage: Block) -> Block:
    """Return the usage of an answer after a revision, which may state some of the counts only."""
    both = {**earlier, **usage}
    if isinstance(earlier.get("vendor"), dict) and isinstance(usage.get("vendor"), dict):
        later = {name: count for name, count in usage["vendor"].items() if count is not None}
        both["vendor"] = {**earlier["vendor"], **later}
    both["total_tokens"] = both.setdefault("input_tokens", 0) + both.setdefault("output_tokens", 0)
    return both

"""Usage that a transcript states several times: it counts once."""

from ash_shared.records.steps import Part


class StatedUsage:
    """The keys of the usage so far; see the relations `copy` and `recount` of `Part`."""

    def __init__(self) -> None:
        self._copies: set[str] = set()
        self._recounts: set[str] = set()
        self._may_be_recounted = False

    def accept(self, part: Part) -> bool:
        """Return False for a part without a role that only repeats usage."""
        if part.relation not in ("copy", "recount") or part.key is None:
            return True
        is_known = part.key in self._copies or part.key in self._recounts
        if part.relation == "copy":
            self._copies.add(part.key)
            self._may_be_recounted |= not is_known
            return not is_known
        if part.key in self._recounts:
            return False
        is_new = not (is_known or self._may_be_recounted)
        self._recounts.add(part.key)
        self._may_be_recounted = False
        return is_new

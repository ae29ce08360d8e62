"""Messages that an earlier record has reverted."""


class Reverts:
    def __init__(self) -> None:
        self._times: dict[str, int] = {}
        """By id of the first reverted message: the time until which messages are reverted."""
        self._until = 0

    def add(self, message: str, until: int) -> None:
        self._times[message] = until

    def include(self, message: str | None, timestamp: int | None) -> bool:
        """Return True if the next message is reverted. Call it for each message, in order."""
        if not self._times:
            return False
        self._until = max(self._until, self._times.get(message or "", 0))
        return timestamp is not None and timestamp <= self._until

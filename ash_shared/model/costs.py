"""The usage and cost of messages."""

from collections.abc import Iterable

from msgspec import Struct, field

from ash_shared.model.blocks import Block


def total_usage(usages: Iterable[Block]) -> Block:
    """Add up the counts of several answers; one answer is returned as it is, with all its fields."""
    counted = [usage for usage in usages if usage]
    if len(counted) == 1:
        return counted[0]
    total: Block = {}
    for usage in counted:
        for name, count in usage.items():
            if isinstance(count, int) and not isinstance(count, bool):
                total[name] = total.get(name, 0) + count
    return total


class Costs(Struct, omit_defaults=True):
    """Usage and cost, as far as a record has them."""

    usage: Block | None = None
    cost: float | None = None

    def update(self, usage: Block | None, cost: float | None) -> None:
        self.usage = self.usage if usage is None else usage
        self.cost = self.cost if cost is None else cost


class MessageCosts(Struct, omit_defaults=True):
    """The costs that the records of a message state, as a whole or for its sections."""

    whole: Costs = field(default_factory=Costs)
    """Costs of the message as a whole."""
    sections: dict[str, Costs] = {}
    """Costs of its sections, by id."""

    def put(self, section: str | None, usage: Block | None, cost: float | None) -> None:
        """Add the costs of a section, or of the whole message, or replace its earlier ones."""
        (self.whole if section is None else self.sections.setdefault(section, Costs())).update(usage, cost)

    def total(self) -> Costs:
        """Return the sum over the sections; without any, the costs of the whole.

        The whole may be wrong: OpenCode keeps the usage of its last section there, and Kilo adds the cost of subagents.
        """
        usages = [each.usage for each in self.sections.values() if each.usage is not None]
        costs = [each.cost for each in self.sections.values() if each.cost is not None]
        return Costs(
            total_usage(usages) if usages else self.whole.usage,
            round(sum(costs), 12) if costs else self.whole.cost,
        )

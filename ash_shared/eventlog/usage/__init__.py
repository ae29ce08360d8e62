"""Usage and cost: counted for turns, and stated for each answer."""

"""From stored text to typed blocks."""

"""The values of the library: blocks, messages and events."""

"""Sessions in exports of many conversations, and in folders of a few documents."""

"""Names of tools, which agents spell in different ways."""


def normal_name(name: str) -> str:
    """Return the letters and digits of a name in lower case: `readfile` for `read_file` and `ReadFile`."""
    return "".join(filter(str.isalnum, name)).lower()

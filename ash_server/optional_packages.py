"""What is said where a package is missing that one of Ash's extras brings."""


def missing(error: ModuleNotFoundError) -> str:
    """One line: what is missing, and how to install it."""
    package = (error.name or "").partition(".")[0]
    return (
        f"ash-messages is installed without {package}: "
        "`pip install 'PATH/TO/CLONE[server,embedded]'` brings all that `ash` needs"
    )

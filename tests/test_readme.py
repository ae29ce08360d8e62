"""The README's example of the library prints what the README says."""

import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def test_the_library_example_prints_what_stands_below_it() -> None:
    found = re.search(r"```python\n(.*?)```\n\n```\n(.*?)```", README.read_text(), re.DOTALL)
    assert found is not None

    ran = subprocess.run([sys.executable, "-c", found[1]], capture_output=True, text=True, check=True)

    assert ran.stdout == found[2]

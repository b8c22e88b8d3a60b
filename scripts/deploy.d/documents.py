"""The blocks of docs/deploying.md, by the file that their first line names, with the test's addresses put in."""

import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs/deploying.md"


def block(name: str) -> str:
    for body in re.findall(r"^```\w+\n(.*?)^```", PAGE.read_text(), re.M | re.S):
        if body.splitlines()[0] == f"# {name}":
            return body
    raise LookupError(f"docs/deploying.md has no block for {name}")


def names() -> list[str]:
    return re.findall(r"^```\w+\n# (\S+\.\w+)$", PAGE.read_text(), re.M)


def filled(name: str, values: dict[str, str]) -> str:
    """A block in which each of these stood and was replaced."""
    text = block(name)
    for old, new in values.items():
        if old not in text:
            raise LookupError(f"{name} in docs/deploying.md does not contain {old!r}")
        text = text.replace(old, new)
    return text

"""The page of all settings, made of `config/default.yaml`: a chapter for each of its sections."""

import re

from pages import MADE

HEAD = """# Every setting

Every key of the configuration with its default, as in the file `config/default.yaml`
([as a file](files/default.yaml)). A file of yours needs only the keys that differ. [Configuration](configuration.md)
explains the common ones by example; `antwort config show --defaults` prints this list, and `antwort config show` the
settings that are in force.
"""


def page() -> str:
    head, sections = chapters(MADE["settings.md"].read_text())
    parts = [HEAD, "## Sources and values", *head_as_prose(head)]
    for name, lines in sections:
        parts += [f"## {name}", "```yaml\n" + "\n".join(lines).strip() + "\n```"]
    return "\n\n".join(parts) + "\n"


def chapters(text: str) -> tuple[list[str], list[tuple[str, list[str]]]]:
    """The comment at the head of the file, and the lines of each key of the first level with the comment before it."""
    head, _, rest = text.partition("\n\n")
    sections: list[tuple[str, list[str]]] = []
    waiting: list[str] = []
    for line in rest.splitlines():
        key = re.match(r"([a-z_]+):", line)
        if key:
            sections.append((key[1], [*waiting, line]))
            waiting = []
        elif line.startswith("#") or (waiting and not line):
            waiting.append(line)
        elif sections:
            sections[-1][1].append(line)
    return head.splitlines(), sections


def head_as_prose(lines: list[str]) -> list[str]:
    """Short as it is, and laid out with spaces, it stays as it was written."""
    return ["```text\n" + "\n".join(line.removeprefix("#").removeprefix(" ") for line in lines) + "\n```"]

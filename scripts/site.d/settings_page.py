"""The page of all settings, made of `config/default.yaml`: a chapter for each of its sections."""

import re

from pages import MADE

HEAD = """# Every setting

Every key of the configuration with its default, from [`config/default.yaml`](files/default.yaml). A file of yours needs
only the keys that differ. [Configuration](configuration.md) explains the common ones by example.

- **Sources:** these defaults, then the file, then the environment, then flags; the later one applies
  ([sources](configuration.md#sources)).
- **Environment:** any key is `ANTWORT__SECTION__KEY`, such as `ANTWORT__SERVER__MAX_RUNS=100`. The common ones have a short
  name, too, which stands beside them below.
- **Values:** `${NAME}`, `file:/path`, `15s`, `64KiB` ([values](configuration.md#values)).
- **Unknown keys are errors.** `antwort config check` prints all errors, `antwort config show` the settings in force,
  `antwort config show --defaults` this list.
"""


def page() -> str:
    parts = [HEAD]
    for name, lines in chapters(MADE["settings.md"].read_text()):
        # Long comments are wrapped, by docs/site.css.
        parts += [f"## {name}", "``` {.yaml .wrapped}\n" + "\n".join(lines).strip() + "\n```"]
    return "\n\n".join(parts) + "\n"


def chapters(text: str) -> list[tuple[str, list[str]]]:
    """The lines of each key of the first level, with the comment before it; without the comment at the head of the file."""
    sections: list[tuple[str, list[str]]] = []
    waiting: list[str] = []
    for line in text.partition("\n\n")[2].splitlines():
        key = re.match(r"([a-z_]+):", line)
        if key:
            sections.append((key[1], [*waiting, line]))
            waiting = []
        elif line.startswith("#") or (waiting and not line):
            waiting.append(line)
        elif sections:
            sections[-1][1].append(line)
    return sections

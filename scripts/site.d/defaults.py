#!/usr/bin/env python3
"""Compares what the pages say of defaults with `config/default.yaml`: a setting with its value in brackets behind it, as in
"`server.max_runs` (1024)". Values that are no number, duration or size are not compared.
"""

import re
import sys

import yaml
from pages import ASIDE, DOCS, MADE, sources

SETTING = re.compile(r"`([a-z_]+(?:\.[a-z_]+)+)` \(([0-9][^),;:]*)\)")
UNITS = {"ms": "ms", "s": "s", "min": "m", "h": "h", "d": "d", "KiB": "KiB", "MiB": "MiB", "GiB": "GiB"}


def main() -> int:
    settings = yaml.safe_load(MADE["settings.md"].read_text())
    compared, problems = 0, []
    for page in sorted(sources()):
        if page.startswith(ASIDE):
            continue
        for path, said in SETTING.findall((DOCS / page).read_text().replace("\n", " ")):
            value = default(settings, path)
            if value in (None, "auto") or written(said) is None:
                continue
            compared += 1
            if written(said) != str(value):
                problems.append(f"docs/{page} says {said} of {path}, whose default is {value}")
    for problem in problems:
        print(f"site: {problem}", file=sys.stderr)
    if not problems:
        print(f"site: {compared} defaults on the pages are those of the configuration")
    return 1 if problems else 0


def default(settings: dict, path: str) -> object:
    """The value at this path, if there is one."""
    value: object = settings
    for key in path.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    return None if isinstance(value, (dict, list)) else value


def written(said: str) -> str | None:
    """A number as the configuration writes it, if it is one."""
    match = re.fullmatch(r"([\d,]+)(?: ([a-zA-Z]+))?", said.strip())
    if not match or (match[2] and match[2] not in UNITS):
        return None
    return match[1].replace(",", "") + UNITS.get(match[2] or "", "")


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Lays out what the generator reads: the pages of `docs/`, and those that are made of other files.

    stage.py FOLDER     FOLDER/zensical.toml, FOLDER/docs and FOLDER/theme

In the repository the pages link to files outside of `docs/`. On the site such a link leads to the page or the file
that the site has of it; without one, only its words are left. The folder is made anew each time.
"""

import os
import re
import shutil
import sys
from pathlib import Path

import settings_page
from pages import ASIDE, DOCS, FILES, MADE, PROJECT, SETTINGS, navigation, prose, sources

THEME = Path(__file__).resolve().parent / "theme"
# Where links to files outside of `docs/` lead.
OUTSIDE = {
    "README.md": "index.md",
    **{path.relative_to(PROJECT).as_posix(): name for name, path in MADE.items()},
    **{path.relative_to(PROJECT).as_posix(): name for name, path in FILES.items()},
    "config/default.yaml": "settings.md",
}
CODE = re.compile(r"`[^`]+`")
LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")


def main() -> int:
    folder = Path(sys.argv[1])
    problems = missing_pages()
    target = folder / "docs"
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(DOCS, target, ignore=shutil.ignore_patterns("*.toml"))
    shutil.copy(SETTINGS, folder / "zensical.toml")
    shutil.copytree(THEME, folder / "theme", dirs_exist_ok=True)
    for name, path in FILES.items():
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target / name)
    for name, path in MADE.items():
        # The page of settings is written for the site; the others are where the repository has them.
        text = settings_page.page() if name == "settings.md" else relinked(path.read_text(), path.parent, target / name, target)
        (target / name).write_text(text)
    for page in sources():
        text = (DOCS / page).read_text()
        problems += [f"docs/{page}:{line}" for line in strange_markdown(text)]
        (target / page).write_text(relinked(text, (DOCS / page).parent, target / page, target))
    for problem in problems:
        print(f"site: {problem}", file=sys.stderr)
    return 1 if problems else 0


def missing_pages() -> list[str]:
    """Pages without an entry of the navigation, and entries without a page."""
    named = {page for _, _, page in navigation()}
    there = {page for page in sources() if not page.startswith(ASIDE)} | set(MADE)
    unnamed = [f"docs/{page} is not in the navigation (docs/zensical.toml)" for page in sorted(there - named)]
    return unnamed + [f"docs/zensical.toml names {page}, which does not exist" for page in sorted(named - there)]


def relinked(text: str, source: Path, page: Path, target: Path) -> str:
    """The text with its links as they are on the site."""

    def moved(match: re.Match) -> str:
        words, link = match[1], match[2]
        path, _, anchor = link.partition("#")
        if "://" in link or link.startswith("mailto:") or not path:
            return match[0]
        file = Path(os.path.normpath(source / path))
        if file.is_relative_to(DOCS):
            known = target / file.relative_to(DOCS)
            anchor = f"#{anchor}" if anchor else ""
            # A link to a folder of pages leads nowhere on the site.
            return words if file.is_dir() else f"[{words}]({os.path.relpath(known, page.parent)}{anchor})"
        name = OUTSIDE.get(file.relative_to(PROJECT).as_posix())
        return f"[{words}]({os.path.relpath(target / name, page.parent)})" if name else words

    lines = text.splitlines()
    for number, line in prose(text):
        # Within code, GitHub wants the bars of a table's cell escaped, and the generator shows the escape.
        line = CODE.sub(lambda code: code[0].replace("\\|", "|"), line) if line.lstrip().startswith("|") else line
        lines[number - 1] = LINK.sub(moved, line)
    return "\n".join(indented(lines)) + "\n"


def indented(lines: list[str]) -> list[str]:
    """What belongs to an item of a list, four spaces deeper than the item: the generator takes no less for that."""
    found, offsets, before = [], [], ""
    for line in lines:
        indent = len(line) - len(line.lstrip())
        item = re.match(r"\s*(- |\d+\. )", line)
        # A line that goes on with a paragraph may begin anywhere.
        if line.strip() and (item or not before.strip()):
            while offsets and indent < offsets[-1]:
                offsets.pop()
        if line.strip() and offsets and indent >= offsets[-1]:
            line = " " * (4 * len(offsets) + indent - offsets[-1]) + line.lstrip()
        found.append(line)
        if item:
            offsets.append(item.end())
        before = line
    return found


def strange_markdown(text: str) -> list[str]:
    """Lines that GitHub shows as a list, and the generator as part of the paragraph before."""
    found, before, at = [], "", 0
    for number, line in prose(text):
        begins = re.match(r"(- |\d+\. |\| )", line)
        inside = number == at + 1 and before.strip() and not re.match(r"\s*(- |\d+\. |\|)|#|  ", before)
        if begins and inside:
            found.append(f"{number}: a list or table needs an empty line before it")
        before, at = line, number
    return found


if __name__ == "__main__":
    sys.exit(main())

"""The pages of the site: what is in `docs/`, what is made of other files, and the order of the navigation."""

import re
import tomllib
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent.parent
DOCS = PROJECT / "docs"
SETTINGS = DOCS / "zensical.toml"

# Pages that are files of the repository's root, or made of them, by their names on the site.
MADE = {
    "settings.md": PROJECT / "config" / "default.yaml",
    "changelog.md": PROJECT / "CHANGELOG.md",
    "vulnerabilities.md": PROJECT / "SECURITY.md",
}
# Files that the pages offer as they are.
FILES = {
    "files/default.yaml": PROJECT / "config" / "default.yaml",
    "files/example.yaml": PROJECT / "config" / "example.yaml",
    "files/openapi.yaml": PROJECT / "openapi.yaml",
    "files/custom_tool.rs": PROJECT / "examples" / "custom_tool.rs",
    "files/overview.json": PROJECT / "deploy" / "grafana" / "overview.json",
    "files/providers.json": PROJECT / "deploy" / "grafana" / "providers.json",
    "files/tools-and-mcp.json": PROJECT / "deploy" / "grafana" / "tools-and-mcp.json",
    "files/alerts.yaml": PROJECT / "deploy" / "prometheus" / "alerts.yaml",
}
# Folders of pages that only other pages lead to.
ASIDE = ("adr/", "dev/")


def navigation(settings: Path = SETTINGS) -> list[tuple[str, str, str]]:
    """Section, title and page of every entry, in order."""
    found = []

    def walk(entries: list, section: str) -> None:
        for entry in entries:
            [(title, target)] = entry.items()
            if isinstance(target, list):
                walk(target, title)
            else:
                found.append((section, title, target))

    walk(tomllib.loads(settings.read_text())["project"]["nav"], "")
    return found


def sources() -> set[str]:
    """The pages of `docs/`, by their paths there."""
    return {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}


def prose(text: str) -> list[tuple[int, str]]:
    """Number and text of the lines outside of blocks of code."""
    lines, fence = [], ""
    for number, line in enumerate(text.splitlines(), 1):
        mark = re.match(r"\s*(```+)", line)
        if mark and not fence:
            fence = mark[1]
        elif mark and line.strip() == fence:
            fence = ""
        elif not fence:
            lines.append((number, line))
    return lines


def summary(text: str) -> str:
    """The first sentence of a page's first paragraph."""
    paragraph: list[str] = []
    for _, line in prose(text):
        if line.startswith(("#", "|", "-", ">", "<", "!", "1.")):
            if paragraph:
                break
        elif line.strip():
            paragraph.append(line.strip())
        elif paragraph:
            break
    words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", " ".join(paragraph))
    sentence = re.match(r"(.+?[.:])(?= [A-Z`]|$)", words)
    return (sentence[1] if sentence else words).rstrip(":")

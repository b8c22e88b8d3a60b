#!/usr/bin/env python3
"""Checks a built site: each link and anchor leads somewhere, and nothing is loaded from elsewhere.

    check.py FOLDER     prints figures, or what is wrong

What a browser would load by itself counts (scripts, styles, images, fonts, `url(…)`); a link that a reader follows to
another site does not. The theme's script names addresses of libraries for things that these pages do not have; no page may
have those, and each page has a policy by which browsers would refuse them.
"""

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# Elements that load what they name, and the attribute that names it.
LOADS = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src", "audio": "src", "embed": "src",
         "object": "data", "use": "href", "image": "href"}
# `rel` of links that load something, or open a connection.
LOADING_RELS = {"stylesheet", "icon", "preload", "prefetch", "preconnect", "dns-prefetch", "modulepreload", "manifest"}
# Classes of which the theme's script fetches a library from elsewhere.
FETCHING_CLASSES = {"mermaid", "arithmatex", "pyodide"}
POLICY = "default-src 'self'; script-src 'self' 'unsafe-inline';"
ELSEWHERE = re.compile(r"(?:https?:)?//[a-z0-9.-]+\.[a-z]{2,}", re.IGNORECASE)
# Marks of Markdown that the generator did not understand, and what may have them.
MARKS = re.compile(r"`+|\*\*|\]\(|^\|.*\|$", re.MULTILINE)
VERBATIM = {"code", "pre", "script", "style", "title"}
# What the theme's script names: a namespace, which is not fetched; Mermaid, an editor, and Python for pages that run code;
# figures of a source repository, which need a setting that this site does not have. Anything else has to be looked at.
KNOWN_IN_SCRIPTS = {"http://www.w3.org", "https://unpkg.com", "https://cdn.jsdelivr.net", "https://api.github.com", "https://gitlab.com"}


class Page(HTMLParser):
    """What is of interest in a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.classes: set[str] = set()
        self.policy = ""
        self.inside: list[str] = []
        self.left_over: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        if tag in VERBATIM:
            self.inside.append(tag)
        self.anchors.update(values[name] for name in ("id", "name") if name in values and tag != "meta")
        self.classes.update(values.get("class", "").split())
        if values.get("http-equiv") == "Content-Security-Policy":
            self.policy = values["content"]
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        if tag in LOADS and LOADS[tag] in values:
            self.loaded.append(values[LOADS[tag]])
        if tag == "link" and LOADING_RELS & set(values.get("rel", "").split()):
            self.loaded.append(values.get("href", ""))

    def handle_endtag(self, tag: str) -> None:
        if tag in self.inside:
            self.inside.remove(tag)

    def handle_data(self, data: str) -> None:
        if not self.inside:
            self.left_over.update(mark[0] for mark in MARKS.finditer(data))


def main() -> int:
    site = Path(sys.argv[1])
    pages = {path: Page(path.read_text()) for path in sorted(site.rglob("*.html"))}
    problems, links, anchors, loaded = [], 0, 0, 0
    for path, page in pages.items():
        name = path.relative_to(site)
        problems += [f"{name}: the class {one} makes a script fetch a library" for one in FETCHING_CLASSES & page.classes]
        problems += [f"{name}: {mark} is left over of the Markdown" for mark in sorted(page.left_over)]
        problems += [] if page.policy.startswith(POLICY) else [f"{name}: browsers are not told to load nothing from elsewhere"]
        for link in page.links:
            if is_elsewhere(link) or link.startswith(("mailto:", "javascript:")):
                continue
            links += 1
            anchors += "#" in link
            problems += dead(link, path, pages, site)
        for source in page.loaded:
            loaded += 1
            if is_elsewhere(source):
                problems.append(f"{name}: loads {source}")
            elif not source.startswith("data:"):
                problems += dead(source, path, pages, site)
    problems += remote_styles(site) + remote_scripts(site)
    for problem in problems:
        print(f"site: {problem}", file=sys.stderr)
    print(f"site: {len(pages)} pages, {links} internal links, {anchors} with an anchor, {loaded} assets loaded, all from here"
          if not problems else f"site: {len(problems)} problems")
    return 1 if problems else 0


def is_elsewhere(link: str) -> bool:
    return bool(urlsplit(link).netloc)


def dead(link: str, path: Path, pages: dict[Path, Page], site: Path) -> list[str]:
    """Nothing if the link leads to a file of the site, and its anchor to an element."""
    parts = urlsplit(link)
    # The page for what is not found is served at any depth, so its links begin at the root.
    start = site / parts.path.lstrip("/") if parts.path.startswith("/") else path.parent / parts.path
    target = (start if parts.path else path).resolve()
    target = target.parent / unquote(target.name)
    if target.is_dir():
        target /= "index.html"
    where = path.relative_to(site)
    if not target.exists():
        return [f"{where}: {link} does not exist"]
    if parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
        return [f"{where}: {link} has no such anchor"]
    return []


def remote_styles(site: Path) -> list[str]:
    found = []
    for path in sorted(site.rglob("*.css")):
        for address in re.findall(r"(?:url\(|@import\s+)['\"]?((?:https?:)?//[^'\")\s]+)", path.read_text()):
            found.append(f"{path.relative_to(site)}: loads {address}")
    return found


def remote_scripts(site: Path) -> list[str]:
    """Addresses in scripts that are not known: after an update of the theme, somebody has to look."""
    found = []
    for path in sorted(site.rglob("*.js")):
        text = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.DOTALL)
        addresses = {match[0] for match in ELSEWHERE.finditer(text) if match[0].startswith("http")}
        for address in sorted(addresses - KNOWN_IN_SCRIPTS):
            found.append(f"{path.relative_to(site)}: names {address}")
    return found


if __name__ == "__main__":
    sys.exit(main())

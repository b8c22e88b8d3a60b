#!/usr/bin/env python3
"""Makes the two files that language models read: `llms.txt`, the list of the pages, and `llms-full.txt`, their text.

    llms.py DOCS SITE     of the pages that were laid out in DOCS, into SITE

The second has the pages that explain; the long lists (settings, changes, decisions) are only in the first.
"""

import sys
from itertools import groupby
from pathlib import Path

from pages import MADE, navigation, summary

HEAD = """# antwort

> A gateway that turns any OpenAI-compatible model server into a stateful `/v1/responses` service: the Responses API of
> OpenAI's SDKs, with conversations, background runs, tools and MCP servers, in one binary.
"""


def main() -> None:
    docs, site = Path(sys.argv[1]), Path(sys.argv[2])
    parts, whole = [HEAD], [HEAD]
    for section, entries in groupby(navigation(), key=lambda entry: entry[0]):
        lines = [f"## {section}"] if section else []
        for _, title, page in entries:
            text = (docs / page).read_text()
            lines.append(f"- [{title}]({address(page)}): {summary(text)}")
            if page not in MADE and section != "Project":
                whole.append(f"<!-- {address(page)} -->\n\n{text.strip()}\n")
        parts.append("\n".join(lines) + "\n")
    (site / "llms.txt").write_text("\n".join(parts))
    (site / "llms-full.txt").write_text("\n".join(whole))


def address(page: str) -> str:
    """Where the site has a page, from its root."""
    return page.removesuffix("index.md") or "./" if page.endswith("index.md") else page.removesuffix(".md") + "/"


if __name__ == "__main__":
    main()

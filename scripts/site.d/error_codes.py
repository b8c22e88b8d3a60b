#!/usr/bin/env python3
"""Compares the page of error codes with the sources: every code that is made there is on the page, and no other.

    error_codes.py          what is wrong, if anything
    error_codes.py list     the codes of the sources, with the files that make them

Codes are literals of the Rust sources: the table of `ErrorKind`, arguments of the functions that make errors, and constants
that are given to those. A code that is put together in another way is not found, so the page's codes need only be literals
of the sources.
"""

import re
import sys
from collections import defaultdict

from pages import DOCS, PROJECT

PAGE = DOCS / "errors.md"
CODE = r'"([a-z]+(?:_[a-z0-9]+)+)"'
MAKERS = (
    rf"\bwith_code\(\s*{CODE}",
    rf"\b(?:ApiError|Self)::invalid\(\s*{CODE}",
    rf"\bnot_found\(\s*{CODE}",
    # Two codes for one error, as a pair with its message.
    rf"=> (?:\{{\s*)?\(\s*{CODE},\s*\"[A-Z]",
    rf"\bours\(\s*ErrorKind::\w+,\s*{CODE}",
    r'=> \(\d+, "\w+", "([a-z_]+)"\)',
    rf"\bcode: {CODE}",
    rf"\bcode: Some\({CODE}",
)
# Files where each such literal after `=>` is a code.
TABLES = ("crates/tools/src/error.rs",)


def main() -> int:
    made = codes_of_the_sources()
    if sys.argv[1:] == ["list"]:
        for code, files in sorted(made.items()):
            print(f"{code:36} {' '.join(sorted(files))}")
        return 0
    text = PAGE.read_text()
    listed = set(re.findall(r"^\| `([a-z_]+)`", text, re.MULTILINE))
    literals = {code for source in sources().values() for code in re.findall(r'"([a-z_]+)"', source)}
    problems = [f"docs/errors.md does not list {code} ({min(made[code])})" for code in sorted(set(made) - listed)]
    problems += [f"docs/errors.md lists {code}, which the sources do not have" for code in sorted(listed - literals)]
    for problem in problems:
        print(f"site: {problem}", file=sys.stderr)
    return 1 if problems else 0


def sources() -> dict[str, str]:
    """The text of the Rust files by path, without their tests and comments."""
    found = {}
    roots = [PROJECT / "src", *PROJECT.glob("crates/*/src")]
    for path in sorted(path for root in roots for path in root.rglob("*.rs")):
        if "tests" in path.parts or path.stem == "tests":
            continue
        text = path.read_text().split("#[cfg(test)]\nmod tests")[0]
        name = path.relative_to(PROJECT).as_posix()
        found[name] = re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE)
    return found


def codes_of_the_sources() -> dict[str, set[str]]:
    texts = sources()
    constants = dict(re.findall(rf"const ([A-Z_]+): &str = {CODE}", "\n".join(texts.values())))
    found = defaultdict(set)
    for name, text in texts.items():
        for pattern in MAKERS:
            for code in re.findall(pattern, text):
                found[code].add(name)
        for constant in re.findall(r"\b(?:with_code|invalid)\(\s*([A-Z_]+)\b", text):
            if constant in constants:
                found[constants[constant]].add(name)
        if name in TABLES:
            for code in re.findall(rf"=> {CODE}", text):
                found[code].add(name)
    return found


if __name__ == "__main__":
    sys.exit(main())

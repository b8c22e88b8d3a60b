"""Holds the text of the Dockerfile: what it copies exists and reaches the builder, its base images have exact tags, no
variable beats a mounted file, no document is an input, and dependencies are built with all files that manifests name."""

import fnmatch
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def instructions(text):
    """Words of each instruction, continued lines joined and comments left out."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n", " ", "\n".join(lines))
    return [line.split() for line in joined.splitlines() if line.strip()]


def is_ignored(path, patterns):
    """As Docker reads .dockerignore: the last pattern that has the path, or a folder that it is in, counts."""
    ignored = False
    steps = path.parts
    names = ["/".join(steps[:end]) for end in range(1, len(steps) + 1)]
    for pattern in patterns:
        wanted = pattern.removeprefix("!")
        if any(fnmatch.fnmatchcase(name, wanted) and name.count("/") == wanted.count("/") for name in names):
            ignored = not pattern.startswith("!")
    return ignored


def faults(dockerfile, ignore):
    patterns = [line.strip().rstrip("/") for line in ignore.splitlines()]
    patterns = [line for line in patterns if line and not line.startswith("#")]
    stages = set()
    stage = {}
    for keyword, *words in instructions(dockerfile):
        line = " ".join([keyword, *words])
        if keyword == "FROM":
            image, *alias = words
            if image != "scratch" and image not in stages and not re.search(r":\D*\d+\.\d+\.\d+(-[\w.-]+)?$", image):
                yield f"no exact tag: {line}"
            if "@" in image:
                yield f"a digest is resolved by the release: {line}"
            stage = {"name": alias[-1] if alias else image, "said": set()}
            stages.add(stage["name"])
        stage["said"].add(keyword)
        if keyword == "ENV" and any(word.startswith("ANTWORT") for word in words):
            yield f"beats a mounted file: {line}"
        if keyword == "USER" and words != ["65532:65532"]:
            yield f"another user: {line}"
        if keyword in ("CMD", "ENTRYPOINT", "HEALTHCHECK") and "[" not in line:
            yield f"needs a shell: {line}"
        if keyword in ("COPY", "ADD"):
            options = [word for word in words if word.startswith("--")]
            sources = [word for word in words if not word.startswith("--")][:-1]
            if any(option.startswith("--from=") for option in options):
                if not any(option == f"--from={name}" for option in options for name in stages):
                    yield f"no such stage: {line}"
                continue
            yield from (f"{fault}: {line}" for source in sources for fault in source_faults(source, patterns))
        if keyword == "ENTRYPOINT":
            missing = {"USER", "VOLUME", "STOPSIGNAL", "HEALTHCHECK", "EXPOSE"} - stage["said"]
            if missing:
                yield f"{stage['name']} lacks {', '.join(sorted(missing))}"


def source_faults(source, patterns):
    path = ROOT / source
    if source in (".", "./") or not path.exists():
        yield f"{source} is not there, or everything"
        return
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    for file in files:
        inside = file.relative_to(ROOT)
        if is_ignored(inside, patterns):
            yield f"{inside} is ignored"
        if file.suffix == ".md":
            yield f"{inside} is a document"


def missing_files(text, manifests):
    """Files that a manifest names, without which cargo builds nothing, not even the dependencies."""
    for folder, manifest in manifests.items():
        named = re.findall(r'^path = "(.+)"$', manifest, re.M)
        named += [f"benches/{name}.rs" for name in re.findall(r'^\[\[bench\]\]\nname = "(.+)"\n(?!path)', manifest, re.M)]
        for path in named:
            if (folder / path).as_posix() not in text.split():
                yield f"nothing takes the place of {folder / path} while dependencies are built"


def must_find(text, ignore, words, manifest=""):
    found = [*faults(text, ignore), *missing_files(text, {pathlib.Path("a"): manifest})]
    if not any(words in fault for fault in found):
        sys.exit(f"dockerfile.py does not see {words!r}")


def main():
    dockerfile, ignore = (ROOT / "Dockerfile").read_text(), (ROOT / ".dockerignore").read_text()
    # What it is to see, it sees.
    must_find("FROM rust:1.95-bookworm", "", "no exact tag")
    must_find("FROM debian", "", "no exact tag")
    must_find("FROM scratch\nENV ANTWORT_LISTEN=x", "", "beats a mounted file")
    must_find("FROM scratch\nCOPY . /", "", "everything")
    must_find("FROM scratch\nCOPY nowhere /", "", "not there")
    must_find("FROM scratch\nCOPY src src", "*", "is ignored")
    must_find("FROM scratch\nCOPY docs docs", "", "is a document")
    must_find("FROM scratch\nCOPY --from=build / /", "", "no such stage")
    must_find("FROM scratch\nENTRYPOINT antwort", "", "needs a shell")
    must_find("FROM scratch", "", "a/tests/b.rs", '[[test]]\nname = "b"\npath = "tests/b.rs"\n')
    must_find("FROM scratch", "", "a/benches/b.rs", '[[bench]]\nname = "b"\nharness = false\n')
    files = [ROOT / "Cargo.toml", *sorted(ROOT.glob("crates/*/Cargo.toml")), ROOT / "tests/support/Cargo.toml"]
    manifests = {path.parent.relative_to(ROOT): path.read_text() for path in files}
    found = [*faults(dockerfile, ignore), *missing_files(dockerfile, manifests)]
    print("\n".join(f"Dockerfile: {fault}" for fault in found) or "Dockerfile: as it must be")
    sys.exit(bool(found))


main()

#!/usr/bin/env python3
"""Checks what the documentation points to: every relative link, anchor and path in *.md must exist.

    tests/docs/check_links.py

Checked are links and images `[text](target)`, reference definitions `[name]: target`, anchors in this page and in others,
paths of the repository in backticks (`crates/…`, `docs/…`; also `crates/…/x.rs::name`, where the file must have an item or a
test of that name; the end of a path, such as `rcpt.rs`, must be that of some file), the pages of `docs/` that source code names, and that the index of a folder below `docs/` names each of its
pages. Links to other hosts are not followed. Only the standard library is used.
"""

import pathlib
import re
import subprocess
import sys
import unicodedata
from urllib.parse import unquote

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ("crates/", "docs/", "tests/", "bench/", "fuzz/", "web/", ".ci/")
# Made by programs on the way, and not checked in.
MADE = ("fuzz/corpus", "fuzz/artifacts", "fuzz/target")

LINK = re.compile(r"!?\[(?:[^\[\]]|\[[^\]]*\])*\]\(\s*<?([^()\s<>]*(?:\([^()\s]*\)[^()\s<>]*)*)>?(?:\s+[\"'(][^)]*)?\)")
DEFINITION = re.compile(r"^ {0,3}\[[^\]^]+\]:\s+<?(\S+?)>?(?:\s|$)", re.MULTILINE)
CODE = re.compile(r"(`+)(.+?)(?<!`)\1(?!`)", re.DOTALL)
FENCE = re.compile(r"^ {0,3}(```+|~~~+)")
HEADING = re.compile(r"^ {0,3}(#{1,6})\s+(.*?)\s*#*\s*$")
ANCHOR = re.compile(r"<a\s+(?:name|id)=\"([^\"]+)\"")
NAMED_PAGE = re.compile(r"\bdocs/[\w./-]+\.md\b")


def files(*patterns):
    """Files of the project that match: what git knows or would add."""
    command = ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard", "-z", "--", *patterns]
    names = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout.decode().split("\0")
    return [ROOT / name for name in sorted(set(names)) if name and (ROOT / name).is_file()]


def prose(text):
    """Lines outside of fenced code, numbered from 1."""
    fence = None
    for number, line in enumerate(text.splitlines(), 1):
        mark = FENCE.match(line)
        if fence is None and mark:
            fence = mark[1]
        elif fence is not None:
            if mark and mark[1].startswith(fence) and not line.strip(" `~"):
                fence = None
        else:
            yield number, line


def blocks(text):
    """Paragraphs, lists and tables of a page: what an inline element may span. Number of the first line, and text."""
    first, lines = 1, []
    for number, line in prose(text):
        if line.strip() and (not lines or number == first + len(lines)):
            first = first if lines else number
            lines.append(line)
            continue
        if lines:
            yield first, "\n".join(lines)
        first, lines = number, [line] if line.strip() else []
    if lines:
        yield first, "\n".join(lines)


def anchors(page, cache={}):
    """The anchors of a page, made from its headings as GitHub makes them."""
    if page not in cache:
        found = set()
        for _, line in prose(page.read_text()):
            found.update(ANCHOR.findall(line))
            heading = HEADING.match(line)
            if not heading:
                continue
            text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading[2])
            text = re.sub(r"[`*]", "", text).strip().lower()
            kept = (c for c in text if c in "-_ " or unicodedata.category(c)[0] in "LN" or unicodedata.category(c) == "Mn")
            slug = base = "".join(kept).replace(" ", "-")
            count = 0
            while slug in found:
                count += 1
                slug = f"{base}-{count}"
            found.add(slug)
        cache[page] = found
    return cache[page]


def broken_link(page, target):
    """Why a link leads nowhere, or None."""
    if re.match(r"[a-zA-Z][a-zA-Z0-9+.-]*:", target) or target.startswith("//"):
        return None
    path, _, anchor = target.partition("#")
    if path.startswith("/"):
        return "is absolute"
    there = (page.parent / unquote(path)).resolve() if path else page
    if not there.is_relative_to(ROOT):
        return "leads out of the project"
    if not there.exists():
        return "does not exist"
    if anchor and there.suffix == ".md" and unquote(anchor) not in anchors(there):
        return "has no such heading"
    return None


def names(cache=[]):
    """The paths of all files of the project, one a line, each behind a slash."""
    if not cache:
        cache.append("".join(f"/{file.relative_to(ROOT)}\n" for file in files()))
    return cache[0]


def broken_path(code):
    """Why a path in backticks is wrong, or None if it is right or no path."""
    path, _, item = code.partition("::")
    if not path.startswith(FOLDERS) and re.fullmatch(r"[a-z_][\w/-]*\.(?:rs|py)", path):
        return None if f"/{path}\n" in names() else "is no file"
    if not path.startswith(FOLDERS) or not re.fullmatch(r"[\w./-]+", path) or path.startswith(MADE):
        return None
    # Placeholders stand in capitals: crates/X/tests/corpus/TARGET.
    if any(re.fullmatch(r"[A-Z]+", part.split(".")[0]) for part in path.split("/") if part != "README.md"):
        return None
    there = ROOT / path
    if not there.exists():
        return "does not exist"
    if item and not re.search(rf"\b(?:fn|struct|enum|trait|type|const|mod|macro_rules!)\s+{re.escape(item)}\b", there.read_text()):
        return f"has no {item}"
    return None


def check_page(page):
    for first, block in blocks(page.read_text()):
        found = []
        for code in CODE.finditer(block):
            reason = broken_path(code[2])
            if reason:
                found.append((code.start(), f"`{code[2]}` {reason}"))
        # As long as what it stands for, so that places stay the same.
        text = CODE.sub(lambda code: re.sub(r"[^\n]", "x", code[0]), block)
        for link in list(LINK.finditer(text)) + list(DEFINITION.finditer(text)):
            reason = broken_link(page, link[1])
            if reason:
                found.append((link.start(), f"link to {link[1]}: {reason}"))
        for place, what in sorted(found):
            yield first + block.count("\n", 0, place), what


def check_source(file):
    """Pages that comments refer to."""
    for number, line in enumerate(file.read_text(errors="replace").splitlines(), 1):
        for path in NAMED_PAGE.findall(line):
            if not (ROOT / path).exists():
                yield number, f"{path} does not exist"


def check_index(index):
    """Pages beside an index that it does not link to."""
    linked = {(index.parent / target.partition("#")[0]).resolve() for target in LINK.findall(index.read_text())}
    for page in sorted(index.parent.glob("*.md")):
        if page != index and page.resolve() not in linked:
            yield 1, f"{page.name} is not in the index"


def main():
    pages = files("*.md")
    problems = []
    for page in pages:
        problems += [(page, *problem) for problem in check_page(page)]
        if page.name == "README.md" and page.is_relative_to(ROOT / "docs"):
            problems += [(page, *problem) for problem in check_index(page)]
    for file in files("*.rs", "*.toml", "*.py", "*.sh", "Makefile"):
        problems += [(file, *problem) for problem in check_source(file)]
    for file, number, what in problems:
        print(f"{file.relative_to(ROOT)}:{number}: {what}", file=sys.stderr)
    print(f"docs: {len(pages)} pages, {len(problems)} problems")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()

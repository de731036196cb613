#!/usr/bin/env python3
"""Checks the numbers in the map of the code: each is a constant's, and is what the constant is.

    tests/docs/constants.py              check ARCHITECTURE.md, docs/memory.md and the guide; exit status 1 if a number is wrong
    tests/docs/constants.py --self-test  test the scanner and the evaluation

A number stands before its constant: "64 rows (`crates/imap-session/src/fetch.rs::BATCH_ROWS`)". For an enum, the number is that of its
variants. Units are bytes, KiB, MiB, ms, s and minutes; any other word counts things. In the guide, whose readers need no source,
a comment names a limit of crates/base/src/limits after its number: "64 KiB <!-- CARD_BYTES -->". In ARCHITECTURE.md a
number without a constant is an error, except in code, links, headings and names (RFC 9051 §6.4.8, IMAP4rev2, decision 28).
ARCHITECTURE.md has at most LINES lines. Only the standard library is used.
"""

import argparse
import ast
import doctest
import operator
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
# In the first, a number without a constant is an error.
MAP, *OTHERS = ("ARCHITECTURE.md", "docs/memory.md")
LINES = 250

WORDS = {word: number for number, word in enumerate("zero one two three four five six seven eight nine ten eleven twelve".split())}
UNITS = {"KiB": 1024, "MiB": 1024**2, "GiB": 1024**3, "ms": 0.001, "s": 1, "seconds": 1, "minutes": 60, "hours": 3600, "days": 86400}
ITEM = re.compile(r"(?P<number>\d[\d,.]*|\b(?:" + "|".join(WORDS) + r")\b)\s+(?P<unit>[A-Za-z]+)(?:\s+[a-z]+){0,2}\s+"
                  r"\(`(?P<path>crates/[\w./-]+)::(?P<name>\w+)`", re.IGNORECASE)
LIMIT = re.compile(r"(?P<number>\d[\d,.]*|\b(?:" + "|".join(WORDS) + r")\b)(?: (?P<unit>[A-Za-z]+))?\s*<!-- (?P<name>[A-Z0-9_]+) -->",
                   re.IGNORECASE)
NAMES = re.compile(r"RFC ?\d+|§[\d.]+|IMAP4rev\d|SHA-\d+|AES-\d+|BLAKE3|X25519|UTF-8|UTF8|Ed25519|P-\d+|S3\b|HTTP/\d\.?\d?|\d+xx|"
                   r"decision \d+|Argon2\w*")


def variants(text, name):
    """How many variants an enum has, or None.

    >>> variants("enum Kind {\\n    /// Why.\\n    A,\\n    #[x]\\n    B(u8),\\n    C { a: u8 },\\n}\\n", "Kind")
    3
    """
    found = re.search(rf"^\s*(?:pub(?:\([^)]*\))? )?enum {name}\b[^{{]*\{{\n(.*?)^\}}", text, re.DOTALL | re.MULTILINE)
    return len(re.findall(r"^    [A-Z]\w*\b", found[1], re.MULTILINE)) if found else None


OPERATIONS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.floordiv,
              ast.LShift: operator.lshift}


def value(text, name, others="", seen=()):
    """What a constant is: a number, a duration in seconds. `others` has the constants of `limits`.

    >>> value("const A: usize = 2 * KIB;\\nconst KIB: usize = 1024;", "A")
    2048
    >>> value("pub const T: Duration = Duration::from_millis(200);", "T")
    0.2
    >>> value("const B: u64 = limits::X as u64 + 1_000;", "B", "pub const X: usize = 24;")
    1024
    """
    found = re.search(rf"\bconst {name}: [^=;]+ = ([^;]+);", text)
    if name in seen or not (found or others):
        raise ValueError(f"no constant {name}")
    if not found:
        return value(others, name, "", seen)
    code = re.sub(r"\bas \w+", "", found[1]).replace("limits::", "")
    duration = re.fullmatch(r"\s*Duration::from_(secs|millis|mins|hours)\((.*)\)\s*", code, re.DOTALL)
    scale = 1
    if duration:
        scale, code = {"secs": 1, "millis": 0.001, "mins": 60, "hours": 3600}[duration[1]], duration[2]

    def evaluate(node):
        match node:
            case ast.Expression():
                return evaluate(node.body)
            case ast.BinOp():
                return OPERATIONS[type(node.op)](evaluate(node.left), evaluate(node.right))
            case ast.Constant():
                return node.value
            case ast.Name():
                return value(text, node.id, others, (*seen, name))
        raise ValueError(f"{name}: {code}")

    number = evaluate(ast.parse(code.strip(), mode="eval"))
    return round(number * scale, 6) if scale != 1 else number


def amount(said, unit):
    """A number as it is said, in bytes or seconds if it has such a unit.

    >>> amount("64", "KiB"), amount("ten", "attempts"), amount("10,000", None)
    (65536, 10, 10000)
    """
    said = said.lower()
    number = (WORDS[said] if said in WORDS else float(said.replace(",", ""))) * UNITS.get(unit, 1)
    return int(number) if number == int(number) else number


def limits_of(text):
    """The numbers of a page before comments that name limits: number of the line, value, name.

    >>> list(limits_of("64 KiB <!-- CARD_BYTES -->\\nat most 1,000\\n<!-- SUBMISSIONS -->"))
    [(1, 65536, 'CARD_BYTES'), (2, 1000, 'SUBMISSIONS')]
    """
    for found in LIMIT.finditer(text):
        yield text.count("\n", 0, found.start()) + 1, amount(found["number"], found["unit"]), found["name"]


def numbers(text):
    """The numbers of a page that say a constant's: number of the line, value, path, name.

    >>> list(numbers("At most 64 rows (`crates/a.rs::ROWS`),\\nand nine kinds\\n(`crates/b.rs::Kind`)"))
    [(1, 64, 'crates/a.rs', 'ROWS'), (2, 9, 'crates/b.rs', 'Kind')]
    """
    for found in ITEM.finditer(text):
        number = amount(found["number"], found["unit"])
        yield text.count("\n", 0, found.start()) + 1, number, found["path"], found["name"]


def stray(text):
    """The numbers of a page that are no constant's: numbers of lines, and texts.

    >>> list(stray("# 1 title\\nsee RFC 9051 §6.4.8, [30](x.md), `17`\\n1. one of 5\\n64 rows (`crates/a.rs::ROWS`)"))
    [(3, '5')]
    """
    blank = lambda found: re.sub(r"[^\n]", " ", found[0])
    text = ITEM.sub(lambda found: found[0].replace(found["number"], " " * len(found["number"]), 1), text)
    for code in (r"`[^`]*`", r"\[[^\]]*\]\([^)]*\)", NAMES.pattern):
        text = re.sub(code, blank, text)
    fence = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("```"):
            fence = not fence
        if fence or line.startswith(("    ", "#")):
            continue
        line = re.sub(r"^\s*\d+\. ", "", line)
        yield from ((number, found) for found in re.findall(r"\d[\d,.]*\d|\d", line))


def check(page):
    text = (ROOT / page).read_text()
    limits = "\n".join(path.read_text() for path in sorted((ROOT / "crates/base/src/limits").glob("*.rs")))
    if page == MAP and text.count("\n") > LINES:
        yield f"{page}: {text.count(chr(10))} lines, more than {LINES}"
    for line, number, path, name in numbers(text):
        file = ROOT / path
        if not file.is_file():
            yield f"{page}:{line}: no file {path}"
            continue
        code = file.read_text()
        try:
            real = variants(code, name) or value(code, name, limits)
        except (ValueError, SyntaxError, KeyError) as error:
            yield f"{page}:{line}: {path}: {error}"
            continue
        if real != number:
            yield f"{page}:{line}: {number}, but {name} is {real}"
    marks = len(re.findall(r"<!-- [A-Z0-9_]+ -->", text))
    if marks != len(list(limits_of(text))):
        yield f"{page}: {marks - len(list(limits_of(text)))} comments name a limit, without a number before them"
    for line, number, name in limits_of(text):
        try:
            real = value(limits, name)
        except (ValueError, SyntaxError, KeyError) as error:
            yield f"{page}:{line}: {error}"
            continue
        if real != number:
            yield f"{page}:{line}: {number}, but {name} is {real}"
    for line, found in stray(text) if page == MAP else ():
        yield f"{page}:{line}: {found} is no constant's: name the constant, or leave the number out"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--self-test", action="store_true")
    if parser.parse_args().self_test:
        failed, tried = doctest.testmod()
        print(f"constants: {tried} examples, {failed} failed")
        return 1 if failed else 0
    pages = (MAP, *OTHERS, *sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs/guide").glob("*.md")))
    problems = [problem for page in pages for problem in check(page)]
    for problem in problems:
        print(problem, file=sys.stderr)
    texts = [(ROOT / page).read_text() for page in pages]
    found = sum(len(list(numbers(text))) + len(list(limits_of(text))) for text in texts)
    print(f"constants: {found} numbers, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

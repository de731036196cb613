#!/usr/bin/env python3
"""Checks the language of user-facing text: the constructions that docs/glossary.md rules out, and the width of lines.

    tests/docs/prose.py              check; exit status 1 if there is a finding
    tests/docs/prose.py --list PATH  print only findings in files whose path begins with PATH
    tests/docs/prose.py --self-test  test the rules and the scanners

Checked are README.md, ARCHITECTURE.md, CHANGELOG.md, docs/guide, the pages beside it that PAGES names, and
contrib/*/README.md; in crates/*/src the string literals (errors, log lines, descriptions of keys and metrics) and the doc
comments from which clap makes `--help`; there also all comments, by fewer rules. Code, tables of generated sections and text
between `<!-- prose: off -->` and `<!-- prose: on -->` are not checked; in Rust, a literal below the line `// prose: off`. Only
the standard library is used.
"""

import argparse
import doctest
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = ("README.md", "ARCHITECTURE.md", "CHANGELOG.md", "docs/glossary.md", "docs/benchmarks.md", "docs/benchmark-runs.md",
         "docs/invariants.md", "docs/memory.md", "docs/adding-a-protocol.md")
PAGE_GLOBS = ("docs/guide/*.md", "contrib/*/README.md")
WIDTH = 110

PERSON = r"people|persons?|users?|administrators?|operators?|owners?|senders?|readers?|authors?|developers?"
# A construction, and what to write instead.
RULES = [(re.compile(pattern, re.IGNORECASE), advice) for pattern, advice in (
    (r"\bwhoever\b", "name the actor: client, session, node, operator"),
    (r"\b(?:somebody|someone)\b", "name the actor: client, session, node, operator"),
    (r"\b(?:anybody|everybody)\b", "name the actor: any client, every session"),
    (r"\bnobody\b", "name the actor: no client, no session, no process"),
    (r"\bwho\b", "name the actor"),
    (r"\btold\b", "write report, reply or notify, with an actor"),
    (r"\b(?:is|are|was|were|be|been|being) (?:said|asked)\b", "name the actor that reports or asks"),
    (r"\bwhat(?: [\w'-]+){0,3} (?:is|are|was|were|has been|have been)\b", "use a noun: the cause, the values in force"),
    (r"\boctets?\b", "write byte"),
    (r"\bcomes? back later\b", "write temporary error"),
    (r"\b(?:has|have|is|no|makes?|made|making) (?:no )?room\b", "say which limit: memory, quota, disk space"),
    (r"\banew\b", "write again"),
    (r"\b(?:goes|went|going) on\b", "write continue"),
    (r"\b(?:is|are|was|were|be|been) given up\b", "write evict (a body)"),
    (r"\bput aside\b", "write superseded"),
    (r"\bput back\b", "write restore"),
    (r"\bmistake in this program\b", "write bug in Sealpost"),
    (r"\bfor good\b", "write permanently"),
)]

# Comments are checked by the rules whose advice begins so.
COMMENT_ADVICE = ("name the actor:", "write report,", "write again", "write continue", "write evict", "write permanently",
                  "write temporary")
COMMENT_RULES = [(rule, advice) for rule, advice in RULES if advice.startswith(COMMENT_ADVICE)]

FENCE = re.compile(r"^ {0,3}(```+|~~~+)")
LIST_ITEM = re.compile(r"^( *)(?:[-*]|\d+\.) ")
GENERATED = re.compile(r"^<!-- (?:begin generated|made by|Written by)\b")
GENERATED_END = re.compile(r"^<!-- end\b")


def banned(text, rules=RULES):
    """The constructions in a text that the glossary rules out, with what to write instead.

    >>> [found for found, _ in banned("Whoever logs in is told that nobody is there.")]
    ['Whoever', 'nobody', 'told']
    >>> [found for found, _ in banned("It says what the server did wrong, and what is wrong.")]
    ['what is']
    >>> banned("People who run mail servers know what to do.")
    []
    >>> [found for found, _ in banned("Who waits is asked to come back later.")]
    ['Who', 'is asked', 'come back later']
    >>> banned("The command `whoami` and whole messages are fine.")
    []
    """
    found = []
    for rule, advice in rules:
        for match in rule.finditer(text):
            before = text[:match.start()].rstrip().lower()
            if match[0].lower() == "who" and re.search(rf"\b(?:{PERSON})$", before):
                continue
            found.append((match[0], advice))
    return found


def width(line):
    """How wide a line of Markdown is, without the targets of links and without comments.

    >>> width("See [the guide](https://example.org/a/very/long/address).")
    16
    >>> width("at most 16 <!-- JMAP_CALLS --> calls")
    16
    >>> width("(`" + "one command, which cannot be wrapped " * 5 + "`):")
    0
    """
    line = re.sub(r" ?<!--.*?-->", "", line)
    return 0 if re.fullmatch(r"\W*`[^`]+`\W*", line) else len(re.sub(r"\]\([^)]*\)", "]", line))


def prose(text):
    """The lines of a page that are prose or tables: numbers from 1, lines without code, and whether they are in a table.

    >>> page = "One `nobody`.\\n\\n    indented code\\n\\n| a | b |\\n```\\nfenced\\n```\\n<!-- prose: off -->\\nx\\n<!-- prose: on -->\\ny"
    >>> [(number, line) for number, line, _ in prose(page)]
    [(1, 'One `nobody`.'), (5, '| a | b |'), (12, 'y')]
    >>> [line for _, line, _ in prose("1. One:\\n\\n       code\\n\\n   text of the item")]
    ['1. One:', '   text of the item']
    >>> [line for _, line, _ in prose("<!-- begin generated: x -->\\nwhoever\\n<!-- end generated -->\\nend")]
    ['end']
    """
    fence = off = False
    indent, blank = 0, True
    for number, line in enumerate(text.splitlines(), 1):
        if FENCE.match(line):
            fence = not fence
        elif fence:
            continue
        elif GENERATED.match(line) or line == "<!-- prose: off -->":
            off = True
        elif GENERATED_END.match(line) or line == "<!-- prose: on -->":
            off = False
        elif off or line.startswith("<"):
            continue
        elif not line.strip():
            blank = True
        else:
            depth = len(line) - len(line.lstrip())
            item = LIST_ITEM.match(line)
            if depth == 0 and not item:
                indent = 0
            if blank and depth >= indent + 4 and not (item and indent):
                continue
            if item and depth < indent + 4:
                indent = len(item[0])
            blank = False
            yield number, line, line.lstrip().startswith("|")


def check_page(text):
    """What is wrong with a page: line numbers and texts.

    >>> list(check_page("Nobody\\nreads `nobody` here."))
    [(1, "'Nobody': name the actor: no client, no session, no process")]
    >>> list(check_page("What the old server\\nis."))
    [(1, "'What the old server is': use a noun: the cause, the values in force")]
    >>> [text for _, text in check_page("word " * 30)]
    ['149 columns wide, more than 110']
    >>> list(check_page("| a very wide table | " + "x" * 200 + " |"))
    []
    """
    paragraph = []
    for number, line, table in prose(text):
        if not table and not line.startswith("#") and width(line.rstrip()) > WIDTH:
            yield number, f"{width(line.rstrip())} columns wide, more than {WIDTH}"
        new = table or LIST_ITEM.match(line) or line.startswith("#")
        if paragraph and (new or number != paragraph[-1][0] + 1):
            yield from check_paragraph(paragraph)
            paragraph = []
        paragraph.append((number, line.strip()))
        if table or line.startswith("#"):
            yield from check_paragraph(paragraph)
            paragraph = []
    if paragraph:
        yield from check_paragraph(paragraph)


def check_paragraph(lines, rules=RULES):
    """The banned constructions of a paragraph, which may continue in the next line."""
    text = re.sub(r"(`+)(.+?)\1", lambda code: "`" + "x" * (len(code[0]) - 2) + "`", " ".join(line for _, line in lines))
    text = re.sub(r"\]\([^)]*\)", lambda target: "](" + "/" * (len(target[0]) - 3) + ")", text)
    for found, advice in banned(text, rules):
        at, number = text.find(found), lines[0][0]
        for candidate, line in lines:
            number = candidate
            if at <= len(line):
                break
            at -= len(line) + 1
        yield number, f"'{found}': {advice}"


STRING = re.compile(
    r"""(?P<line>//[^\n]*)
    |(?P<block>/\*)
    |(?P<raw>b?r(?P<hashes>\#*)")
    |(?P<bytes>b"(?:[^"\\]|\\.)*")
    |(?P<string>"(?:[^"\\]|\\.)*")
    |(?P<char>b?'(?:[^'\\]|\\(?:.|u\{[^}]*\}|x..))')""",
    re.VERBOSE | re.DOTALL,
)


def literals(text):
    """The string literals of Rust code with their lines, without comments, characters and byte strings.

    >>> list(literals('let a = "x y"; // "no"\\nlet c = \\'"\\'; let r = r#"raw "one""#;'))
    [(1, 'x y'), (2, 'raw "one"')]
    >>> list(literals('fn f<\\'a>(x: &\\'a str) { g("a \\\\\\n      b", b"bytes") }'))
    [(1, 'a b')]
    >>> list(literals('/* "a" /* nested "b" */ */ "c d"'))
    [(1, 'c d')]
    """
    at = 0
    while match := STRING.search(text, at):
        at = match.end()
        line = text.count("\n", 0, match.start()) + 1
        if match["block"]:
            depth = 1
            while depth and (edge := re.compile(r"/\*|\*/").search(text, at)):
                depth += 1 if edge[0] == "/*" else -1
                at = edge.end()
        elif match["raw"]:
            end = text.find('"' + match["hashes"], at)
            yield line, text[at:end]
            at = end + 1 + len(match["hashes"])
        elif match["string"]:
            before = text[:match.start()].rstrip()
            is_code = before.endswith((".expect(", "include_str!(", "include!(", "concat!("))
            if not is_code and not re.search(r"#!?\[\w+\([^\]]*reason =$", before):
                yield line, re.sub(r"\\\n\s*", "", match["string"][1:-1]).replace("\\n", "\n").replace('\\"', '"')


def help_texts(text):
    """The doc comments from which clap makes help: of fields and variants of types that derive clap's traits.

    >>> code = "#[derive(clap::Args)]\\npub struct Args {\\n    /// The file\\n    /// to read\\n    #[arg(long)]\\n    file: PathBuf,\\n}"
    >>> list(help_texts(code))
    [(3, 'The file to read')]
    >>> list(help_texts("use clap::Args;\\n#[derive(Debug)]\\nstruct A {\\n    /// Whoever\\n    a: u8,\\n}"))
    []
    >>> list(help_texts("#[derive(clap::Args)]\\nstruct A;\\nimpl A {\\n    /// Whoever\\n    fn f() {}\\n}"))
    []
    """
    block, first, inside = [], 0, False
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("#[derive("):
            inside = re.search(r"\b(?:Args|Parser|Subcommand|ValueEnum)\b", line)
        inside = inside and not re.match(r"\}|(?:pub(?:\([^)]*\))? )?(?:impl|fn|async|mod|const|static|trait)\b", line)
        comment = inside and re.match(r"\s+///\s?(.*)", line)
        if comment:
            first = first if block else number
            block.append(comment[1])
        elif block and line.strip() and not line.strip().startswith("#"):
            yield first, " ".join(block)
            block = []


COMMENT = re.compile(r"\s*//[/!]?(?:\s(.*))?$")


def comments(text):
    """The comments of a source, each as its lines with their numbers.

    >>> list(comments("//! One\\n//! text.\\n//!\\n//! Another.\\nfn f() {} // no\\n    // Three.\\n"))
    [[(1, 'One'), (2, 'text.')], [(4, 'Another.')], [(6, 'Three.')]]
    """
    block = []
    for number, line in enumerate([*text.splitlines(), ""], 1):
        comment = COMMENT.match(line)
        if comment and (comment[1] or "").strip():
            block.append((number, comment[1].strip()))
        elif block:
            yield block
            block = []


def check_comments(text):
    """What is wrong with the comments of a source file: line numbers and texts.

    >>> list(check_comments("// A session\\n// that nobody waits for."))
    [(2, "'nobody': name the actor: no client, no session, no process")]
    >>> list(check_comments("// What the session is."))
    []
    """
    for block in comments(text):
        yield from check_paragraph(block, COMMENT_RULES)


def without_tests(text):
    """Code before its `mod tests { … }`, which is last in a file.

    >>> without_tests('fn a() {}\\n#[cfg(test)]\\nmod tests {\\n}').strip()
    'fn a() {}'
    """
    return re.split(r"^#\[cfg\(test\)\]\n(?:#\[[^\n]*\]\n)*(?:pub(?:\([^)]*\))? )?mod \w+ \{", text, maxsplit=1, flags=re.MULTILINE)[0]


def check_source(text):
    """What is wrong with the texts of a source file: line numbers and texts.

    >>> list(check_source('bail!("nobody listens at {host}")'))
    [(1, "'nobody': name the actor: no client, no session, no process")]
    >>> list(check_source('map.get("nobody")'))
    []
    >>> list(check_source('// prose: off\\nconst WORDS: &str = "nobody who told";'))
    []
    """
    text = without_tests(text)
    off = {number + 1 for number, line in enumerate(text.splitlines(), 1) if line.strip() == "// prose: off"}
    for line, literal in [*literals(text), *help_texts(text)]:
        # Names, keys and patterns are not prose.
        if len(literal.split()) < 3 or line in off:
            continue
        for found, advice in banned(re.sub(r"`[^`]*`", "``", literal)):
            yield line, f"'{found}': {advice}"


def tracked(*patterns):
    command = ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard", "-z", "--", *patterns]
    names = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout.decode().split("\0")
    return sorted({name for name in names if name and (ROOT / name).is_file()})


def is_test(name):
    """Whether a source file is a test, by its place.

    >>> is_test("crates/cli/src/config/tests.rs"), is_test("crates/a/src/tests/b.rs"), is_test("crates/cli/src/cmd.rs")
    (True, True, False)
    """
    return "tests" in pathlib.PurePath(name).with_suffix("").parts


def findings():
    """Every finding: (path, line, text)."""
    pages = set(tracked(*PAGES, *PAGE_GLOBS))
    for name in sorted(pages):
        for line, text in check_page((ROOT / name).read_text()):
            yield name, line, text
    for name in tracked("crates/*/src/*.rs"):
        if not is_test(name):
            for line, text in check_source((ROOT / name).read_text()):
                yield name, line, text
    for name in tracked("crates/*.rs"):
        for line, text in check_comments((ROOT / name).read_text()):
            yield name, line, text


def self_test():
    failed, tried = doctest.testmod()
    print(f"prose: {tried} examples, {failed} failed")
    return 1 if failed else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", metavar="PATH")
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    if arguments.self_test:
        return self_test()
    found = [finding for finding in findings() if finding[0].startswith(arguments.list or "")]
    for name, line, text in found:
        print(f"{name}:{line}: {text}", file=sys.stderr)
    print(f"prose: {len(found)} findings" + (", see docs/glossary.md" if found else ""))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

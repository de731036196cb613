#!/usr/bin/env python3
"""Checks the name of every test: a claim of at most WORDS words, whose actors and objects are named.

    tests/structure/test_names.py              check; exit status 1 if there is a finding
    tests/structure/test_names.py --self-test  test the scanner

A test is a function below an attribute whose last part is `test`, such as `#[test]` and `#[tokio::test]`. Only the standard
library is used.
"""

import argparse
import doctest
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]

# The most words in the name of a test.
WORDS = 10
# Words that name no actor: write client, session, node, operator. And `told`: write report or notify.
PRONOUNS = {"anybody", "everybody", "nobody", "somebody", "someone", "told", "who", "whoever", "whom"}
# Words that name no object: `purged_messages_are_left_out_of_packs`, not `what_is_gone_is_left_out`.
OBJECTS = {"what"}

ATTRIBUTE = re.compile(r"\s*#\[(?P<path>\w+(?:::\w+)*)")
FUNCTION = re.compile(r"\s*(?:pub(?:\([^)]*\))? )?(?:async )?fn (?P<name>\w+)")


def tests(lines):
    """The tests of a source: the number of the line and the name of each.

    >>> list(tests(["#[test]", "fn a_claim() {", "    fn helper() {}", "}"]))
    [(2, 'a_claim')]
    >>> list(tests(['#[tokio::test(flavor = "multi_thread")]', "#[ignore]", "// Why.", "async fn waits() {"]))
    [(4, 'waits')]
    >>> list(tests(["#[cfg(test)]", "mod tests;", "fn no_test() {"]))
    []
    """
    expected = False
    for number, line in enumerate(lines, 1):
        attribute, function = ATTRIBUTE.match(line), FUNCTION.match(line)
        if attribute:
            expected = expected or attribute["path"].split("::")[-1] == "test"
        elif function:
            if expected:
                yield number, function["name"]
            expected = False


def problem(name):
    """What is wrong with a name, or None.

    >>> problem("small_loads_bypass_a_large_waiter")
    >>> problem("_".join(["word"] * 11))
    'has 11 words, of 10 at most'
    >>> problem("who_waits_is_served_first")
    "names no actor: 'who'"
    >>> problem("what_is_gone_is_left_out")
    "names no object: 'what'"
    """
    words = [word for word in name.split("_") if word]
    if len(words) > WORDS:
        return f"has {len(words)} words, of {WORDS} at most"
    for kind, banned in (("actor", PRONOUNS), ("object", OBJECTS)):
        if found := next((word for word in words if word in banned), None):
            return f"names no {kind}: {found!r}"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--self-test", action="store_true", help="test the scanner")
    if parser.parse_args().self_test:
        failed, tried = doctest.testmod()
        print(f"test names: {tried} examples, {failed} failed")
        return min(failed, 1)
    found = problems = 0
    for path in sorted((*ROOT.glob("crates/**/*.rs"), *ROOT.glob("fuzz/**/*.rs"))):
        if "target" in path.relative_to(ROOT).parts:
            continue
        for number, name in tests(path.read_text().splitlines()):
            found += 1
            if wrong := problem(name):
                problems += 1
                print(f"{path.relative_to(ROOT)}:{number}: {name} {wrong}")
    print(f"test names: {found} tests, {problems} problems")
    return min(problems, 1)


if __name__ == "__main__":
    sys.exit(main())

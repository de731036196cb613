#!/usr/bin/env python3
"""Checks that the name of every test is short enough to be found: at most WORDS words.

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


def words(name):
    """The number of words in a name.

    >>> words("small_loads_bypass_a_large_waiter")
    6
    """
    return len([word for word in name.split("_") if word])


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
            if words(name) > WORDS:
                problems += 1
                print(f"{path.relative_to(ROOT)}:{number}: {name} has {words(name)} words, of {WORDS} at most")
    print(f"test names: {found} tests, {problems} problems")
    return min(problems, 1)


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Checks that no crate has a large import circle: files that all need each other, directly or by way of others.

    tests/structure/circles.py                  fail if a circle has more than LARGEST files
    tests/structure/circles.py --list           print every circle of at least two files as well
    tests/structure/circles.py --why A B        print how file A comes to need file B (paths below crates/)

A file needs another one if it names it: in `use`, or by a path in the code. A name that a module merely re-exports leads to
the file that has it. Tests do not count: neither modules under `#[cfg(test)]` nor the files that they declare. Only the
standard library is used.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]

# The most files that may form one circle.
LARGEST = 10

# Crates that are not there yet, with their largest circle. These numbers only go down.
NOT_YET: dict[str, int] = {}

TOKEN = re.compile(
    r"""
      //[^\n]*                                    # comments
    | /\*.*?\*/
    | b?r(?P<hashes>\#*)".*?"(?P=hashes)          # raw strings
    | b?"(?:\\.|[^"\\])*"                         # strings
    | b?'(?:\\(?:x[0-9a-fA-F]{2}|u\{[^}]*\}|.)|[^'\\])'    # characters
    | (?P<keep>'?[A-Za-z_][A-Za-z0-9_]*|::|[^\s])
    """,
    re.VERBOSE | re.DOTALL,
)


def tokens(text):
    """Words and signs of a source, without comments and literals."""
    return [match["keep"] for match in TOKEN.finditer(text) if match["keep"]]


def closing(found, at):
    """Where the bracket that opens at `at` closes."""
    pairs = {"{": "}", "[": "]", "(": ")"}
    opening, end = found[at], pairs[found[at]]
    depth = 0
    for here in range(at, len(found)):
        depth += (found[here] == opening) - (found[here] == end)
        if depth == 0:
            return here
    return len(found) - 1


def without_tests(found):
    """The tokens without what `#[cfg(test)]` stands before, and without visibilities such as `pub(in crate::x)`."""
    kept, at = [], 0
    while at < len(found):
        if found[at] == "#" and at + 1 < len(found) and found[at + 1] == "[":
            end = closing(found, at + 1)
            attribute = "".join(found[at + 2 : end])
            at = end + 1
            if attribute in ("cfg(test)", "cfg(all(test,unix))", "cfg(all(test,target_os=))"):
                at = after_item(found, at)
        elif found[at] == "pub" and found[at + 1] == "(":
            at = closing(found, at + 1) + 1
        else:
            kept.append(found[at])
            at += 1
    return kept


def after_item(found, at):
    """The token after the item that begins at `at`."""
    while found[at] == "#":
        at = closing(found, at + 1) + 1
    while at < len(found) and found[at] not in ("{", ";"):
        at = closing(found, at) + 1 if found[at] in ("(", "[") else at + 1
    if at < len(found) and found[at] == "{":
        is_use = found[at - 1] == "::"
        at = closing(found, at)
        if is_use:
            at += 1
    return at + 1


def use_tree(found, at, prefix, out):
    """Reads one tree of a `use`; adds (path, name) to `out`, name `*` for all. Returns the token after it."""
    path = list(prefix)
    while at < len(found):
        word = found[at]
        if word == "{":
            end = closing(found, at)
            at += 1
            while at < end:
                at = use_tree(found, at, path, out)
                at += found[at] == ","
            return end + 1
        if word == "*":
            out.append((tuple(path), "*"))
            return at + 1
        if word == "::":
            at += 1
            continue
        if not re.match(r"[A-Za-z_]", word):
            break
        path.append(word)
        at += 1
        if at < len(found) and found[at] == "as":
            out.append((tuple(path), found[at + 1]))
            return at + 2
        if at >= len(found) or found[at] != "::":
            break
    name = path[-2] if path[-1] == "self" and len(path) > 1 else path[-1]
    out.append((tuple(path[:-1] if path[-1] == "self" and len(path) > 1 else path), name))
    return at


class Source:
    """What a file declares and names."""

    def __init__(self, text):
        found = without_tests(tokens(text))
        self.children, self.uses, self.paths = set(), [], set()
        at = 0
        while at < len(found):
            word = found[at]
            if word == "mod" and at + 2 < len(found) and found[at + 2] == ";":
                self.children.add(found[at + 1])
                at += 3
            elif word == "use" and (at == 0 or found[at - 1] in (";", "}", "{", "]", ")", "pub", "unsafe")):
                at = use_tree(found, at + 1, (), self.uses)
            elif re.match(r"[A-Za-z_]", word) and at + 1 < len(found) and found[at + 1] == "::":
                path = [word]
                while at + 2 < len(found) and found[at + 1] == "::" and re.match(r"[A-Za-z_]", found[at + 2]):
                    path.append(found[at + 2])
                    at += 2
                self.paths.add(tuple(path))
                at += 1
            else:
                at += 1
        self.names = {name: path for path, name in self.uses if name != "*"}


class Crate:
    """Modules of a crate (paths such as ("pull", "plan")), each a file, and which needs which."""

    def __init__(self, sources):
        """`sources` has the text of each file by its path below src/, without the suffix."""
        self.modules = {}
        root = next(name for name in ("lib", "main") if name in sources)
        pending = [((), root)]
        while pending:
            module, file = pending.pop()
            source = Source(sources[file])
            self.modules[module] = (file, source)
            below = "" if module == () else f"{'/'.join(module)}/"
            pending += [((*module, child), below + child) for child in source.children if below + child in sources]

    def resolve(self, module, path, depth=0):
        """The module whose file has what `path` names in `module`; None if it is not of this crate."""
        here, at = module, 0
        if path[0] == "crate":
            here, at = (), 1
        elif path[0] in ("self", "super"):
            at = path[0] == "self"
            while at < len(path) and path[at] == "super":
                here, at = here[:-1], at + 1
        elif path[0] not in self.modules[module][1].children:
            alias = self.modules[module][1].names.get(path[0])
            if alias is None or depth > 20 or alias[0] == path[0]:
                return None
            return self.resolve(module, (*alias, *path[1:]), depth + 1)
        while at < len(path) and (*here, path[at]) in self.modules:
            here, at = (*here, path[at]), at + 1
        if at < len(path) and depth <= 20:
            alias = self.modules[here][1].names.get(path[at])
            if alias is not None and not (here == module and alias == path):
                further = self.resolve(here, (*alias, *path[at + 1 :]), depth + 1)
                return further
        return here

    def edges(self):
        """For each file the files that it needs."""
        needs = {}
        for module, (file, source) in self.modules.items():
            found = set()
            for path in [path for path, _ in source.uses] + list(source.paths):
                target = self.resolve(module, path)
                if target is not None and target != module:
                    found.add(self.modules[target][0])
            needs[file] = found - {file}
        return needs


def circles(needs):
    """Strongly connected components of at least two files, the largest first (Tarjan, without recursion)."""
    index, low, on, stack, result = {}, {}, set(), [], []
    for root in sorted(needs):
        if root in index:
            continue
        work = [(root, iter(sorted(needs[root])))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on.add(root)
        while work:
            node, rest = work[-1]
            for other in rest:
                if other not in index:
                    index[other] = low[other] = len(index)
                    stack.append(other)
                    on.add(other)
                    work.append((other, iter(sorted(needs.get(other, ())))))
                    break
                if other in on:
                    low[node] = min(low[node], index[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    component = []
                    while not component or component[-1] != node:
                        component.append(stack.pop())
                        on.discard(component[-1])
                    if len(component) > 1:
                        result.append(sorted(component))
    return sorted(result, key=lambda files: (-len(files), files))


def load(name):
    """The module graph of a crate."""
    src = ROOT / "crates" / name / "src"
    sources = {path.relative_to(src).with_suffix("").as_posix(): path.read_text() for path in src.rglob("*.rs")}
    needs = Crate(sources).edges()
    if "lib" in sources and "main" in sources:
        # The library is a crate of its own for the program.
        needs |= Crate({file: text for file, text in sources.items() if file != "lib"}).edges()
    return {f"{name}/src/{file}.rs": {f"{name}/src/{other}.rs" for other in found} for file, found in needs.items()}


def crate_of(files):
    """The crate of a circle."""
    return files[0].split("/")[0]


def largest(found, name):
    """The largest circle of a crate."""
    return max((len(files) for files in found if crate_of(files) == name), default=0)


def way(needs, start, end):
    """The shortest way from one file to another."""
    before, pending = {start: None}, [start]
    while pending:
        here = pending.pop(0)
        if here == end:
            found = []
            while here:
                found.append(here)
                here = before[here]
            return found[::-1]
        for other in sorted(needs.get(here, ())):
            if other not in before:
                before[other] = here
                pending.append(other)
    return []


def check_this_check():
    """Circles have to be found, also by way of a re-export, and nothing else."""
    circle = {
        "lib": "mod a; mod b; pub use a::Thing;",
        "a": "use crate::b::{other, self as second}; pub struct Thing; // use crate::nothing;",
        "b": 'fn f() -> super::Thing { "crate::a"; todo!() }',
    }
    line = {
        "lib": "mod a; mod b; #[cfg(test)] mod tests { use crate::b::Back; }",
        "a": "use crate::b::Thing; pub(in crate::b) fn f() {}",
        "b": "pub struct Thing; #[cfg(test)] use crate::a::f; #[cfg(test)] mod tests { use super::super::a; }",
    }
    return circles(Crate(circle).edges()) == [["a", "b"]] and circles(Crate(line).edges()) == []


def main():
    if not check_this_check():
        sys.exit("circles: this check does not find what it should")
    crates = sorted(path.parent.name for path in (ROOT / "crates").glob("*/Cargo.toml"))
    needs = {file: found for name in crates for file, found in load(name).items()}
    if "--why" in sys.argv:
        start, end = sys.argv[sys.argv.index("--why") + 1 :][:2]
        print("\n".join(way(needs, start, end)) or "it does not")
        return
    found = circles(needs)
    if "--list" in sys.argv:
        for files in found:
            print(f"{len(files)}:", *files)
    large = [files for files in found if len(files) > NOT_YET.get(crate_of(files), LARGEST)]
    for files in large:
        print(f"{len(files)} files import each other:\n    " + "\n    ".join(files), file=sys.stderr)
    lower = [f"{name}: {most}" for name, most in NOT_YET.items() if largest(found, name) < most]
    if lower:
        print(f"lower these in tests/structure/circles.py: {', '.join(lower)}", file=sys.stderr)
    print(f"circles: {len(found)}, the largest of {max(map(len, found), default=0)} files; {len(large)} too large")
    sys.exit(1 if large else 0)


if __name__ == "__main__":
    main()

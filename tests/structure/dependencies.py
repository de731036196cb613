#!/usr/bin/env python3
"""Checks which crate may know which: the rules of ARCHITECTURE.md, "Crates".

    tests/structure/dependencies.py

Read are the manifests below crates/ and the Rust sources of each crate. A rule that is broken is reported with its file; so is
a crate without a rule, and one that needs a feature that only other crates name. Only the standard library is used.
"""

import pathlib
import re
import subprocess
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]

# What each crate may depend on, directly. A new crate needs a line here, and one in ARCHITECTURE.md.
MAY_USE = {
    "base": "",
    "mime": "base",
    "imap": "base",
    "smtp": "base",
    "jmap": "base",
    "mailauth": "base mime",
    "dns": "base",
    "delivery": "base smtp dns",
    "files": "base",
    "vault": "base files",
    "journal": "base vault",
    "directory": "base files mime vault journal",
    "account": "base mime vault journal directory",
    "push": "base files dns delivery vault directory account",
    "queue": "base mime smtp vault journal delivery",
    "index": "base mime vault account",
    "mailbox": "base mime vault directory account index",
    "search": "base mime vault account index mailbox",
    "mailformat": "base files mime imap",
    "archive": "base files imap mailformat mime vault account",
    "auth": "base vault directory account",
    "session": "base files vault directory account index mailbox search auth",
    "http": "base auth session",
    "oauth": "base vault directory auth session",
    "imap-session": "base mime imap vault directory account index mailbox search auth session",
    "jmap-session": "base mime jmap push vault directory account index mailbox search auth session queue submission",
    "submission": "base mime smtp mailauth dns vault directory queue",
    "smtp-session": "base smtp vault directory account auth session queue submission",
    "server": "base files mime smtp mailauth dns delivery push vault queue submission directory account auth session http oauth imap-session jmap jmap-session smtp-session",
    "bench": "base mailformat jmap",
    "rig": "base bench",
    "cli": "base dns files mime imap mailformat vault journal queue push directory submission account index mailbox archive bench server",
    "sim": "base vault journal directory account index",
    "testkit": "base",
}

# What tests of a crate may use besides.
TESTS_MAY_USE = {name: "testkit" for name in
                 ("imap", "smtp", "jmap", "jmap-session", "oauth", "mime", "mailauth", "mailformat", "vault", "journal", "directory", "account", "index", "mailbox", "queue",
                  "archive", "cli")}
# Transcripts and models speak to a whole server.
TESTS_MAY_USE["server"] = "testkit imap smtp index mailbox queue submission"
TESTS_MAY_USE["submission"] = "testkit"
# Clients of both protocols on one account.
TESTS_MAY_USE["jmap-session"] = "testkit imap-session delivery dns"
TESTS_MAY_USE["http"] = "testkit vault"
TESTS_MAY_USE["push"] = "testkit"
# A queue whose mail goes nowhere.
TESTS_MAY_USE["cli"] = "testkit delivery smtp"

# Formats and languages: no I/O and no runtime.
PURE = ("base", "mime", "imap", "smtp", "jmap", "mailauth")
IO = ("async-trait", "futures", "hyper", "object_store", "rusqlite", "rustls", "tokio", "tokio-rustls")

# Which sources may name the types of a wire protocol: the session, clients of foreign servers, and tests; also files that keep
# names of mailboxes in IMAP's modified UTF-7. Everything below a session is for every protocol.
WIRE = {
    "sealpost_imap": (
        "imap/",
        "archive/",
        "bench/",
        "cli/",
        "mailformat/src/maildir/folder.rs",
        "mailformat/src/takeout.rs",
        "imap-session/",
        "server/tests/",
    ),
    "sealpost_smtp": ("smtp/", "queue/src/runner/", "submission/src/srs.rs", "submission/src/forwarder", "submission/tests/fuzz/submission_srs.rs", "bench/", "delivery/", "smtp-session/", "server/src/sending/", "server/tests/", "cli/tests/"),
    "sealpost_jmap": ("jmap/", "bench/src/load/", "jmap-session/", "server/src/http/jmap", "server/tests/"),
}

# What sources use of a dependency only with a feature, so that each crate and its tests build alone: built together with the
# others, a crate gets the features that any of them names.
FEATURES = {
    ("tokio", "test-util"): r"\bstart_paused\b|\btime::(?:pause|advance|resume)\b",
    ("tokio", "process"): r"\btokio::process\b",
    ("tokio", "signal"): r"\btokio::signal\b",
}


def dependencies(manifest):
    """Names of the dependencies and of those of tests alone, of all targets."""
    tables = [manifest, *manifest.get("target", {}).values()]
    used = {name for table in tables for kind in ("dependencies", "build-dependencies") for name in table.get(kind, {})}
    tested = {name for table in tables for name in table.get("dev-dependencies", {})}
    return used, tested


def own(names):
    """The crates of this workspace among them."""
    return {name.removeprefix("sealpost-") for name in names if name.startswith("sealpost-")}


def check_manifest(crate, manifest):
    """What a crate uses that it may not."""
    if crate not in MAY_USE:
        yield f"{crate} has no rule in tests/structure/dependencies.py"
        return
    used, tested = dependencies(manifest)
    allowed = set(MAY_USE[crate].split())
    for other in sorted(own(used) - allowed):
        yield f"{crate} may not depend on {other}"
    for other in sorted(own(tested) - allowed - set(TESTS_MAY_USE.get(crate, "").split()) - {crate}):
        yield f"tests of {crate} may not depend on {other}"
    if crate in PURE:
        for name in sorted(used.intersection(IO)):
            yield f"{crate} is without I/O and runtime, and may not depend on {name}"


def check_source(path, text):
    """The wire protocols that a source names and may not; `path` is below crates/."""
    for name, places in WIRE.items():
        if path.startswith(places):
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if re.search(rf"\b{name}\b", line):
                yield number, f"{name} is for sessions and clients of that protocol"


def features(manifest, workspace, name):
    """The features of the dependency `name` that a crate and its tests have, with those that the workspace names."""
    tables = [manifest, *manifest.get("target", {}).values(), workspace]
    found = [table.get(kind, {}).get(name, {}) for table in tables for kind in ("dependencies", "dev-dependencies")]
    return {feature for one in found if isinstance(one, dict) for feature in one.get("features", [])}


def check_features(crate, manifest, workspace, texts):
    """Features that the sources of a crate need and its manifest does not name."""
    for (name, feature), use in FEATURES.items():
        if feature not in features(manifest, workspace, name) and any(re.search(use, text) for text in texts):
            yield f"{crate} needs the feature {feature} of {name} to build alone"


def check_circles():
    """The rules themselves must not allow a circle."""
    below = {}

    def closure(crate, path):
        if crate in path:
            yield f"the rules allow a circle: {' -> '.join((*path, crate))}"
            return
        for other in MAY_USE[crate].split():
            yield from closure(other, (*path, crate))

    for crate in MAY_USE:
        below[crate] = list(closure(crate, ()))
    return [problem for problems in below.values() for problem in problems]


def check_this_check():
    """Broken rules have to be found."""
    broken = [
        list(check_manifest("search", {"dependencies": {"sealpost-imap": {"workspace": True}}})),
        list(check_manifest("journal", {"target": {"cfg(unix)": {"dependencies": {"sealpost-account": {}}}}})),
        list(check_manifest("mime", {"dependencies": {"tokio": "1"}})),
        list(check_manifest("vault", {"dev-dependencies": {"sealpost-account": {}}})),
        list(check_manifest("newcomer", {})),
        list(check_source("search/src/find.rs", "use sealpost_imap::types::Code;")),
        list(check_source("server/src/quota.rs", "fn f() -> sealpost_smtp::Reply")),
        list(check_features("cli", {"dependencies": {"tokio": {"features": ["fs"]}}}, {}, ["#[tokio::test(start_paused = true)]"])),
    ]
    kept = [
        list(check_manifest("search", {"dependencies": {"sealpost-mailbox": {}, "tokio": "1"}})),
        list(check_source("imap-session/src/fetch.rs", "use sealpost_imap::types::Code;")),
        list(check_source("search/src/find.rs", "use sealpost_imap_lookalike::x;")),
        list(check_features("cli", {"dev-dependencies": {"tokio": {"features": ["test-util"]}}}, {}, ["start_paused"])),
        list(check_features("cli", {}, {"dependencies": {"tokio": {"features": ["signal"]}}}, ["use tokio::signal::ctrl_c;"])),
    ]
    return all(len(found) == 1 for found in broken) and not any(kept)


def sources():
    """Rust sources that git knows or would add, by their path below crates/."""
    command = ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard", "-z", "--", "crates/*.rs"]
    names = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout.decode().split("\0")
    for name in sorted(set(names)):
        if name and (ROOT / name).is_file():
            yield name.removeprefix("crates/"), (ROOT / name).read_text()


def main():
    if not check_this_check():
        sys.exit("dependencies: this check does not find what it should")
    problems = check_circles()
    crates = sorted(path.parent.name for path in (ROOT / "crates").glob("*/Cargo.toml"))
    overview = (ROOT / "ARCHITECTURE.md").read_text()
    for crate in crates:
        manifest = tomllib.loads((ROOT / "crates" / crate / "Cargo.toml").read_text())
        problems += [f"crates/{crate}/Cargo.toml: {what}" for what in check_manifest(crate, manifest)]
        if not re.search(rf"^      {crate}/ ", overview, re.MULTILINE):
            problems.append(f"ARCHITECTURE.md: {crate} is not among the crates")
    problems += [f"{crate} has a rule and is no crate" for crate in MAY_USE if crate not in crates]
    found = list(sources())
    workspace = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]
    for crate in crates:
        manifest = tomllib.loads((ROOT / "crates" / crate / "Cargo.toml").read_text())
        texts = [text for path, text in found if path.startswith(f"{crate}/")]
        problems += [f"crates/{crate}/Cargo.toml: {what}" for what in check_features(crate, manifest, workspace, texts)]
    for path, text in found:
        problems += [f"crates/{path}:{number}: {what}" for number, what in check_source(path, text)]
    for problem in problems:
        print(problem, file=sys.stderr)
    print(f"dependencies: {len(crates)} crates, {len(problems)} problems")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Writes docs/rfc-coverage.md: which sections of which RFC the code of IMAP, submission, JMAP and OAuth, and its tests, cite.

    tests/docs/rfc_coverage.py             write the page
    tests/docs/rfc_coverage.py --check     fail if it is not what would be written, or if something is missing
    tests/docs/rfc_coverage.py --sections DIR
                                           read the sections of the RFCs named in CAPABILITIES from the texts in DIR
                                           (rfc9051.txt …) into tests/docs/rfc-sections.tsv

A citation is `RFC 9051 §6.4.8`, with further sections as `, §6.4.9` or ` and §6.4.9`. Those in crates/*/src are code, those
in crates/*/tests and in unit tests' files are tests. A section counts as covered if it, one inside it or one around it
(not the whole RFC) is cited. Every capability that the server announces has to be in CAPABILITIES, every keyword of EHLO in
KEYWORDS, every capability of JMAP in JMAP, and every section that
asks for something has to be cited or be named in tests/docs/rfc-notes.tsv with the reason. Only the standard library is used.
"""

import collections
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "rfc-coverage.md"
SECTIONS = ROOT / "tests" / "docs" / "rfc-sections.tsv"
NOTES = ROOT / "tests" / "docs" / "rfc-notes.tsv"
ANNOUNCED = ROOT / "crates" / "imap-session" / "src" / "capability.rs"
NAMES = ROOT / "crates" / "jmap" / "src" / "capability.rs"
EHLO = ROOT / "crates" / "smtp-session" / "src" / "command.rs"

# What the server may announce, and the RFC that says what it means.
CAPABILITIES = {
    "IMAP4rev1": 3501, "IMAP4rev2": 9051, "ACL": 4314, "RIGHTS=": 4314, "APPENDLIMIT": 7889, "AUTH=LOGIN": None,
    "AUTH=OAUTHBEARER": 7628, "AUTH=PLAIN": 4616, "AUTH=SCRAM-SHA-256": 7677, "AUTH=SCRAM-SHA-256-PLUS": 7677,
    "AUTH=XOAUTH2": None, "BINARY": 3516, "CATENATE": 4469, "CHILDREN": 3348, "COMPRESS=DEFLATE": 4978,
    "CONDSTORE": 7162, "CONTEXT=SEARCH": 5267, "CONTEXT=SORT": 5267, "CREATE-SPECIAL-USE": 6154, "ENABLE": 5161,
    "ESEARCH": 4731, "ESORT": 5267, "FILTERS": 5466, "I18NLEVEL=1": 5255, "ID": 2971, "IDLE": 2177,
    "INPROGRESS": 9585, "JMAPACCESS": 9698, "LIST-EXTENDED": 5258, "LIST-METADATA": 9590, "LIST-MYRIGHTS": 8440,
    "LIST-STATUS": 5819, "LITERAL+": 7888, "LITERAL-": 7888, "LOGINDISABLED": 3501, "MESSAGELIMIT=": 9738,
    "METADATA": 5464, "METADATA-SERVER": 5464, "MOVE": 6851, "MULTIAPPEND": 3502, "MULTISEARCH": 7377,
    "NAMESPACE": 2342, "NOTIFY": 5465, "OBJECTID": 8474, "PARTIAL": 9394, "PREVIEW": 8970, "QRESYNC": 7162,
    "QUOTA": 9208, "QUOTA=RES-STORAGE": 9208, "QUOTA=RES-MESSAGE": 9208, "QUOTA=RES-MAILBOX": 9208,
    "QUOTA=RES-ANNOTATION-STORAGE": 9208, "QUOTASET": 9208, "REPLACE": 8508, "SASL-IR": 4959, "SAVEDATE": 8514,
    "SEARCH=FUZZY": 6203, "SEARCHRES": 5182, "SORT": 5256, "SORT=DISPLAY": 5957, "SPECIAL-USE": 6154,
    "STARTTLS": 3501, "STATUS=SIZE": 8438, "THREAD=ORDEREDSUBJECT": 5256, "THREAD=REFERENCES": 5256,
    "UIDBATCHES": 9755, "UIDONLY": 9586, "UIDPLUS": 4315, "UNAUTHENTICATE": 8437, "UNSELECT": 3691,
    "URL-PARTIAL": 5550, "URLAUTH": 4467, "UTF8=ACCEPT": 6855, "WITHIN": 5032,
}
# What EHLO may list, and the RFC that says what it means; the last is what the service as a whole is.
KEYWORDS = {
    "8BITMIME": 6152, "AUTH": 4954, "BINARYMIME": 3030, "BURL": 4468, "CHUNKING": 3030, "DSN": 3461, "ENHANCEDSTATUSCODES": 2034,
    "FUTURERELEASE": 4865, "HELP": None, "PIPELINING": 2920, "REQUIRETLS": 8689, "SIZE": 1870, "SMTPUTF8": 6531,
    "STARTTLS": 3207, "submission": 6409,
}
# The capabilities of JMAP, and the RFC that says what they mean; then what stands behind them.
JMAP = {
    "core": 8620, "mail": 8621, "submission": 8621, "vacationresponse": 8621, "websocket": 8887, "mdn": 9007, "blob": 9404,
    "quota": 9425, "contacts": 9610, "principals": 9670, "principals:owner": 9670, "webpush-vapid": 9749,
}
BEHIND = {
    "replies of vacationresponse": 5230, "PKCE": 7636, "Web Push": 8030, "encryption of Web Push": 8291, "VAPID": 8292,
    "metadata of the OAuth server": 8414, "metadata of the protected resource": 9728,
}
# Sections that ask nothing of a server, by their titles.
SILENT = re.compile(
    r"^(abstract|notational conventions|introduction.*|overview.*|acknowledge?ments?|contributors|(normative |informative )?references|"
    r"iana considerations|.*security considerations|conventions.*|terminology.*|requirements( notation)?|document conventions|"
    r"table of contents|author.{0,3} address(es)?|.*copyright.*|intellectual property.*|index|changes.*|differences.*|open issues|"
    r"history|motivation.*|examples?( .*)?|.*registr(y|ation).*|internationalization considerations|formal (syntax|grammar)|"
    r"collected abnf|how to read this document|organization of this document|special notes to implementors|"
    r"backward.?compatib.*|protocol overview|design.*|rationale.*|purpose.*|discussion.*|note to designers.*|pseudo-code)$",
    re.IGNORECASE)
CITATION = re.compile(r"RFC (\d{3,5}) (§[\w.]+(?:(?:, (?:and )?|,? and |/| to )§[\w.]+)*)")
HEADING = re.compile(r"^(?:Appendix )?([A-Z]|\d+)((?:\.\d+)*)\.?\s{1,4}(\S.*?)\s*$")


def tracked(*patterns):
    """Files that git knows or would add."""
    command = ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard", "-z", "--", *patterns]
    names = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout.decode().split("\0")
    return [ROOT / name for name in sorted(set(names)) if name and (ROOT / name).is_file()]


def announced():
    """The capabilities in the server's table."""
    source = ANNOUNCED.read_text().split("#[cfg(test)]")[0]
    names = set(re.findall(r'"([A-Z0-9][A-Za-z0-9=+-]*)"', source))
    return sorted(name for name in names if not name.startswith("CAPABILITY"))


def keywords():
    """The keywords in the server's reply to EHLO."""
    source = EHLO.read_text().split("fn extensions")[1].split("fn rset")[0]
    return sorted(set(re.findall(r'with_line\((?:format!\()?"([A-Z0-9]+)', source))) + ["submission"]


def jmap_capabilities():
    """The names of capabilities that the server has types of."""
    return sorted(re.findall(r'"urn:ietf:params:jmap:([a-z:-]+)"', NAMES.read_text()))


def rfc_of(name):
    """The RFC behind a capability; those with a value are known by their name and `=`."""
    for known, rfc in CAPABILITIES.items():
        if name == known or known.endswith("=") and name.startswith(known) or name.startswith(known + "="):
            return known, rfc
    return None, None


def citations():
    """(rfc, section) -> {"code": {files}, "tests": {files}}"""
    found = collections.defaultdict(lambda: {"code": set(), "tests": set()})
    for path in tracked("crates/*.rs", "crates/**/*.rs", "crates/**/*.txt"):
        name = str(path.relative_to(ROOT))
        kind = "tests" if "/tests" in name else "code"
        text = re.sub(r"\n\s*(?://[/!]?|#)\s*", " ", path.read_text(errors="replace"))
        for rfc, sections in CITATION.findall(text):
            for section in re.findall(r"§([\w.]+)", sections):
                found[int(rfc), section.rstrip(".")][kind].add(name)
    return found


def read_tsv(path):
    """The rows of a table, without comments."""
    if not path.exists():
        return []
    return [line.split("\t") for line in path.read_text().splitlines() if line and not line.startswith("#")]


def related(section, cited):
    """Whether a citation speaks of this section: of it, of one inside it, or of one around it."""
    return section == cited or cited.startswith(section + ".") or section.startswith(cited + ".")


def page():
    """The page, and what is missing."""
    problems = []
    by_rfc = collections.defaultdict(list)
    for name in announced():
        known, rfc = rfc_of(name)
        if known is None:
            problems.append(f"{name} is announced and not in CAPABILITIES")
        elif rfc is not None:
            by_rfc[rfc].append(name)
    for name in keywords():
        if name not in KEYWORDS:
            problems.append(f"EHLO lists {name}, which is not in KEYWORDS")
        elif KEYWORDS[name] is not None:
            by_rfc[KEYWORDS[name]].append(name)
    for name in jmap_capabilities():
        if name not in JMAP:
            problems.append(f"JMAP has {name}, which is not in JMAP")
        else:
            by_rfc[JMAP[name]].append(f"jmap:{name}")
    for name, rfc in BEHIND.items():
        by_rfc[rfc].append(name)
    cited = citations()
    sections = collections.defaultdict(list)
    for rfc, section, title in read_tsv(SECTIONS):
        sections[int(rfc)].append((section, title))
    notes = {(int(rfc), section): why for rfc, section, why in read_tsv(NOTES)}
    lines = [
        "# RFC coverage", "",
        "Which sections of the RFCs behind the announced IMAP capabilities, behind what SMTP and submission list in reply to EHLO,",
        "behind the capabilities of JMAP, its pushes and its logins, are cited in the code that decides, and in the tests. Written by",
        "`tests/docs/rfc_coverage.py` from the citations;",
        "`make lint` checks that it is up to date and that no section that asks something of a server is left without a citation",
        "or a note. Of RFC 4467, 4865, 4954, 5550, 6152, 6409, 7636, 8030, 8291, 8414, 8887, 9585, 9586, 9590, 9728 and 9749 the",
        "texts were not at hand: their sections are those that are cited, in our words.", "",
        "| RFC | announced as | sections | cited in code | cited in tests | by a note |", "|---|---|--:|--:|--:|--:|",
    ]
    details = []
    for rfc in sorted(by_rfc):
        if not sections[rfc]:
            problems.append(f"tests/docs/rfc-sections.tsv has no sections of RFC {rfc}")
        rows, counts = [], collections.Counter()
        for section, title in sections[rfc]:
            if SILENT.match(title):
                continue
            counts["all"] += 1
            files = {"code": set(), "tests": set()}
            for (number, at), places in cited.items():
                if number == rfc and related(section, at):
                    for kind in files:
                        files[kind] |= places[kind]
            note = notes.get((rfc, section), "")
            if files["code"]:
                counts["code"] += 1
            elif note:
                counts["note"] += 1
            else:
                problems.append(f"RFC {rfc} §{section} {title}: no citation and no note")
            counts["tests"] += bool(files["tests"])
            names = [f"`{name}`" for kind in ("code", "tests") for name in sorted(files[kind])[:3]]
            more = sum(max(len(files[kind]) - 3, 0) for kind in files)
            where = ", ".join(names) + (f" and {more} more" if more else "")
            rows.append(f"| §{section} {title} | {where or note} |")
        lines.append(f"| [{rfc}](#rfc-{rfc}) | {', '.join(by_rfc[rfc])} | {counts['all']} | {counts['code']} | "
                     f"{counts['tests']} | {counts['note']} |")
        details += ["", f"## RFC {rfc}", "", "| section | where |", "|---|---|", *rows]
    return "\n".join(lines + details) + "\n", problems


def read_sections(folder):
    """Sections of the RFCs, from their texts."""
    rows = ["# Sections of the RFCs that tests/docs/rfc_coverage.py looks for: RFC, section, title."]
    known = (CAPABILITIES, KEYWORDS, JMAP, BEHIND)
    for rfc in sorted({rfc for table in known for rfc in table.values() if rfc}):
        path = pathlib.Path(folder) / f"rfc{rfc}.txt"
        if not path.exists():
            print(f"no text of RFC {rfc} in {folder}", file=sys.stderr)
            continue
        seen, last = {}, (0,)
        for line in path.read_text(errors="replace").splitlines():
            heading = HEADING.match(line)
            # In the table of contents titles end with dots and a page number.
            if not heading or re.search(r"(\. ?){3,}|\s\d+$", line) or line.startswith(" "):
                continue
            section, title = heading[1] + heading[2], heading[3]
            if not heading[1].isdigit():
                continue
            key = tuple(int(part) for part in section.split("."))
            # Numbered lists begin again at 1; sections do not.
            if key <= last or len(key) == 1 and key[0] != last[0] + 1 or title.endswith((".", ";", ",")):
                continue
            last = key
            seen[section] = title
        rows += [f"{rfc}\t{section}\t{title}" for section, title in seen.items()]
    SECTIONS.write_text("\n".join(rows) + "\n")


def main():
    if sys.argv[1:2] == ["--sections"] and len(sys.argv) == 3:
        read_sections(sys.argv[2])
        return 0
    text, problems = page()
    if sys.argv[1:] == ["--check"]:
        if not PAGE.exists() or PAGE.read_text() != text:
            problems.append("docs/rfc-coverage.md is not up to date: run tests/docs/rfc_coverage.py")
    elif not sys.argv[1:]:
        PAGE.write_text(text)
    else:
        print(__doc__, file=sys.stderr)
        return 2
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

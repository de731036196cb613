#!/usr/bin/env python3
"""Writes the tables of this directory from Python's own: character references and single-byte charsets.

    make.py          writes them
    make.py --check  fails if they would change
"""
import html.entities
import pathlib
import sys

HERE = pathlib.Path(__file__).parent

# Charsets that encoding_rs lacks, as Python calls them, and the name that SEARCH and the program know them by.
CHARSETS = {
    **{f"cp{n}": f"ibm{n}" for n in (437, 720, 737, 775, 850, 852, 855, 856, 857, 858, 860, 861, 862, 863, 864, 865, 869, 1125)},
    "koi8_t": "koi8-t",
    "kz1048": "kz-1048",
    "ptcp154": "ptcp154",
    "hp_roman8": "hp-roman8",
    "mac_latin2": "x-mac-ce",
    "mac_croatian": "x-mac-croatian",
    "mac_greek": "x-mac-greek",
    "mac_iceland": "x-mac-icelandic",
    "mac_romanian": "x-mac-romanian",
    "mac_turkish": "x-mac-turkish",
}


def entities():
    """`name code points`, sorted by name; a `!` behind those that count without a semicolon (HTML standard §13.5)."""
    named = html.entities.html5
    lines = []
    for name in sorted(name[:-1] for name in named if name.endswith(";")):
        points = " ".join(f"{ord(c):X}" for c in named[name + ";"])
        lines.append(f"{name} {points}{' !' if name in named else ''}\n")
    return "".join(lines)


def charsets():
    """`name code points`: those of the bytes 0x80 to 0xff, FFFD where there is none; then `byte=code point` for what below is not ASCII."""
    lines = []
    for python, name in CHARSETS.items():
        points = [ord(bytes([byte]).decode(python, "replace")) for byte in range(256)]
        high = "".join(f" {point:X}" for point in points[128:])
        low = "".join(f" {byte:X}={point:X}" for byte, point in enumerate(points[:128]) if point != byte)
        lines.append(f"{name}{high}{low}\n")
    return "".join(lines)


def main():
    stale = []
    for file, content in (("entities.txt", entities()), ("charsets.txt", charsets())):
        path = HERE / file
        if "--check" not in sys.argv:
            path.write_bytes(content.encode())
        elif path.read_bytes() != content.encode():
            stale.append(file)
    if stale:
        sys.exit(f"{', '.join(stale)}: not what crates/mime/tables/make.py writes; run it")


main()

#!/bin/sh
# Measures `sealpost archive pull` against a local Dovecot, beside mbsync and a bare FETCH: bench/archive.sh [RUNS [COUNT…]]
#
# For each count, so many messages of 52 bytes in one mailbox; each run begins with an empty copy. Prints a line for each run:
# program, messages, seconds, messages a second, peak RSS in KiB. Needs dovecot, mbsync and /usr/bin/time (mbsync is left out if it
# is not there). The binaries are built for release first, unless BIN names their directory.
set -eu
cd "$(dirname "$0")/.."
if [ -z "${BIN:-}" ]; then
    cargo build --release --quiet -p sealpost -p sealpost-bench
    BIN="${CARGO_TARGET_DIR:-target}/release"
fi
exec python3 bench/archive.py --bin "$BIN" --runs "${1:-4}" --counts "$(shift || true; echo "$*")"

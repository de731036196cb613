#!/bin/sh
# Measures `sealpost archive pull` against a local Dovecot, beside a bare FETCH and mbsync: bench/archive.sh [RUNS [COUNT…]]
#
# For each count, so many messages of 52 bytes in one mailbox; each run begins with an empty copy. Prints a line for each run:
# program, messages, seconds, messages a second, peak RSS in KiB; bench/archive_plot.py makes a table and plots of them. Needs
# dovecot, mbsync and /usr/bin/time (mbsync is left out if it is not there). The binaries are built for release first, unless BIN
# names their directory. OPTIONS go to bench/archive.py: "--far 30" puts the server 30 ms away, "--real 20000" takes mail of the
# sizes of mail instead, "--idle 95" pulls that find nothing new.
set -eu
cd "$(dirname "$0")/.."
if [ -z "${BIN:-}" ]; then
    cargo build --release --quiet -p sealpost -p sealpost-bench
    BIN="${CARGO_TARGET_DIR:-target}/release"
fi
runs="${1:-4}"
[ $# -eq 0 ] || shift
# shellcheck disable=SC2086
exec python3 bench/archive.py --bin "$BIN" --runs "$runs" --counts "$*" ${OPTIONS:-}

#!/bin/sh
# Measures `sealpost archive pull` against a local Dovecot, beside a bare FETCH, mbsync and imap-backup:
#
#     bench/archive.sh [RUNS [COUNT…]]
#     bench/archive.sh publish
#
# For each count, so many messages of 52 bytes in one mailbox; each run begins with an empty copy. Prints a line for each run:
# program, messages, seconds, messages a second, peak RSS in KiB; bench/archive_plot.py makes a table and plots of them. Needs
# dovecot and /usr/bin/time; mbsync is left out if it is not there, imap-backup unless IMAP_BACKUP says how to start it ("ruby -I…
# …/bin/imap-backup"). The binaries are built for release first, unless BIN names their directory. OPTIONS go to
# bench/archive.py: "--far 30" puts the server 30 ms away, "--real 20000" takes mail of the sizes of mail instead, "--idle 95" pulls that find
# nothing new.
#
# publish: the whole series, four runs each, then each of the others, into the page docs/benchmark-runs.md and its plots. What takes
# minutes for a run (mbsync with FSync, imap-backup with its strategy "direct") is measured up to the counts in MOST. About twelve minutes
# where nothing else runs; RUNS=2 halves them.
set -eu
cd "$(dirname "$0")/.."
if [ -z "${BIN:-}" ]; then
    CARGO_TARGET_DIR=$(.ci/target-dir)
    export CARGO_TARGET_DIR
    cargo build --release --quiet -p sealpost -p sealpost-rig
    BIN="$CARGO_TARGET_DIR/release"
fi
measure() {
    # shellcheck disable=SC2086
    python3 bench/archive.py --bin "$BIN" --imap-backup "${IMAP_BACKUP:-}" ${MOST:+--most "$MOST"} "$@" ${OPTIONS:-}
}
if [ "${1:-}" = publish ]; then
    results="${RESULTS:-$(mktemp -d)}"
    runs="${RUNS:-4}"
    echo "results: $results" >&2
    record() {
        name="$1"
        shift
        { measure --runs "$runs" --leave "$results/left" "$@" || touch "$results/failed"; } | tee "$results/$name"
        [ ! -e "$results/failed" ]
    }
    record series
    record real --real 20000 --mbsync no --imap-backup ""
    record far --far 30 --counts 59874 --mbsync no --imap-backup ""
    record idle --idle 95 --imap-backup ""
    python3 bench/archive_plot.py "$results/series" docs/plots --page docs/benchmark-runs.md \
        --other "$results/real" --other "$results/far" --other "$results/idle"
    xargs -d '\n' rm -rf < "$results/left"
    exit
fi
runs="${1:-4}"
[ $# -eq 0 ] || shift
measure --runs "$runs" --counts "$*"

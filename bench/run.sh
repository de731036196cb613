#!/bin/sh
# Measures Sealpost beside Dovecot and writes the tables of docs/benchmarks.md. Arguments go to `compare`:
#   bench/run.sh --runs 3 --only LMTP --only SELECT
#   bench/run.sh --only siege
#   bench/run.sh --all            (with the mailbox of 100,000, which takes many minutes to fill)
# CARGO_TARGET_DIR is honoured; without Dovecot only Sealpost is measured.
set -eu
cd "$(dirname "$0")/.."
target="${CARGO_TARGET_DIR:-target}/release"
cargo build --release --quiet -p sealpost -p sealpost-bench
dovecot=""
if command -v dovecot >/dev/null 2>&1; then dovecot="--dovecot"; else echo "bench: Dovecot is not installed" >&2; fi
# The page and the results change only in a full run.
record="--write docs/benchmarks.md --json $target/benchmarks.json"
for argument in "$@"; do [ "$argument" = "--only" ] && record=""; done
# shellcheck disable=SC2086 # both are lists of words or empty
exec "$target/sealpost-bench" compare --sealpost "$target/sealpost" $dovecot $record "$@"

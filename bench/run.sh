#!/bin/sh
# Measures Sealpost beside Dovecot and writes the tables of docs/benchmarks.md. Arguments go to `sealpost-bench compare`:
#   bench/run.sh --runs 3 --only LMTP --only SELECT
#   bench/run.sh --only idle --only crowd      (what connections cost; thousands of hostile clients)
#   bench/run.sh --all                         (with the mailbox of 100,000, which takes many minutes to fill)
# CARGO_TARGET_DIR is honoured; without Dovecot only Sealpost is measured. With --only nothing is written.
set -eu
cd "$(dirname "$0")/.."
page=docs/benchmarks.md
target="${CARGO_TARGET_DIR:-target}/release"
cargo build --release --quiet -p sealpost -p sealpost-bench
bench="$target/sealpost-bench"
dovecot=""
if command -v dovecot >/dev/null 2>&1; then dovecot="--dovecot"; else echo "bench: Dovecot is not installed" >&2; fi

# Which parts: all of them, or those that are named.
only=no compare=yes idle=yes crowd=yes previous=""
for argument in "$@"; do
    if [ "$previous" = "--only" ]; then
        if [ "$only" = no ]; then only=yes compare=no idle=no crowd=no; fi
        case "$argument" in idle) idle=yes ;; crowd) crowd=yes ;; *) compare=yes ;; esac
    fi
    previous="$argument"
done
began=$(date +%s)

if [ "$compare" = yes ]; then
    record="--write $page --json $target/benchmarks.json"
    [ "$only" = no ] || record=""
    # shellcheck disable=SC2086 # both are lists of words or empty
    "$bench" compare --sealpost "$target/sealpost" $dovecot $record "$@"
fi

# What follows prints lines; they go between markers of their own.
lines=$(mktemp)
trap 'rm -f "$lines"' EXIT
say() {
    printf '\n$ sealpost-bench %s\n' "$*" | tee -a "$lines"
    "$bench" "$@" --sealpost "$target/sealpost" 2>&1 | tee -a "$lines"
}
if [ "$idle" = yes ]; then
    say idle --connections 1000 --silence 10
    say idle --connections 1000 --silence 10 --tls
    # That many are let in by a server with more memory than it has by default.
    say idle --connections 10000 --silence 10 --memory 768MiB
fi
if [ "$crowd" = yes ]; then
    say crowd --hold 10
    say crowd --hold 10 --memory 64MiB
fi
echo "bench: $((($(date +%s) - began) / 60)) minutes"
[ "$only" = no ] || exit 0
awk -v lines="$lines" '
    /^<!-- begin generated: connections -->$/ {
        print; print "\n```text"
        while ((getline line < lines) > 0) if (line != "" || seen++) print line
        print "```\n"; skip = 1
    }
    /^<!-- end generated -->$/ { skip = 0 }
    !skip' "$page" > "$page.new"
mv "$page.new" "$page"

#!/bin/sh
# Measures Sealpost beside Dovecot and writes the sections of docs/benchmarks.md and docs/benchmark-runs.md.
#   bench/run.sh                               all but what takes an hour
#   bench/run.sh --all                         all: with the mailboxes of 100,000 and of a million, which take many minutes to fill
#   bench/run.sh tables --all                  only the tables; what follows goes to `sealpost-rig compare`
#   bench/run.sh connections                   only what connections cost, and thousands of hostile clients
#   bench/run.sh clients                       only what clients send: every command of a trace over whole mailboxes
#   bench/run.sh million                       only a mailbox of a million messages
#   bench/run.sh --runs 3 --only LMTP          a part of the tables; writes nothing
# CARGO_TARGET_DIR is honoured; without Dovecot only Sealpost is measured.
set -eu
cd "$(dirname "$0")/.."
page=docs/benchmarks.md
# The output of long runs, which the page summarizes.
runs=docs/benchmark-runs.md
CARGO_TARGET_DIR=$(.ci/target-dir)
export CARGO_TARGET_DIR
target=$CARGO_TARGET_DIR/release

tables=yes connections=yes clients=yes million=no write=yes
mailboxes=small:1000,small:10000,personal:1000
case "${1:-}" in
    tables) connections=no clients=no; shift ;;
    connections) tables=no clients=no; shift ;;
    clients) tables=no connections=no; shift ;;
    million) tables=no connections=no clients=no million=yes; shift ;;
esac
for argument in "$@"; do
    case "$argument" in
        --only) connections=no clients=no million=no write=no ;;
        --all)
            case "$tables$connections" in yesno | nono) ;; *) million=yes ;; esac
            mailboxes=small:1000,small:10000,small:100000,personal:1000,personal:10000
            ;;
    esac
done

cargo build --release --quiet --workspace --bins
bench="$target/sealpost-rig"
peers=""
if command -v dovecot >/dev/null 2>&1; then peers="--dovecot"; else echo "bench: Dovecot is not installed" >&2; fi
lines=$(mktemp)
trap 'rm -f "$lines"' EXIT
began=$(date +%s)

# What prints lines: they go between markers of their own, whatever came of them.
say() {
    printf '\n$ sealpost-rig %s\n' "$*" | tee -a "$lines"
    # How far a fill is, is for whoever waits for it.
    "$bench" "$@" --sealpost "$target/sealpost" 2>&1 | tee -a /dev/stderr | sed '/ messages are there$/d' >> "$lines"
}

# Puts the lines between the markers called $1 and forgets them.
put() {
    printf '\n(%s minutes)\n' "$((($(date +%s) - part) / 60))" >> "$lines"
    awk -v lines="$lines" -v begin="<!-- begin generated: $1 -->" '
        $0 == begin {
            print; print "\n```text"
            while ((getline line < lines) > 0) if (line != "" || seen++) print line
            print "```\n"; skip = 1
        }
        /^<!-- end generated -->$/ { skip = 0 }
        !skip' "$runs" > "$runs.new"
    mv "$runs.new" "$runs"
    : > "$lines"
}

if [ "$tables" = yes ]; then
    record=""
    [ "$write" = no ] || record="--write $page --json $target/benchmarks.json"
    # shellcheck disable=SC2086 # both are lists of words or empty
    "$bench" compare --sealpost "$target/sealpost" $peers $record "$@"
fi
if [ "$connections" = yes ]; then
    part=$(date +%s)
    say idle --connections 1000
    say idle --connections 1000 --tls
    say idle --connections 10000
    say crowd --hold 10 --rounds 3
    say crowd --hold 10 --rounds 3 --memory 64MiB
    put connections
fi
if [ "$clients" = yes ]; then
    # shellcheck disable=SC2086 # a list of words or empty
    "$bench" clients --sealpost "$target/sealpost" $peers --mailboxes "$mailboxes" \
        --write "$page" --write-runs "$runs" --json "$target/clients.json"
fi
if [ "$million" = yes ]; then
    part=$(date +%s)
    say million
    put million
fi
echo "bench: $((($(date +%s) - began) / 60)) minutes"

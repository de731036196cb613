#!/bin/sh
# Fuzzes one target for some seconds: fuzz/run.sh TARGET SECONDS [libFuzzer options]
#
# Works with the stable toolchain: without a sanitizer cargo-fuzz needs nothing unstable, and as unsafe code is forbidden
# here, panics and broken promises are what there is to find. SANITIZER=address needs nightly.
set -eu
if [ $# -lt 2 ]; then
    echo "usage: fuzz/run.sh TARGET SECONDS [libFuzzer options]" >&2
    echo "targets: $(sed -n 's/^name = "\([a-z0-9_]*\)"$/\1/p' "$(dirname "$0")/Cargo.toml" | tr '\n' ' ')" >&2
    exit 2
fi
target=$1
seconds=$2
shift 2
cd "$(dirname "$0")"
command -v cargo-fuzz >/dev/null || {
    echo "cargo-fuzz is not installed: cargo install cargo-fuzz --locked" >&2
    exit 1
}
# Kept inputs are the seeds; what is found new stays in fuzz/corpus, which is not checked in.
mkdir -p "corpus/$target"
# A target is built with its own crate alone.
feature=$(grep -A2 "^name = \"$target\"$" Cargo.toml | sed -n 's/^required-features = \["\(.*\)"\]$/\1/p')
seeds=$(echo ../crates/*/tests/corpus/"$target")
[ -d "$seeds" ] || seeds=
# shellcheck disable=SC2086 # $seeds is one path without spaces, or nothing
exec cargo fuzz run --fuzz-dir . --features "$feature" --sanitizer "${SANITIZER:-none}" "$target" "corpus/$target" $seeds -- \
    -max_total_time="$seconds" -max_len=16384 -timeout=10 -rss_limit_mb=1024 "$@"

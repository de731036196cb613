#!/bin/sh
# Measures how fast mail goes through Sealpost, Postfix, Exim, OpenSMTPD and Haraka: see bench/send.py --help.
set -eu
cd "$(dirname "$0")/.."
CARGO_TARGET_DIR=$(.ci/target-dir)
export CARGO_TARGET_DIR
cargo build --release --quiet -p sealpost
exec python3 bench/send.py --sealpost "$CARGO_TARGET_DIR/release/sealpost" "$@"

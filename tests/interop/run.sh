#!/bin/sh
# Builds the server, installs the clients where it may, and runs every check against it.
set -eu
cd "$(dirname "$0")/../.."
CARGO_TARGET_DIR=$(.ci/target-dir)
export CARGO_TARGET_DIR
target=$CARGO_TARGET_DIR/release
cargo build --release --quiet -p sealpost
tests/interop/install.sh
exec python3 tests/interop/run.py --sealpost "$target/sealpost" "$@"

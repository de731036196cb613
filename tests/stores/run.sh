#!/bin/sh
# Builds the stores if they are not there, a debug binary, and runs the checks: see run.py.
set -eu
cd "$(dirname "$0")/../.."
CARGO_TARGET_DIR=$(.ci/target-dir)
export CARGO_TARGET_DIR
tests/stores/install.sh
echo "stores: building Sealpost, if it is not"
cargo build --quiet -p sealpost
exec python3 tests/stores/run.py --sealpost "$CARGO_TARGET_DIR/debug/sealpost" "$@"

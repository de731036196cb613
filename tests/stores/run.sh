#!/bin/sh
# Builds the stores if they are not there, a debug binary, and runs the checks: see run.py.
set -eu
cd "$(dirname "$0")/../.."
tests/stores/install.sh
echo "stores: building Sealpost, if it is not"
cargo build --quiet -p sealpost
exec python3 tests/stores/run.py --sealpost "${CARGO_TARGET_DIR:-target}/debug/sealpost" "$@"

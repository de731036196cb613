#!/bin/sh
# Kills a real server under load with SIGKILL and verifies what it acknowledged: KILLS times (default 200).
# On failure the last lines name the data's directory and the command that runs it again.
set -eu
cd "$(dirname "$0")/../.."
CARGO_TARGET_DIR=$(.ci/target-dir)
export CARGO_TARGET_DIR
target=$CARGO_TARGET_DIR/release
cargo build --release --quiet -p sealpost -p sealpost-rig
exec "$target/sealpost-rig" crash --sealpost "$target/sealpost" --kills "${KILLS:-200}" ${SEED:+--seed "$SEED"} "$@"

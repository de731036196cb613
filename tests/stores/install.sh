#!/bin/bash
# Builds the stores that `make stores` runs against, from their sources in the public registries, once: into the cache
# directory of this user, beside everything else that is built. Says what cannot be had; that is not an error, the checks
# then run with what there is.
#
# Not the releases that their authors publish: less is compiled in (no telemetry, no LMDB) and it is optimised less, because
# it is built more often than it runs.
set -uo pipefail

CACHE="${XDG_CACHE_HOME:-$HOME/.cache}/sealpost"
ROOT="$CACHE/stores"
GARAGE=2.5.0
VERSITY=v1.8.0
AZURITE=3.35.0
mkdir -p "$ROOT/bin"

missing=0
say() { echo "stores: $*"; }
# Whether there is the program $1, which $2 needs.
has() {
    command -v "$1" >/dev/null && return
    say "$2 is left out: it needs $1, which is not installed"
    missing=1
    return 1
}

if [ ! -x "$ROOT/bin/garage" ] && has cargo Garage; then
    say "building Garage $GARAGE, once; that takes several minutes (what it does: $ROOT/garage.log)"
    # Its own target directory: RUSTC_WRAPPERs and flags of this project are not for it.
    if env -u RUSTC_WORKSPACE_WRAPPER -u CLIPPY_ARGS -u RUSTFLAGS \
        CARGO_PROFILE_RELEASE_OPT_LEVEL=1 CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_DEBUG=0 \
        CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 CARGO_TARGET_DIR="$ROOT/target-garage" \
        nice -n 19 cargo install garage --version "$GARAGE" --locked --root "$ROOT" \
        --no-default-features --features bundled-libs,sqlite >"$ROOT/garage.log" 2>&1; then
        rm -rf "$ROOT/target-garage"
    else
        say "Garage could not be built: $ROOT/garage.log"
        missing=1
    fi
fi

if [ ! -x "$ROOT/bin/versitygw" ] && has go "Versity S3 Gateway"; then
    say "building Versity S3 Gateway $VERSITY, once; that takes a few minutes (what it does: $ROOT/versitygw.log)"
    if ! GOBIN="$ROOT/bin" nice -n 19 go install -p 1 "github.com/versity/versitygw/cmd/versitygw@$VERSITY" \
        >"$ROOT/versitygw.log" 2>&1; then
        say "Versity S3 Gateway could not be built: $ROOT/versitygw.log"
        missing=1
    fi
fi

if [ ! -x "$ROOT/azurite/node_modules/.bin/azurite-blob" ] && has npm Azurite; then
    say "installing Azurite $AZURITE, once"
    if ! nice -n 19 npm install --no-audit --no-fund --prefix "$ROOT/azurite" "azurite@$AZURITE" >"$ROOT/azurite.log" 2>&1; then
        say "Azurite could not be installed: $ROOT/azurite.log"
        missing=1
    fi
fi

[ "$missing" = 0 ] && say "ready in $ROOT/bin"
exit 0

#!/bin/sh
# Installs the mail clients that run.py drives, with apt-get. Without root it says so and leaves them out:
# run.py then skips their checks and names them.
set -eu
# swaks speaks TLS only with a module that it does not depend on.
packages="isync neomutt swaks libnet-ssleay-perl curl ca-certificates haproxy"
missing=""
for package in $packages; do
    dpkg -s "$package" >/dev/null 2>&1 || missing="$missing $package"
done
if [ -z "$missing" ]; then
    exit 0
fi
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null 2>&1; then
    echo "interop: not installed and not root:$missing; their checks will be skipped" >&2
    exit 0
fi
apt-get update -qq || true
# shellcheck disable=SC2086 # a list of package names
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing ||
    echo "interop: could not install$missing; their checks will be skipped" >&2

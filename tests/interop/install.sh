#!/bin/sh
# Installs the mail clients that run.py drives, with apt-get, after it has said so. Without root, or with INTEROP_INSTALL=no, it
# leaves them out: run.py then skips their checks and names them. No service is started or left enabled by it.
set -eu
# A JMAP client, in a directory of its own.
npm_clients="${XDG_CACHE_HOME:-$HOME/.cache}/sealpost/npm"
if [ ! -d "$npm_clients/node_modules/jmap-jam" ] && [ "${INTEROP_INSTALL:-yes}" != no ] && command -v npm >/dev/null 2>&1; then
    echo "interop: installing jmap-jam with npm into $npm_clients" >&2
    npm install --silent --no-audit --no-fund --prefix "$npm_clients" jmap-jam@0.13.1 >&2 ||
        echo "interop: could not install jmap-jam; its checks will be skipped" >&2
fi
# swaks speaks TLS only with a module that it does not depend on.
packages="isync neomutt swaks libnet-ssleay-perl curl ca-certificates haproxy msmtp python3-dkim python3-nacl"
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
if [ "${INTEROP_INSTALL:-yes}" = no ]; then
    echo "interop: not installed (INTEROP_INSTALL=no):$missing; their checks will be skipped" >&2
    exit 0
fi
echo "interop: installing with apt-get:$missing (INTEROP_INSTALL=no leaves them out and skips their checks)" >&2

# What the system starts at boot: units of systemd, and init scripts.
enabled() {
    find /etc/systemd/system /etc/rc[2-5].d -type l 2>/dev/null | grep -E '\.(wants|requires)/|/S[0-9]' | sort || true
}
policy=/usr/sbin/policy-rc.d
ours=""
before=$(mktemp)
tidy() {
    [ -z "$ours" ] || rm -f "$policy"
    rm -f "$before"
}
trap tidy EXIT
trap 'exit 1' HUP INT TERM
enabled > "$before"
# Debian starts the service of a package that is installed, unless this program says no (invoke-rc.d, deb-systemd-invoke).
if [ ! -e "$policy" ] && printf '#!/bin/sh\nexit 101\n' > "$policy"; then
    ours=yes
    chmod 755 "$policy"
fi
apt-get update -qq || true
# shellcheck disable=SC2086 # a list of package names
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing ||
    echo "interop: could not install$missing; their checks will be skipped" >&2
# And enables it for the next boot.
enabled | comm -13 "$before" - | sed -E 's|.*/||; s|^S[0-9]+||; s|\.service$||' | sort -u | while read -r service; do
    echo "interop: $service is not to be started at boot: disabled" >&2
    update-rc.d "$service" disable >/dev/null 2>&1 || true
    systemctl disable "$service" >/dev/null 2>&1 || true
done

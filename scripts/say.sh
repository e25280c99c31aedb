# shellcheck shell=bash
# Sourced: how the scripts talk.

say() { printf '==> %s\n' "$*" >&2; }

die() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}

# Runs a command as root: as it is, or through sudo where that asks no question.
as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

can_be_root() {
    [ "$(id -u)" = 0 ] || { command -v sudo >/dev/null && sudo -n true 2>/dev/null; }
}

# The project's cache folder. Root's PostgreSQL runs as another account, which can't look into /root.
cache_folder() {
    if [ "$(id -u)" = 0 ]; then
        echo /var/cache/answerable
    else
        echo "${XDG_CACHE_HOME:-$HOME/.cache}/answerable"
    fi
}

# Installs Debian packages, or fails; what apt says is shown only if it fails.
apt_install() {
    command -v apt-get >/dev/null && can_be_root || return 1
    local log status=0
    log=$(mktemp)
    say "installing with apt-get: $*"
    if ! apt_quietly install -y --no-install-recommends "$@" >"$log" 2>&1; then
        # The package lists may be missing or old, as they are on a fresh machine.
        apt_quietly update >>"$log" 2>&1
        apt_quietly install -y --no-install-recommends "$@" >>"$log" 2>&1 || status=1
    fi
    [ "$status" = 0 ] || tail -n 15 "$log" >&2
    rm -f "$log"
    return "$status"
}

apt_quietly() {
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=120 "$@" </dev/null
}

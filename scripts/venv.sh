# shellcheck shell=bash
# Sourced after say.sh: Python packages that a script needs, in a venv of its own outside the tree.

# Sets VENV to a venv with these requirements, each as pip takes it on its command line; made anew when they change.
#   need_venv NAME REQUIREMENT…       a requirement may be `-r FILE`: then the file's content counts
need_venv() {
    local name=$1 wanted
    shift
    VENV=$(cache_folder)/$name-venv
    wanted=$(printf '%s\n' "$@"; for word in "$@"; do [ ! -f "$word" ] || cat "$word"; done)
    [ "$(cat "$VENV/installed.txt" 2>/dev/null)" = "$wanted" ] && return
    say "installing what $name needs into $VENV"
    rm -rf "$VENV"
    mkdir -p "$(dirname "$VENV")"
    command -v python3 >/dev/null || apt_install python3 || die "python3 is not here"
    python3 -m venv "$VENV" >/dev/null 2>&1 || { apt_install python3-venv && python3 -m venv "$VENV"; } ||
        die "python3 can make no venv: install python3-venv"
    timeout 600 "$VENV/bin/python" -m pip install -q --disable-pip-version-check "$@" >&2 || die "pip can't install what $name needs"
    echo "$wanted" >"$VENV/installed.txt"
}

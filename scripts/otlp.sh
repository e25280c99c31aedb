#!/usr/bin/env bash
# Lets real receivers of OpenTelemetry's protocol judge what the server exports: oteltap and rotel get exactly what the
# runs' traces show, over HTTP and gRPC, and Arize Phoenix shows each run as an agent's tree. tests/otlp/ has the checks.
#
#   scripts/otlp.sh [receivers|phoenix [CASE…]]
#
# Ends by itself: two minutes for the receivers, one for Phoenix, beside the build and what it installs once (900 MB for
# Phoenix, in the project's cache folder, outside the tree). Not part of CI, for that size.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
exec </dev/null
. scripts/prepare.sh
. scripts/cluster.sh
need_postgres

VENVS=$(cache_folder)/otlp
export PYTHONDONTWRITEBYTECODE=1

only=${1:-}
shift || true
case $only in '' | receivers | phoenix) ;; *) die "there are \`receivers\` and \`phoenix\`, and no \`$only\`" ;; esac

# A Python that the packages run with: Phoenix wants 3.11 to 3.14.
find_python() {
    local python
    for python in python3 python3.14 python3.13 python3.12 python3.11; do
        "$python" -c "import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15))" 2>/dev/null && echo "$python" && return 0
    done
    return 1
}

# A venv of its own for each of the two, made anew when what it needs changes.
need_venv() {
    local name=$1 venv=$VENVS/$1 wanted=tests/otlp/$1.txt
    cmp -s "$wanted" "$venv/installed.txt" && return
    local python
    python=$(find_python) || { apt_install python3 && python=$(find_python); } || die "Python 3.11, or one up to 3.14, is not here"
    say "installing what tests/otlp/$name.py needs into $venv"
    rm -rf "$venv"
    mkdir -p "$VENVS"
    "$python" -m venv "$venv" >/dev/null 2>&1 || { apt_install python3-venv && "$python" -m venv "$venv"; } ||
        die "$python can make no venv: install python3-venv"
    timeout 900 "$venv/bin/python" -m pip install -q --disable-pip-version-check -r "$wanted" >&2 || die "pip can't install $wanted"
    cp "$wanted" "$venv/installed.txt"
}

# Waited for in the background, so that a signal is heard at once. It ends what it started itself.
play() {
    local name=$1 seconds=$2 status=0
    shift 2
    say "$name"
    timeout -k 30 "$seconds" "$VENVS/$name/bin/python" "tests/otlp/$name.py" "$PROGRAM" "$ANSWERABLE_PG_BIN" "$CLUSTER" "$@" &
    CHECK=$!
    wait "$CHECK" || status=$?
    CHECK=
    return "$status"
}

cleanup() {
    if [ -n "${CHECK:-}" ] && kill "$CHECK" 2>/dev/null; then wait "$CHECK" || true; fi
    stop_cluster
    rm -rf "${FOLDER:-}"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

command -v openssl >/dev/null || apt_install openssl || die "openssl is not here"
[ "$only" = phoenix ] || need_venv receivers
[ "$only" = receivers ] || need_venv phoenix
say "building the server"
cargo build --locked -p answerable
# A build meanwhile must not change the program under the checks.
FOLDER=$(mktemp -d "${TMPDIR:-/tmp}/answerable-otlp-program-XXXXXX")
PROGRAM=$FOLDER/answerable
cp "$(target_folder)/debug/answerable" "$PROGRAM"
start_cluster
status=0
[ "$only" = phoenix ] || play receivers 600 "$@" || status=1
[ "$only" = receivers ] || play phoenix 420 || status=1
exit "$status"

#!/usr/bin/env bash
# Asks a server of its own, on a private PostgreSQL, all that schemathesis makes of openapi.yaml, and judges each answer: first
# the tenant's operations with a tenant's key, then the operator's. The seed is fixed, and so are the ids that it is given; only
# what follows from answers differs from run to run. tests/schemathesis/ says what is left out and why.
#
#   scripts/schemathesis.sh [EXAMPLES [OPTION…]]     examples of each operation, 8; options go to `schemathesis run`
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
exec </dev/null
. scripts/prepare.sh
. scripts/cluster.sh
. scripts/venv.sh
need_postgres

examples=${1:-8}
case $examples in '' | *[!0-9]*) die "schemathesis.sh EXAMPLES: \"$examples\" is no number" ;; esac
shift $(($# > 0))
export PYTHONDONTWRITEBYTECODE=1
need_venv schemathesis --require-hashes -r tests/schemathesis/requirements.txt

cleanup() {
    if [ -n "${SERVER:-}" ] && kill "$SERVER" 2>/dev/null; then wait "$SERVER" || true; fi
    stop_cluster
    rm -rf "${FOLDER:-}"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

random_hex() { head -c 32 /dev/urandom | od -An -v -tx1 | tr -d ' \n'; }

start_server() {
    cluster_psql postgres -c 'CREATE DATABASE schemathesis TEMPLATE template0'
    local address
    address=127.0.0.1:$("$VENV/bin/python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
    DATABASE_URL=$(cluster_url schemathesis)
    ANSWERABLE_SECRET_KEY=$(random_hex)
    ANSWERABLE_OPERATOR_KEY=$(random_hex)
    export DATABASE_URL ANSWERABLE_SECRET_KEY ANSWERABLE_OPERATOR_KEY ANSWERABLE_LISTEN=$address
    export ANSWERABLE_EGRESS_ALLOW=127.0.0.0/8 SCHEMATHESIS_URL=http://$address
    say "starting the server at $address; its log is $LOG"
    "$FOLDER/answerable" serve >"$LOG" 2>&1 &
    SERVER=$!
}

# Operations that the first option chooses.
judge() {
    say "schemathesis: $1"
    local status=0
    timeout -k 20 "${SCHEMATHESIS_SECONDS:-900}" "$VENV/bin/schemathesis" --config-file "$FOLDER/schemathesis.toml" run openapi.yaml \
        --max-examples "$examples" "${@:2}" >&2 || status=$?
    kill -0 "$SERVER" || die "the server is gone: see $LOG"
    return "$status"
}

say "building the server"
cargo build --locked --quiet -p answerable
FOLDER=$(mktemp -d "${TMPDIR:-/tmp}/answerable-schemathesis-XXXXXX")
LOG=${SCHEMATHESIS_LOG:-$(target_folder)/schemathesis-server.log}
# A build meanwhile must not change the program under the checks.
cp "$(target_folder)/debug/answerable" "$FOLDER/answerable"
start_cluster
start_server
"$VENV/bin/python" tests/schemathesis/seed.py "$SCHEMATHESIS_URL" "$FOLDER"
cp tests/schemathesis/schemathesis.toml "$FOLDER"
SCHEMATHESIS_HOOKS=$PWD/tests/schemathesis/hooks.py
SCHEMATHESIS_IDS=$FOLDER/ids.json
SCHEMATHESIS_KEY=$(cat "$FOLDER/key")
export SCHEMATHESIS_HOOKS SCHEMATHESIS_IDS SCHEMATHESIS_KEY
status=0
judge "a tenant's operations, and those without a key" --exclude-path-regex '^/v1/tenants' "$@" || status=1
judge "the operator's operations" --include-path-regex '^/v1/tenants' "$@" || status=1
if grep -E ' ERROR |panicked' "$LOG" >&2; then
    say "the server's log tells of errors"
    status=1
fi
exit "$status"

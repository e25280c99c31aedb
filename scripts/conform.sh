#!/usr/bin/env bash
# Plays the conformance cases that tests/conform.list names against a server of its own, on a
# private PostgreSQL.
#
#   scripts/conform.sh [FOLDER [OPTION…]]      FOLDER has conform.py and cases/; default ../shared/conform
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/prepare.sh
. scripts/cluster.sh
folder=${1:-../shared/conform}
shift || true
[ -f "$folder/conform.py" ] || die "$folder has no conform.py"

cases=()
while read -r name; do
    case $name in '' | '#'*) continue ;; esac
    [ -f "$folder/cases/$name" ] || die "tests/conform.list names $name, which is not in $folder/cases"
    cases+=("$folder/cases/$name")
done <tests/conform.list
[ "${#cases[@]}" -gt 0 ] || die "tests/conform.list names no case file"

# Prints a Python that can read YAML.
python_with_yaml() {
    local python venv
    venv=$(cache_folder)/conform-venv
    for python in python3 /usr/bin/python3 "$venv/bin/python"; do
        "$python" -c 'import yaml' 2>/dev/null && echo "$python" && return 0
    done
    if apt_install python3 python3-yaml && /usr/bin/python3 -c 'import yaml'; then
        echo /usr/bin/python3
    else
        python3 -m venv "$venv" >&2 && "$venv/bin/python" -m pip install -q pyyaml >&2 && echo "$venv/bin/python"
    fi
}

need_postgres
python=$(python_with_yaml) || die "no Python with PyYAML, and none could be installed"
say "building the server"
cargo build --locked --quiet -p answerable
server=$(target_folder)/debug/answerable
trap stop_cluster EXIT
start_cluster
cluster_psql postgres -c 'CREATE DATABASE conform TEMPLATE template0'

address=127.0.0.1:$("$python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
DATABASE_URL=$(cluster_url conform)
# Any 32 bytes will do: the server and what it encrypts are gone in a moment.
ANSWERABLE_SECRET_KEY=$(head -c 32 /dev/urandom | od -An -v -tx1 | tr -d ' \n')
export DATABASE_URL ANSWERABLE_SECRET_KEY ANSWERABLE_LISTEN=$address
# The runner plays models and tools on loopback; a short lease makes crashes quick to get over.
export ANSWERABLE_EGRESS_ALLOW=127.0.0.0/8 ANSWERABLE_LEASE_MS=1500

log=${CONFORM_LOG:-$(target_folder)/conform-server.log}
: >"$log"
say "playing ${cases[*]##*/} against $address; the server's log is $log"
"$python" -u "$folder/conform.py" --base-url "http://$address" --serve "$server serve" --log "$log" "$@" "${cases[@]}"

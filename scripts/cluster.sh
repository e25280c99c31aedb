# shellcheck shell=bash
# Sourced after prepare.sh and need_postgres: a private PostgreSQL for as long as the script runs.
#
# start_cluster sets CLUSTER, a temporary folder; stop_cluster ends it and is to be called by the
# script's EXIT trap. The server listens on a Unix socket in that folder only.

# PostgreSQL refuses to run as root: then another account does it, and owns the folder.
as_postgres() {
    if [ "$(id -u)" != 0 ]; then
        "$@"
    elif id postgres >/dev/null 2>&1; then
        setpriv --reuid=postgres --regid="$(id -g postgres)" --clear-groups "$@"
    else
        setpriv --reuid=65534 --regid=65534 --clear-groups "$@"
    fi
}

start_cluster() {
    CLUSTER=$(mktemp -d "${TMPDIR:-/tmp}/answerable-cluster-XXXXXX")
    if [ "$(id -u)" = 0 ]; then
        chown "$(id -u postgres 2>/dev/null || echo 65534)" "$CLUSTER"
    fi
    say "starting a private PostgreSQL in $CLUSTER"
    (
        cd "$CLUSTER"
        as_postgres "$ANSWERABLE_PG_BIN/initdb" -D data -U postgres -A trust -E UTF8 --locale=C.UTF-8 --no-sync >initdb.log 2>&1 ||
            { cat initdb.log >&2 && exit 1; }
        as_postgres "$ANSWERABLE_PG_BIN/pg_ctl" -D data -l "$CLUSTER/data/log" -w -t 60 \
            -o "-c listen_addresses='' -c unix_socket_directories='$CLUSTER' -c fsync=off -c max_connections=200" start >/dev/null ||
            { cat data/log >&2 && exit 1; }
    ) || die "the private PostgreSQL did not start"
}

stop_cluster() {
    [ -n "${CLUSTER:-}" ] || return 0
    (cd "$CLUSTER" && as_postgres "$ANSWERABLE_PG_BIN/pg_ctl" -D data -w -m immediate stop >/dev/null 2>&1) || true
    rm -rf "$CLUSTER"
    CLUSTER=
}

# The URL of a database on the cluster.
cluster_url() {
    echo "postgres://postgres@localhost:5432/$1?host=${CLUSTER//\//%2F}&sslmode=disable"
}

# psql on a database of the cluster; stops at the first error.
cluster_psql() {
    local database=$1
    shift
    "$ANSWERABLE_PG_BIN/psql" -X -q -v ON_ERROR_STOP=1 -h "$CLUSTER" -p 5432 -U postgres -d "$database" "$@"
}

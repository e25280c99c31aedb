#!/usr/bin/env bash
# Checks that .sqlx says what the migrations and the queries of crates/store say today; with
# --write makes it so. A private PostgreSQL is migrated and the crate is checked against it: the
# query macros then describe every query anew into a folder, which is compared with .sqlx.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/prepare.sh
. scripts/cluster.sh
need_postgres

fresh=$(mktemp -d)
# The macros only look again when cargo compiles again, so the sources are touched; they get their
# time back, or the next build would compile them and all that follows once more.
times=$(mktemp -d)
sources=(crates/store/src/lib.rs)
[ ! -d crates/store/tests ] || mapfile -t -O 1 sources < <(find crates/store/tests -maxdepth 1 -name '*.rs')

finish() {
    for at in "${!sources[@]}"; do
        [ ! -e "$times/$at" ] || touch -r "$times/$at" "${sources[$at]}"
    done
    stop_cluster
    rm -rf "$fresh" "$times"
}
trap finish EXIT

start_cluster
cluster_psql postgres -c 'CREATE DATABASE fresh TEMPLATE template0'
for migration in migrations/*.sql; do
    cluster_psql fresh --single-transaction -o /dev/null -f "$migration"
done

say "describing every query of crates/store against the migrated database"
for at in "${!sources[@]}"; do
    touch -r "${sources[$at]}" "$times/$at"
    touch "${sources[$at]}"
done
SQLX_OFFLINE=false DATABASE_URL=$(cluster_url fresh) SQLX_OFFLINE_DIR=$fresh \
    cargo check --locked --quiet -p answerable-store --all-targets
count=$(find "$fresh" -name 'query-*.json' | wc -l)
[ "$count" -gt 0 ] || die "no query was described"

if [ "${1:-}" = --write ]; then
    mkdir -p .sqlx
    find .sqlx -name 'query-*.json' -delete
    cp "$fresh"/query-*.json .sqlx/
    say ".sqlx has $count queries now"
elif diff -r -q "$fresh" .sqlx >&2; then
    say ".sqlx is fresh: $count queries"
else
    die ".sqlx is stale; run \`make sqlx\` and commit what changes"
fi

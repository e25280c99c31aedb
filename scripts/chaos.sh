#!/usr/bin/env bash
# Plays a round of faults against several servers on one database, judged by an outside witness.
#
#   CHAOS_SECONDS=600  how long faults are made
#   CHAOS_SEED=N       all choices follow from it; random where it is not set
#   CHAOS_ONLY=A,B     these kinds of faults alone
#   CHAOS_DIR=FOLDER   where logs are kept; else a temporary folder, which stays when the round is red
#
# Arguments go to answerable-chaos: --list shows the kinds of faults.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/prepare.sh
need_postgres

# Without them the faults that need them are skipped, and say so.
optional() {
    local there=$1 package=$2
    compgen -G "$there" >/dev/null || apt_install "$package" || say "$package is not here and could not be installed"
}
optional '/usr/lib/*/faketime/libfaketimeMT.so.1' faketime
optional '/usr/sbin/pgbouncer' pgbouncer

scripts/faults.sh
cargo build --locked -p answerable-chaos
chaos=$(target_folder)/debug/answerable-chaos
[ "${1:-}" != mutants ] || exec "$chaos" "$@"
options=(--seconds "${CHAOS_SECONDS:-600}")
[ -z "${CHAOS_SEED:-}" ] || options+=(--seed "$CHAOS_SEED")
[ -z "${CHAOS_ONLY:-}" ] || options+=(--only "$CHAOS_ONLY")
[ -z "${CHAOS_DIR:-}" ] || options+=(--dir "$CHAOS_DIR")
exec "$chaos" "${options[@]}" "$@"

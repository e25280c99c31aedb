#!/usr/bin/env bash
# Real servers under load, as they are released, and what is measured of them.
#
#   scripts/load.sh                      all loads that say by themselves whether they are fast enough
#   scripts/load.sh fairness --help      one of them (tests/load/src/bin), with its arguments
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/prepare.sh
need_postgres
say "building Answerable and the loads, as they are released"
cargo build --locked --release -p answerable
cargo build --locked --release -p answerable-load
loads=$(target_folder)/release
if [ $# -gt 0 ]; then
    load=$1
    shift
    exec "$loads/$load" "$@"
fi
"$loads/fairness"
"$loads/fairness" --weights 1:4
"$loads/streams"
"$loads/schedules"

#!/usr/bin/env bash
# Builds Answerable and plays our own eval cases. Arguments go to `answerable eval`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/prepare.sh
need_postgres
say "building Answerable"
cargo build --locked -p answerable
exec env -u ANSWERABLE_URL "$(target_folder)/debug/answerable" eval tests/evals "$@"

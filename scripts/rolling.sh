#!/usr/bin/env bash
# Plays a rolling upgrade: builds an older version, and lets its servers and today's share a database.
#
#   scripts/rolling.sh [COMMIT]      default: the one in tests/rolling.from
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/prepare.sh
from=${1:-$(grep -v '^#' tests/rolling.from)}
need_postgres

# Sources and target folder of its own: cargo would take one version's crates for the other's.
folder=$(cache_folder)/rolling/$from
if [ ! -x "$folder/answerable" ]; then
    say "building the version of $from"
    rm -rf "$folder"
    mkdir -p "$folder/source"
    git archive "$from" | tar -x -C "$folder/source"
    CARGO_TARGET_DIR=$folder/target cargo build --locked --quiet -p answerable --manifest-path "$folder/source/Cargo.toml"
    cp "$folder/target/debug/answerable" "$folder/answerable"
    rm -rf "$folder/source" "$folder/target"
fi
say "rolling from $from"
cargo build --locked -p answerable
ANSWERABLE_OLD_BINARY=$folder/answerable cargo test --locked -p answerable-tests rolling -- --ignored

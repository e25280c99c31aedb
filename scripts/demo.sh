#!/usr/bin/env bash
# Builds what the demo needs and runs it. Arguments go to `order-desk demo`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/prepare.sh
need_postgres
say "building Answerable and the order desk (the first time takes a few minutes)"
cargo build --locked -p answerable -p order-desk
exec "$(target_folder)/debug/order-desk" demo "$@"

#!/usr/bin/env bash
# Runs the whole test suite. Arguments go to `cargo test`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/prepare.sh
need_postgres
need_mcp_servers
say "building and running all tests"
# Tests that drive a server start the real program; those that break it start one that can die at named points. This
# builds both.
scripts/faults.sh
exec cargo test --locked --workspace "$@"

#!/usr/bin/env bash
# Formatting, the edges between crates, lints.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/prepare.sh
say "formatting"
cargo fmt --all --check
say "edges between crates"
command -v python3 >/dev/null || apt_install python3 || die "python3 is not here"
scripts/edges.py
say "clippy"
cargo clippy --locked --workspace --all-targets -- -D warnings

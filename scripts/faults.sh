#!/usr/bin/env bash
# Builds the server with the feature `faults` (it can die at named points and do without single guards) as
# TARGET/debug/answerable-faults, and leaves the normal build in its place.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/prepare.sh

debug=$(target_folder)/debug
say "building the server with named points to die at: answerable-faults"
cargo build --locked -p answerable --features faults
cp "$debug/answerable" "$debug/answerable-faults.new"
mv "$debug/answerable-faults.new" "$debug/answerable-faults"
cargo build --locked -p answerable

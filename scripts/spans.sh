#!/usr/bin/env bash
# A hundred servers killed under load: a collector must have the spans that the journals imply, no more and no fewer.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/prepare.sh
need_postgres
say "building Answerable"
cargo build --locked -p answerable
exec cargo test --locked -p answerable-tests a_hundred_kills -- --ignored --nocapture

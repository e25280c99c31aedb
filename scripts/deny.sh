#!/usr/bin/env bash
# Licences, bans and sources of all dependencies, as deny.toml has them. With ADVISORIES=1 also RustSec's advisories, whose
# database is fetched. The tool is built once (a minute or two) and kept outside the tree.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
exec </dev/null
. scripts/prepare.sh

VERSION=0.20.2
tools=$(cache_folder)/cargo-deny-$VERSION
if [ ! -x "$tools/bin/cargo-deny" ]; then
    say "building cargo-deny $VERSION into $tools"
    mkdir -p "$tools"
    # In debug, for it is run for a second; what it is built from goes, for it is large.
    build=$(mktemp -d "${TMPDIR:-/var/tmp}/answerable-deny-XXXXXX")
    trap 'rm -rf "$build"' EXIT
    timeout 1200 cargo install --quiet --locked --debug --root "$tools" --target-dir "$build" "cargo-deny@$VERSION" ||
        die "cargo-deny can't be built"
fi
checks=(licenses bans sources)
options=(--locked --offline)
if [ "${ADVISORIES:-}" = 1 ]; then
    checks+=(advisories)
    options=(--locked)
fi
cargo fetch --locked --quiet
"$tools/bin/cargo-deny" "${options[@]}" check "${checks[@]}"

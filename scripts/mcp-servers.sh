#!/usr/bin/env bash
# Installs the MCP servers that the tests call, in the versions of tests/mcp-servers, and prints their folder: in the
# project's cache folder, outside the tree. Does nothing where they are there already.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/say.sh

FOLDER=$(cache_folder)/mcp-servers
WANTED=tests/mcp-servers
# Node.js 20 or later: what is older can't run them.
runs_them() { command -v npm >/dev/null && node -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)' 2>/dev/null; }

runs_them || { apt_install nodejs npm && runs_them; } || die "Node.js 20 or later with npm is not here"
if ! cmp -s "$WANTED/package-lock.json" "$FOLDER/installed.json"; then
    say "installing MCP servers for the tests into $FOLDER"
    mkdir -p "$(dirname "$FOLDER")"
    new=$(mktemp -d "$FOLDER.XXXXXX")
    trap 'rm -rf "$new"' EXIT
    cp "$WANTED/package.json" "$WANTED/package-lock.json" "$new"
    (cd "$new" && timeout 600 npm ci --ignore-scripts --no-audit --no-fund --silent >&2) || die "npm can't install $WANTED"
    cp "$WANTED/package-lock.json" "$new/installed.json"
    chmod 755 "$new"
    rm -rf "$FOLDER"
    mv -T "$new" "$FOLDER"
fi
echo "$FOLDER"

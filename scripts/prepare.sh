# shellcheck shell=bash
# Sourced by every script that builds or runs something: what a machine must have, found or installed.
# shellcheck source=scripts/say.sh
. "$(dirname "${BASH_SOURCE[0]}")/say.sh"

# A shell that was open when rustup was installed doesn't know cargo yet.
[ -d "$HOME/.cargo/bin" ] && PATH=$PATH:$HOME/.cargo/bin
command -v cargo >/dev/null || die "cargo is not here: install Rust (https://rustup.rs)"
command -v cc >/dev/null || apt_install gcc libc6-dev || die "a C compiler is not here: install the package \`gcc\`"

# Commands of shell tools run in it; without it the server refuses such tools, and the tests of the sandbox fail.
if ! command -v bwrap >/dev/null && ! apt_install bubblewrap; then
    [ "${CI:-}" != true ] || die "bubblewrap is not here and could not be installed"
    say "bubblewrap is not here and could not be installed; with ANSWERABLE_TEST_NO_SANDBOX=1 the tests do without it"
fi

# Queries are checked against .sqlx, so that no build needs a database.
export SQLX_OFFLINE=true

need_postgres() {
    ANSWERABLE_PG_BIN=$("$(dirname "${BASH_SOURCE[0]}")/postgres.sh")
    export ANSWERABLE_PG_BIN
    say "PostgreSQL: $ANSWERABLE_PG_BIN"
}

need_mcp_servers() {
    ANSWERABLE_TEST_MCP_SERVERS=$("$(dirname "${BASH_SOURCE[0]}")/mcp-servers.sh")
    export ANSWERABLE_TEST_MCP_SERVERS
}

# Where cargo puts what it builds.
target_folder() {
    cargo metadata --format-version 1 --no-deps --locked | sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p'
}

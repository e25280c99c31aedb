#!/usr/bin/env bash
# The mutation check: leaves out each guard in turn, and the judge must notice for the right reason.
# Arguments: --only GUARD, --seed N.
exec "$(dirname "${BASH_SOURCE[0]}")/chaos.sh" mutants "$@"

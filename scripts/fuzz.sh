#!/usr/bin/env bash
# Fuzzes every parser of outside input: fuzz.sh [SECONDS for each target, 20] [TARGET…]. What is found stays in
# tests/fuzz/artifacts; what is learned stays in the corpus (FUZZ_DIR), which begins with the recorded exchanges.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/prepare.sh

seconds=${1:-20}
case $seconds in '' | *[!0-9]*) die "fuzz.sh SECONDS [TARGET…]: \"$seconds\" is no number" ;; esac
shift $(($# > 0))
folder=${FUZZ_DIR:-$(target_folder)/fuzz}
# Sanitizers and coverage are the nightly compiler's; this opens them on a stable one.
export RUSTC_BOOTSTRAP=1
PATH=$folder/tools/bin:$PATH
if ! command -v cargo-fuzz >/dev/null; then
    say "installing cargo-fuzz"
    cargo install --quiet --locked cargo-fuzz --root "$folder/tools" --target-dir "$folder/tools/target"
fi

targets=("$@")
[ $# -gt 0 ] || mapfile -t targets < <(sed -n 's|^path = "fuzz_targets/\(.*\)\.rs"|\1|p' tests/fuzz/Cargo.toml)
scripts/fuzz_seeds.py "$folder/seeds"
# There is no unsafe code to watch, so no sanitizer: that is several times as fast.
fuzz=(--fuzz-dir tests/fuzz --sanitizer none --target-dir "$folder/target")
say "building the fuzz targets"
cargo fuzz build "${fuzz[@]}" >&2
for target in "${targets[@]}"; do
    say "fuzzing $target for $seconds s"
    mkdir -p "$folder/corpus/$target" "$folder/seeds/$target"
    log=$folder/$target.log
    if ! cargo fuzz run "${fuzz[@]}" "$target" "$folder/corpus/$target" "$folder/seeds/$target" -- \
        -max_total_time="$seconds" -max_len=65536 -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 >"$log" 2>&1; then
        tail -n 40 "$log" >&2
        die "$target failed; its input is in tests/fuzz/artifacts/$target"
    fi
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    say "$target: $runs runs, $(grep -o 'cov: [0-9]*' "$log" | tail -n 1 || true)"
done

#!/usr/bin/env bash
# Writes the program's bill of materials and has it judged by CycloneDX's own schema: sbom.sh [FILE [TARGET]]. The validator is
# installed once, in the project's cache folder.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
exec </dev/null
. scripts/prepare.sh
. scripts/venv.sh

file=${1:-$(target_folder)/answerable.cdx.json}
command -v python3 >/dev/null || apt_install python3 || die "python3 is not here"
need_venv sbom 'cyclonedx-python-lib[json-validation]==11.12.0'
mkdir -p "$(dirname "$file")"
scripts/sbom.py "${@:2}" >"$file.new"
"$VENV/bin/python" - "$file.new" <<'PYTHON'
import sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

with open(sys.argv[1], encoding="utf-8") as document:
    fault = JsonStrictValidator(SchemaVersion.V1_6).validate_str(document.read())
if fault:
    sys.exit(f"error: the bill of materials is not as its schema has it: {fault}")
PYTHON
mv "$file.new" "$file"
say "$file: $(grep -c '"bom-ref"' "$file") components"

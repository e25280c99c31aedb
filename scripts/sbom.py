#!/usr/bin/env python3
"""Prints a bill of materials (CycloneDX 1.6, JSON) of the program `answerable`.

sbom.py [TARGET]     TARGET is a triple of rustc's; without it this machine's.

What is linked into the program is `required`; what only builds it (build scripts, macros, and what they need) `excluded`.
`cargo tree` says what is there, since it knows which features are on; `Cargo.lock` has the hashes. The same sources give the
same text, byte for byte.
"""
import hashlib
import json
import pathlib
import re
import subprocess
import sys
import tomllib
import uuid

ROOT = pathlib.Path(__file__).parent.parent
PROGRAM = "answerable"


def cargo(*words):
    done = subprocess.run(["cargo", *words], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout


def tree(edges, target):
    """Edges between packages, by (name, version): each knows what it needs."""
    lines = cargo("tree", "--locked", "-p", PROGRAM, "-e", edges, "--target", target, "--prefix", "depth", "--format", " {p}")
    needs, above = {}, []
    for line in lines.splitlines():
        depth, name, version = re.match(r"(\d+) (\S+) v(\S+)", line).groups()
        package, depth = (name, version), int(depth)
        needs.setdefault(package, set())
        del above[depth:]
        if above:
            needs[above[-1]].add(package)
        above.append(package)
    return needs


def reference(package):
    name, version = package
    return f"pkg:cargo/{name}@{version}"


def component(package, facts, checksum, scope):
    name, version = package
    shown = {"type": "library", "bom-ref": reference(package), "name": name, "version": version, "scope": scope}
    if facts.get("description"):
        shown["description"] = " ".join(facts["description"].split())
    if checksum:
        shown["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    if facts.get("license"):
        # An old way to say OR.
        shown["licenses"] = [{"expression": facts["license"].replace("/", " OR ")}]
    shown["purl"] = reference(package)
    if facts.get("repository"):
        shown["externalReferences"] = [{"type": "vcs", "url": facts["repository"]}]
    return shown


def main():
    target = sys.argv[1] if len(sys.argv) > 1 else re.search(r"^host: (.*)$", subprocess.run(
        ["rustc", "-vV"], check=True, stdout=subprocess.PIPE, text=True).stdout, re.M)[1]
    linked = tree("normal,no-proc-macro", target)
    needs = tree("normal,build", target)
    metadata = json.loads(cargo("metadata", "--locked", "--format-version", "1"))
    facts = {(package["name"], package["version"]): package for package in metadata["packages"]}
    lock_text = (ROOT / "Cargo.lock").read_bytes()
    checksums = {(p["name"], p["version"]): p.get("checksum") for p in tomllib.loads(lock_text.decode())["package"]}
    program = next(package for package in linked if package[0] == PROGRAM)

    def shown(package):
        return component(package, facts[package], checksums.get(package), "required" if package in linked else "excluded")

    document = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        # It follows from what it is made of.
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, hashlib.sha256(lock_text + target.encode()).hexdigest())}",
        "version": 1,
        "metadata": {
            "component": {**shown(program), "type": "application"},
            "properties": [{"name": "cdx:rustc:sbom:target:triple", "value": target}],
        },
        "components": [shown(package) for package in sorted(needs) if package != program],
        "dependencies": [
            {"ref": reference(package), "dependsOn": sorted(map(reference, on))} for package, on in sorted(needs.items())
        ],
    }
    json.dump(document, sys.stdout, indent=2, ensure_ascii=False)
    print()


if __name__ == "__main__":
    main()

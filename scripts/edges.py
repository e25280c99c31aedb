#!/usr/bin/env python3
"""Fails on any edge between crates that ARCHITECTURE.md does not draw.

Reads `cargo metadata`. Normal and build dependencies count; of the dev-dependencies only those between
the workspace's crates do, and there the test crates may be used by all.
"""
import json
import subprocess
import sys

PREFIX = "answerable-"
# Who may use whom. What is not named here is refused, a new crate included.
RIM = {"core", "ports"}
MAY_USE = {
    "core": set(),
    "ports": {"core"},
    "store": RIM | {"faults"},
    "blobs": RIM,
    "sandbox": set(),               # runs commands, and knows nothing of ours
    "tools": RIM | {"sandbox"},
    "identity": RIM | {"tools"},    # the guarded HTTP client
    "models": RIM | {"tools"},      # the guarded HTTP client
    "telemetry": RIM,
    "engine": RIM | {"faults"},
    "api": RIM | {"store"},
    "delivery": RIM | {"store", "tools"},
    "devdb": set(),
    "faults": set(),                # empty in normal builds
    "evals": set(),                 # judges what the API says, by no type of the product
    "protocol": set(),              # a model of the protocol, not its code
    "testkit": {"devdb"},
}
SEES_ALL = {"answerable", "tests"}  # the binary and the end-to-end tests
# These reach the service over HTTP only.
EXAMPLES = {"order-desk": {"devdb"}, "chaos": set(), "load": {"devdb"}}
DEV_USABLE = {"testkit", "devdb"}   # by everybody's tests
# Crates of others that these must not name, in any kind of dependency but dev.
BANNED = {
    "core": {"tokio", "sqlx", "axum", "tracing", "reqwest", "hyper", "rand", "getrandom"},
    "ports": {"sqlx", "axum", "reqwest"},
    "engine": {"sqlx", "axum", "reqwest"},
    "api": {"sqlx", "reqwest"},
    "models": {"sqlx", "axum"},
    "identity": {"sqlx", "axum", "reqwest"},
    "sandbox": {"sqlx", "axum", "reqwest", "hyper"},
    "tools": {"sqlx", "axum"},
    "telemetry": {"sqlx", "axum"},
    "evals": {"tokio", "sqlx", "axum", "reqwest", "hyper"},
    "delivery": {"sqlx", "axum"},
}


def short(name):
    return name.removeprefix(PREFIX)


def may_use(user, used, dev):
    if user in SEES_ALL or (dev and used in DEV_USABLE):
        return True
    if user in EXAMPLES:
        return used in EXAMPLES[user]
    return used in MAY_USE.get(user, set())


def faults(metadata):
    members = set(metadata["workspace_members"])
    packages = [p for p in metadata["packages"] if p["id"] in members]
    ours = {p["name"] for p in packages}
    for package in packages:
        user = short(package["name"])
        if user not in MAY_USE and user not in SEES_ALL and user not in EXAMPLES:
            yield f"{package['name']} has no place in scripts/edges.py"
        for dependency in package["dependencies"]:
            used, dev = dependency["name"], dependency["kind"] == "dev"
            if used in ours and not may_use(user, short(used), dev):
                yield f"{package['name']} must not use {used}" + (" (not even in its tests)" if dev else "")
            elif not dev and used in BANNED.get(user, set()):
                yield f"{package['name']} must not use {used}"


def main():
    command = ["cargo", "metadata", "--format-version", "1", "--no-deps", "--locked"]
    metadata = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    found = list(faults(metadata))
    for fault in found:
        print(f"edges: {fault}", file=sys.stderr)
    if not found:
        print(f"edges: {len(metadata['workspace_members'])} crates, all edges as drawn")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Writes the licence list of the binary: every crate in it with its licence, and their texts.

    deploy/packages/licenses.py TARGET

Cargo downloads what it has not yet: also the crates of the tests, which the list leaves out. Fails if
a crate names no licence. Licences themselves are chosen by deny.toml.
"""

import json
import subprocess
import sys
from pathlib import Path

TEXTS = ("LICEN", "COPYING", "NOTICE", "COPYRIGHT")


def crates(target):
    """Returns the packages that are compiled into the binary for this target, without its own."""
    command = ["cargo", "metadata", "--locked", "--format-version=1"]
    command += ["--features=jemalloc,otel", f"--filter-platform={target}"]
    metadata = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    pending, reached = [metadata["resolve"]["root"]], set()
    while pending:
        crate = pending.pop()
        if crate in reached:
            continue
        if any("proc-macro" in target["kind"] for target in packages[crate]["targets"]):
            continue
        reached.add(crate)
        for dependency in nodes[crate]["deps"]:
            # Like macros, programs that run during the build are not in the binary.
            if any(kind["kind"] is None for kind in dependency["dep_kinds"]):
                pending.append(dependency["pkg"])
    found = (packages[crate] for crate in reached if crate not in metadata["workspace_members"])
    return sorted(found, key=lambda package: (package["name"], package["version"]))


def main(target):
    texts = {}
    print("Raindrop is licensed under Apache-2.0 (LICENSE). Its program contains these crates:\n")
    for package in crates(target):
        name = f"{package['name']} {package['version']}"
        if not package["license"]:
            sys.exit(f"{name} names no licence")
        print(f"{name}: {package['license']}\n  {package['repository'] or 'no repository is named'}")
        for file in sorted(Path(package["manifest_path"]).parent.iterdir()):
            if file.is_file() and file.name.upper().startswith(TEXTS):
                text = file.read_text(encoding="utf-8", errors="replace").strip()
                texts.setdefault(text, []).append(name)
    for text, names in texts.items():
        print(f"\n{'-' * 80}\n{', '.join(names)}\n{'-' * 80}\n\n{text}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])

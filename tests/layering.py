#!/usr/bin/env python3
"""The compiler finds every header from everywhere, so it cannot notice a wrong include. This does.

Dependencies point one way (src/README.md): a folder may include its own headers, those of the folders named for it below,
and include/trueup. Third-party headers have one home each.
"""
import pathlib
import re
import sys

SOURCE = pathlib.Path(__file__).resolve().parent.parent

CORE = {
    "base": [],
    "model": ["base"],
    "load": ["base", "model", "parse", "expr"],
    "parse": ["base", "model"],
    "probe": ["base", "model"],
    "expr": ["base", "model", "load"],
    "derive": ["base", "model", "load", "probe"],
    "check": ["base", "model", "load", "parse", "expr", "derive"],
    "action": ["base", "model", "load", "parse", "probe", "expr", "derive", "check"],
    "plan": ["base", "model", "load", "expr", "derive", "check", "action"],
    "report": ["base", "model", "derive", "check", "plan"],
}
EDGE = {
    "transport": list(CORE),
    "run": list(CORE) + ["transport"],
    "store": list(CORE),
    "cli": list(CORE) + ["run", "transport", "store"],
}
# A header that begins like this belongs to these folders alone.
HOMES = {
    "libssh2": ["transport"],
    "yaml-cpp/": ["load"],
    "openssl/": ["base"],
    "zlib": ["base"],
    "jq.h": ["expr"],
    "jv.h": ["expr"],
    "CLI/": ["cli"],
    "sqlite3": ["store"],
    "boost/asio": ["transport", "run"],
    "boost/process": ["transport", "run"],
    "sys/socket": ["transport", "run"],
    "unistd.h": ["transport", "run", "store", "cli"],
    "fstream": ["transport", "run", "cli"],
}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def wrong_includes(folder, allowed):
    for path in sorted((SOURCE / "src" / folder).rglob("*.[ch]pp")):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            header = match.group(2)
            where = f"{path.relative_to(SOURCE)}:{number}"
            if match.group(1) == '"':
                home = header.split("/")[0]
                if home not in [folder, "trueup"] + allowed:
                    yield f"{where}: src/{folder} must not include {header}"
            for prefix, homes in HOMES.items():
                if header.startswith(prefix) and folder not in homes:
                    yield f"{where}: {header} belongs to {', '.join('src/' + h for h in homes)}"


def main():
    folders = {**CORE, **EDGE}
    unknown = [p.name for p in (SOURCE / "src").iterdir() if p.is_dir() and p.name not in folders]
    wrong = [f"src/{name}: add it to tests/layering.py" for name in unknown]
    for folder, allowed in folders.items():
        wrong += wrong_includes(folder, allowed)
    for path in sorted((SOURCE / "include").rglob("*.hpp")):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = INCLUDE.match(line)
            if match and match.group(2).startswith(("libssh2", "yaml-cpp", "jq.h", "sqlite3", "nlohmann/json.hpp")):
                wrong.append(f"{path.relative_to(SOURCE)}:{number}: {match.group(2)} must not be in a public header")
    print("\n".join(wrong) if wrong else f"{len(folders)} folders: every include points the right way")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

"""Plays the program of a unit: prints its lines, then stays or ends as the case says.

The file /usr/lib/trueup-lab/units/UNIT.json says what; a program started by hand stays.
"""
import glob
import json
import os
import signal
import sys
import time

HOME = "/usr/lib/trueup-lab"


def unit():
    with open("/proc/self/cgroup") as file:
        words = [word for line in file for word in line.strip().split("/") if word.endswith(".service")]
    return words[-1] if words else None


def read(path):
    try:
        with open(path) as file:
            return json.load(file)
    except OSError:
        return {}


def main():
    part = read("%s/units/%s.json" % (HOME, unit()))
    if "--version" in sys.argv or "-v" in sys.argv[1:2]:
        print(part.get("version") or read(HOME + "/versions.json").get(os.path.basename(sys.argv[0]), "1.0"))
        return
    for line in part.get("lines", []):
        print(line, file=sys.stderr, flush=True)
    result = part.get("result", "success")
    if part.get("state") == "failed":
        time.sleep(0.05)  # journald reads the unit from the process that wrote; let it see one
        if result == "signal":
            os.kill(os.getpid(), signal.SIGKILL)
        if result == "core-dump":
            os.kill(os.getpid(), signal.SIGABRT)
        sys.exit(1)
    devices = sorted(glob.glob("/dev/nvidia[0-9]*")) if part.get("uses_gpus") else []
    held = [os.open(path, os.O_PATH) for path in devices]
    if held:
        gpus = [int(path[len("/dev/nvidia"):]) for path in devices]
        with open("/run/trueup-lab/gpu/%d" % os.getpid(), "w") as file:
            json.dump({"name": sys.executable, "gpus": gpus, "memory_mib": part.get("memory_mib", 1024)}, file)
    while True:
        signal.pause()


main()

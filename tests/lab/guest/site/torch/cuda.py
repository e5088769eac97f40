import functools
import os
import subprocess

from . import version


@functools.cache
def _capabilities():
    """Of the visible devices, in their order."""
    if version.cuda is None:
        raise AssertionError("Torch not compiled with CUDA enabled")
    try:
        shown = subprocess.run(["nvidia-smi", "--query-gpu=index,uuid,compute_cap", "--format=csv,noheader"],
                               capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return []
    devices = [[word.strip() for word in line.split(",")] for line in shown.splitlines()]
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        wanted = [word.strip() for word in visible.split(",") if word.strip()]
        devices = [device for word in wanted for device in devices if word in device[:2]]
    return [tuple(int(part) for part in device[2].split(".")) for device in devices]


def is_available():
    return version.cuda is not None and device_count() > 0


def device_count():
    return len(_capabilities()) if version.cuda is not None else 0


def get_device_capability(device=0):
    return _capabilities()[device]

"""What the kernel driver shows: /proc, /sys and /dev, its user-space libraries, nvidia-smi, the kernel log."""

import json
import os

from . import elf
from .tree import GUEST_FILES, HOME

# name part: (memory in MiB, power limit in W, architecture, PCI device, ECC); first match wins, more special first.
PRODUCTS = (
    ("GB300", 284208, 1400, "Blackwell", 0x31C2, True),
    ("B300", 275040, 1100, "Blackwell", 0x3182, True),
    ("GB200", 189471, 1200, "Blackwell", 0x2941, True),
    ("B200", 183359, 1000, "Blackwell", 0x2901, True),
    ("GB10", 0, 100, "Blackwell", 0x2E12, False),
    ("RTX PRO 6000 Blackwell Server", 97887, 600, "Blackwell", 0x2BB5, True),
    ("RTX PRO 6000 Blackwell Max-Q", 97887, 300, "Blackwell", 0x2BB4, True),
    ("RTX PRO 6000 Blackwell", 97887, 600, "Blackwell", 0x2BB1, True),
    ("RTX 5090", 32607, 575, "Blackwell", 0x2B85, False),
    ("RTX 5070 Laptop", 8151, 115, "Blackwell", 0x2D58, False),
    ("H200", 143771, 700, "Hopper", 0x2335, True),
    ("H20", 97871, 500, "Hopper", 0x2329, True),
    ("H100", 81559, 700, "Hopper", 0x2330, True),
    ("L40S", 46068, 350, "Ada Lovelace", 0x26B9, True),
    ("RTX 6000 Ada", 49140, 300, "Ada Lovelace", 0x26B1, True),
    ("RTX 4090", 24564, 450, "Ada Lovelace", 0x2684, False),
    ("RTX 4060 Ti", 16380, 165, "Ada Lovelace", 0x2805, False),
    ("A100 80GB", 81920, 300, "Ampere", 0x20B5, True),
    ("A100-SXM4-80GB", 81920, 400, "Ampere", 0x20B2, True),
    ("A100", 40960, 400, "Ampere", 0x20B0, True),
    ("RTX A6000", 49140, 300, "Ampere", 0x2230, False),
    ("A10", 23028, 150, "Ampere", 0x2236, True),
    ("RTX 3090", 24576, 350, "Ampere", 0x2204, False),
    ("T4", 15360, 70, "Turing", 0x1EB8, True),
)
MIG_CAPABLE = ("A100", "A30", "H100", "H200", "H20", "B200", "B300", "RTX PRO 6000")


def product(name):
    return next((row[1:] for row in PRODUCTS if row[0] in name), (16384, 250, "Ampere", 0x2000, False))


def write(case, tree):
    _kernel(case, tree)
    if case.driver is None:
        return
    _libraries(case, tree)
    _nvidia_smi(case, tree)
    if not case.is_wsl:
        _proc(case, tree)
        _sys(case, tree)
        _module_file(case, tree)


def _libraries(case, tree):
    for entry in case.driver_libraries:
        path, version = entry["path"], entry["version"]
        families = [("libcuda", entry["names"])]
        if "compat" not in path:
            families.append(("libnvidia-ml", [name.replace("libcuda", "libnvidia-ml") for name in entry["names"]]))
        families.append(
            ("libnvidia-ptxjitcompiler", [f"libnvidia-ptxjitcompiler.so.{version}", "libnvidia-ptxjitcompiler.so.1"])
        )
        for library, names in families:
            names = sorted(names, key=len, reverse=True)
            tree.file(f"{path}/{names[0]}", elf.shared_object(f"{library}.so.1"))
            for name in names[1:]:
                tree.link(
                    f"{path}/{name}",
                    f"{library}.so.1" if name == f"{library}.so" and f"{library}.so.1" in names else names[0],
                )
    if case.arch != "x86_64":
        tree.file("/etc/ld.so.conf.d/lab-multiarch.conf", f"{case.library_directory}\n")


def _nvidia_smi(case, tree):
    gpus = []
    for gpu in case.gpus:
        name = str(gpu["name"])
        memory, power, architecture, device, ecc = product(name)
        # The fabric's state is a matter of the driver alone: fabric manager running or not decides it on a real host.
        manager = [service for service in case.get("services", []) if "fabricmanager" in service["unit"]]
        ready = any(service.get("state") == "active" for service in manager)
        fabric = ("Completed", "Success") if ready else ("In Progress", "N/A")
        gpus.append(
            {
                "name": name,
                "uuid": gpu["uuid"],
                "serial": gpu["serial"],
                "pci": gpu["pci"].rjust(16, "0"),
                "compute_cap": str(gpu["compute_cap"]),
                "memory": gpu.get("memory", memory),
                "power_limit": power,
                "architecture": architecture,
                "device_id": device,
                "ecc": ecc,
                "vbios": "98.02.81.00.07",
                "pcie": 5 if ecc else 4,
                "persistence_mode": gpu.get("persistence_mode", "Enabled"),
                "mig": gpu.get("mig") or {},
                "mig_capable": any(part in name for part in MIG_CAPABLE),
                "ecc_errors": gpu.get("ecc_errors") or {},
                "remapped_rows": gpu.get("remapped_rows") or ({} if ecc else None),
                "fabric": fabric if case.get("nvswitches") else ("[N/A]", "[N/A]"),
            }
        )
    tree.file(
        f"{HOME}/nvidia.json",
        json.dumps(
            {
                "driver": case.driver,
                "cuda_max": str(case.get("driver_cuda_max", "N/A")),
                "wsl": case.is_wsl,
                "gpus": gpus,
                "nvswitches": case.get("nvswitches", 0),
                "library_directories": [
                    entry["path"] for entry in case.driver_libraries if "compat" not in entry["path"]
                ],
            },
            indent=1,
        ),
    )
    tree.program("/usr/lib/wsl/lib/nvidia-smi" if case.is_wsl else "/usr/bin/nvidia-smi", GUEST_FILES["nvidia-smi"])


def _proc(case, tree):
    loaded = case.module["loaded"]
    base = f"{HOME}/mount/proc/driver"
    if loaded is None:
        return
    kind = (
        f"NVIDIA UNIX Open Kernel Module for {case.arch}"
        if case.module["flavour"] == "open"
        else f"NVIDIA UNIX {case.arch} Kernel Module"
    )
    tree.file(
        f"{base}/nvidia/version",
        f"NVRM version: {kind}  {loaded}  Release Build  (dvs-builder@U22-I3-AM02-24-3)  "
        "Tue Sep 23 10:11:41 UTC 2025\nGCC version:  gcc version 13.3.0 (Ubuntu 13.3.0-6ubuntu2~24.04)\n",
        0o444,
    )
    tree.file(
        f"{base}/nvidia/params",
        "ResmanDebugLevel: 4294967295\nModifyDeviceFiles: 1\nDeviceFileUID: 0\nDeviceFileGID: 0\n"
        "DeviceFileMode: 438\nEnableGpuFirmware: 18\nOpenRmEnableUnsupportedGpus: 1\nRegistryDwords: \"\"\n",
        0o444,
    )
    tree.directory(f"{base}/nvidia/gpus")
    for gpu in case.gpus:
        tree.file(
            f"{base}/nvidia/gpus/{gpu['pci']}/information",
            "\n".join(
                (
                    f"Model: \t\t {gpu['name']}",
                    f"IRQ:   \t\t {150 + gpu['index']}",
                    f"GPU UUID: \t {gpu['uuid']}",
                    "Video BIOS: \t 98.02.81.00.07",
                    "Bus Type: \t PCIe",
                    "DMA Size: \t 52 bits",
                    "DMA Mask: \t 0xfffffffffffff",
                    f"Bus Location: \t {gpu['pci']}",
                    f"Device Minor: \t {gpu['index']}",
                    f"GPU Firmware: \t {loaded}",
                    "GPU Excluded:\t No",
                )
            )
            + "\n",
            0o444,
        )
    for number in range(int(case.get("nvswitches", 0))):
        tree.file(f"{base}/nvidia-nvswitch/devices/{switch_address(number)}", "", 0o444)


def switch_address(number):
    return f"0000:{0x86 + number:02x}:00.0"


def _pci_device(tree, address, device, pci_class, driver):
    base = f"{HOME}/mount/sys/bus/pci/devices/{address}"
    config = bytearray(256)
    config[0:4] = (0x10DE).to_bytes(2, "little") + device.to_bytes(2, "little")
    config[4:8] = bytes((0x07, 0x04, 0x10, 0x00))
    config[8:12] = b"\xa1" + pci_class.to_bytes(3, "little")
    tree.file(f"{base}/config", bytes(config))
    for name, text in (
        ("vendor", "0x10de"),
        ("device", f"0x{device:04x}"),
        ("class", f"0x{pci_class:06x}"),
        ("subsystem_vendor", "0x10de"),
        ("subsystem_device", "0x0000"),
        ("revision", "0xa1"),
        ("irq", "150"),
        ("numa_node", "0"),
        ("current_link_speed", "32.0 GT/s PCIe"),
        ("max_link_speed", "32.0 GT/s PCIe"),
        ("current_link_width", "16"),
        ("max_link_width", "16"),
        ("enable", "1"),
        (
            "uevent",
            f"DRIVER={driver or ''}\nPCI_CLASS={pci_class:X}\nPCI_ID=10DE:{device:04X}\nPCI_SLOT_NAME={address}",
        ),
    ):
        tree.file(f"{base}/{name}", text + "\n", 0o444)
    tree.file(f"{base}/resource", "0x0000000000000000 0x0000000000000000 0x0000000000000000\n" * 13, 0o444)
    if driver:
        tree.link(f"{base}/driver", f"../../../../bus/pci/drivers/{driver}")


def _sys(case, tree):
    loaded = case.module["loaded"]
    tree.directory(f"{HOME}/mount/sys/bus/pci/devices")
    for gpu in case.gpus:
        graphics = any(part in str(gpu["name"]) for part in ("GeForce", "RTX", "Quadro"))
        _pci_device(
            tree,
            gpu["pci"],
            product(str(gpu["name"]))[3],
            0x030000 if graphics else 0x030200,
            "nvidia" if loaded else None,
        )
    for number in range(int(case.get("nvswitches", 0))):
        _pci_device(tree, switch_address(number), 0x22A3, 0x068000, "nvidia-nvswitch" if loaded else None)
    tree.directory(f"{HOME}/mount/sys/module")
    for module in ("nvidia", "nvidia_uvm", "nvidia_modeset", "nvidia_drm") if loaded else ():
        tree.file(f"{HOME}/mount/sys/module/{module}/version", f"{loaded}\n", 0o444)
        tree.file(f"{HOME}/mount/sys/module/{module}/initstate", "live\n", 0o444)
    tree.file(
        f"{HOME}/mount/proc/modules",
        "".join(
            f"{line} - Live 0x0000000000000000 (O)\n"
            for line in (
                "nvidia_uvm 2088960 0",
                "nvidia_drm 135168 0",
                "nvidia_modeset 1814528 1 nvidia_drm,",
                "nvidia 14381056 16 nvidia_uvm,nvidia_modeset,",
            )
            if loaded
        ),
        0o444,
    )


def device_nodes(case):
    """(path, major, minor) of the nodes that the driver makes."""
    if case.driver is None or case.module["loaded"] is None:
        return [("/dev/dxg", 10, 125)] if case.is_wsl else []
    nodes = [(f"/dev/nvidia{gpu['index']}", 195, gpu["index"]) for gpu in case.gpus]
    nodes += [
        ("/dev/nvidiactl", 195, 255),
        ("/dev/nvidia-modeset", 195, 254),
        ("/dev/nvidia-uvm", 511, 0),
        ("/dev/nvidia-uvm-tools", 511, 1),
    ]
    if case.get("nvswitches"):
        nodes += [("/dev/nvidia-nvswitchctl", 510, 255)]
        nodes += [(f"/dev/nvidia-nvswitch{number}", 510, number) for number in range(int(case.get("nvswitches")))]
    return nodes


def kernel_release(case):
    return str(case.get("kernel") or os.uname().release)


def _module_file(case, tree):
    on_disk = case.module["on_disk"]
    if on_disk is None:
        return
    path = f"/lib/modules/{kernel_release(case)}/updates/dkms/nvidia.ko"
    tree.file(path, "")
    tree.file(
        f"{HOME}/modinfo",
        "\n".join(
            (
                f"filename: {path}",
                "alias: char-major-195-*",
                f"version: {on_disk}",
                f"license: {'Dual MIT/GPL' if case.module['flavour'] == 'open' else 'NVIDIA'}",
                f"firmware: nvidia/{on_disk}/gsp_ga10x.bin",
                "name: nvidia",
                f"vermagic: {kernel_release(case)} SMP preempt mod_unload modversions",
            )
        )
        + "\n",
    )
    tree.link(f"{HOME}/real/modinfo", "/bin/kmod")
    tree.program("/usr/sbin/modinfo", GUEST_FILES["modinfo"])


def _kernel(case, tree):
    """uname, /proc/version, processors and memory; dmesg is a program since the real log is the build machine's."""
    tree.program("/usr/bin/dmesg", GUEST_FILES["dmesg"])
    if case.get("kernel") or case.arch != os.uname().machine:
        release = kernel_release(case)
        tree.directory(f"{HOME}/real")
        os.rename("/usr/bin/uname", f"{HOME}/real/uname")
        tree.file(f"{HOME}/uname.env", f"release='{release}'\nmachine='{case.arch}'\n")
        tree.program("/usr/bin/uname", GUEST_FILES["uname"])
        tree.file(f"{HOME}/mount/proc/sys/kernel/osrelease", f"{release}\n", 0o444)
        maker = "root@buildkitsandbox" if case.is_wsl else "buildd@lcy02-amd64-051"
        tree.file(
            f"{HOME}/mount/proc/version", f"Linux version {release} ({maker}) (gcc 13.3.0, GNU ld 2.42) #1 SMP\n", 0o444
        )
    if case.get("cpus"):
        tree.file(
            f"{HOME}/mount/proc/cpuinfo",
            "".join(f"processor\t: {number}\nBogoMIPS\t: 2000.00\n\n" for number in range(int(case.get("cpus")))),
            0o444,
        )
    if case.get("memory"):
        total = int(float(case.get("memory")["total_gib"]) * 1024 * 1024)
        tree.file(
            f"{HOME}/mount/proc/meminfo",
            "".join(
                f"{name + ':':<15} {value:>8} kB\n"
                for name, value in (
                    ("MemTotal", total),
                    ("MemFree", total * 7 // 10),
                    ("MemAvailable", total * 8 // 10),
                    ("Buffers", total // 100),
                    ("Cached", total // 10),
                    ("SwapCached", 0),
                    ("SwapTotal", 0),
                    ("SwapFree", 0),
                    ("Shmem", total // 200),
                )
            )
            + "HugePages_Total:       0\nHugePages_Free:        0\nHugepagesize:       2048 kB\n",
            0o444,
        )
    before = case.strings("kernel_log_before")
    if before:
        tree.file(
            "/var/log/kern.log",
            "".join(
                f"2026-11-01T03:12:{number:02d}.000000+00:00 {case.name} kernel: [ 8123.{number:06d}] {line}\n"
                for number, line in enumerate(before)
            ),
            0o640,
        )


def kernel_messages(case):
    """The messages of this boot, as (seconds since boot, priority, text)."""
    lines = [
        (0.0, 5, f"Linux version {kernel_release(case)} (builder@lab) #1 SMP"),
        (0.1, 6, "Command line: BOOT_IMAGE=/vmlinuz ro quiet"),
    ]
    loaded = case.module["loaded"] if case.driver else None
    if loaded and not case.is_wsl:
        text = (
            f"Open Kernel Module for {case.arch}" if case.module["flavour"] == "open" else f"{case.arch} Kernel Module"
        )
        lines += [
            (4.1, 4, "nvidia: loading out-of-tree module taints kernel."),
            (4.2, 6, f"NVRM: loading NVIDIA UNIX {text}  {loaded}"),
            (4.9, 6, "[drm] [nvidia-drm] [GPU ID 0x00000100] Loading driver"),
        ]
    given = case.strings("kernel_log")
    known = given + case.strings("kernel_log_before")
    given += [line for line in case.symptom if line.startswith("NVRM:") and not any(line in other for other in known)]
    return lines + [(5.0 + number / 10, 3, line) for number, line in enumerate(given)]


def program_lines(case):
    """The lines of `symptom` that programs printed, without those that are the kernel's."""
    kernel = case.strings("kernel_log") + case.strings("kernel_log_before")
    return [
        line for line in case.symptom if not line.startswith("NVRM:") and not any(line in other for other in kernel)
    ]

#!/usr/bin/python3
"""Tests of the test hosts: what they show, what they leave behind, and that they die with their owner.

Exit status 77, with a line `skipped: REASON`, where no test host can boot. Argument --full: also a host of Debian 13.
"""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import xml.etree.ElementTree

import yaml

HERE = pathlib.Path(__file__).resolve().parent
DATA = HERE.parent / "data"
LAB = [str(HERE / "lab")]
LIMIT = 900  # seconds; a guard against hanging, not a measure: the first boot of a suite installs it


def lab(*arguments, check=True, **options):
    done = subprocess.run([*LAB, *map(str, arguments)], capture_output=True, text=True, timeout=LIMIT, **options)
    if check and done.returncode:
        raise AssertionError(
            f"lab {' '.join(map(str, arguments))} ended with {done.returncode}: {done.stderr}{done.stdout}"
        )
    return done


def on(host, command, check=True):
    """What a shell command prints on a host, run as root."""
    return lab("exec", host, "--", "sh", "-c", command, check=check).stdout


def eventually(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "it did not come true"
        time.sleep(0.02)


def is_running(process):
    """process: [pid, start time], as the lab records it."""
    try:
        fields = pathlib.Path(f"/proc/{process[0]}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return False
    return fields[0] not in "ZX" and int(fields[19]) == process[1]


class LabTest(unittest.TestCase):
    """Gives each class a lab directory of its own and, if it names cases, the hosts for them."""

    cases = ()
    options = ()

    @classmethod
    def setUpClass(cls):
        cls.directory = pathlib.Path(tempfile.mkdtemp(prefix="trueup-lab-test-", dir="/var/tmp"))
        cls.addClassCleanup(shutil.rmtree, cls.directory, ignore_errors=True)
        os.environ["TRUEUP_LAB_DIR"] = str(cls.directory)
        cls.addClassCleanup(lab, "down")
        cls.inventory = cls.directory / "inventory.yaml"
        if cls.cases:
            lab("up", *(DATA / case for case in cls.cases), *cls.options, "--owner", os.getpid(), "-o", cls.inventory)
            cls.hosts = yaml.safe_load(cls.inventory.read_text())["hosts"]

    def record(self, host):
        return json.loads((self.directory / host / "host.json").read_text())

    def ssh(self, host, account, command):
        entry = self.hosts[host]
        return subprocess.run(
            [
                "ssh",
                "-F",
                "/dev/null",
                "-o",
                "BatchMode=yes",
                "-o",
                "IdentitiesOnly=yes",
                "-i",
                entry["key"],
                "-o",
                f"UserKnownHostsFile={entry['known_hosts']}",
                "-o",
                "StrictHostKeyChecking=yes",
                f"{account}@{entry['address']}",
                command,
            ],
            capture_output=True,
            text=True,
            timeout=LIMIT,
        )


class TheIncident(LabTest):
    cases = ("cases/ct200.yaml", "cases/ct201.yaml")

    def test_the_service_died_as_in_the_story(self):
        shown = on("ct200", "systemctl show sglang-k26 -p ActiveState -p Result -p ExecMainCode -p ExecMainStatus")
        self.assertEqual(
            sorted(shown.split()), ["ActiveState=failed", "ExecMainCode=2", "ExecMainStatus=9", "Result=signal"]
        )
        journal = on("ct200", "journalctl -b -u sglang-k26 -o cat").splitlines()
        gate = "Failed to get device capability: SM 12.x requires CUDA >= 12.9."
        self.assertEqual(journal.count(gate), 2)
        self.assertEqual(journal.count("RuntimeError: FlashInfer requires GPUs with sm75 or higher"), 1)
        healthy = next(number for number, line in enumerate(journal) if '"GET /health HTTP/1.1" 200' in line)
        self.assertLess(healthy, journal.index(gate))
        self.assertIn("sglang-k26.service: Main process exited, code=killed, status=9/KILL", journal)

    def test_it_shows_why_it_worked_before(self):
        cache = "/root/.cache/flashinfer"
        self.assertEqual(
            on("ct200", f"ls {cache} {cache}/0.6.8").split(),
            [f"{cache}:", "0.6.6", "0.6.8", f"{cache}/0.6.8:", "flashinfer_jit.log"],
        )
        site = "/root/venv_sglang211/lib/python3.12/site-packages"
        dates = on(
            "ct200",
            f"stat -c %Y {cache}/0.6.6/120a/cached_ops/sampling/sampling.so {site}/torch-2.9.1+cu130.dist-info "
            f"{site}/flashinfer_python-0.6.8.dist-info",
        ).split()
        self.assertEqual(sorted(dates), [dates[1], dates[0], dates[2]], "torch, then the module, then the upgrade")

    def test_nothing_on_the_login_path_but_three_ways_to_nvcc(self):
        self.assertEqual(self.ssh("ct200", "root", "command -v nvcc").stdout, "")
        self.assertEqual(
            self.ssh("ct200", "root", "readlink -f /usr/local/cuda-12 /usr/local/cuda").stdout.split(),
            ["/usr/local/cuda-12.8"] * 2,
        )
        self.assertIn("release 12.8, V12.8.93", self.ssh("ct200", "root", "/usr/local/cuda/bin/nvcc --version").stdout)

    def test_the_twin_serves_sampled_requests(self):
        ask = "ask-server http://ct201:30000/generate '{\"sampling_params\": {\"top_p\": 0.9}}'"
        self.assertIn("token", on("ct201", ask))
        self.assertEqual(on("ct201", "systemctl is-active sglang-k26").strip(), "active")
        module = "/root/.cache/flashinfer/0.6.8/120f/cached_ops/sampling"
        self.assertIn("cuda_home = /usr/local/cuda-13.0\n", on("ct201", f"cat {module}/build.ninja"))
        self.assertIn("libcudart.so.13", on("ct201", f"readelf -d {module}/sampling.so"))

    def test_changed_is_silent_about_what_systemd_keeps(self):
        self.assertEqual(lab("changed", "ct200").stdout, "")
        on("ct200", "mkdir -p /run/systemd/system/sglang-k26.service.d; systemctl show-environment >/dev/null")
        self.assertEqual(lab("changed", "ct200").stdout, "", "systemd's own directories in /run are not ours")

    def test_accounts(self):
        self.assertEqual(self.ssh("ct200", "user", "id -un").stdout, "user\n")
        self.assertEqual(self.ssh("ct200", "ops", "sudo -n id -un").stdout, "root\n")
        self.assertIn("a password is required", self.ssh("ct200", "opspw", "sudo -n id -un").stderr)
        self.assertEqual(self.ssh("ct200", "opspw", "echo trueup-lab | sudo -S -p '' id -un").stdout, "root\n")
        self.assertNotEqual(self.ssh("ct200", "nobody", "id").returncode, 0)
        self.assertIn("Accepted publickey for ops", on("ct200", "journalctl -b -u ssh -o cat"))

    def test_hosts_have_services_of_their_own(self):
        for host in ("ct200", "ct201"):
            on(host, "systemctl restart dbus.service && systemctl is-active ssh.service")
            record = self.record(host)
            self.assertIn(
                f"/trueup-lab/{record['cgroup']}/", pathlib.Path(f"/proc/{record['init'][0]}/cgroup").read_text()
            )
            self.assertEqual(
                on(host, "systemctl is-system-running", check=False).strip(),
                "degraded" if host == "ct200" else "running",
            )

    def test_a_name_is_up_once(self):
        done = lab("up", DATA / "cases/ct200.yaml", "-o", "/dev/null", check=False)
        self.assertEqual(
            (done.returncode, done.stderr), (1, f"lab: test host 'ct200' is up already (in {self.directory})\n")
        )


class WhatAHostShows(LabTest):
    cases = ("lab/gpus.yaml",)

    def smi(self, arguments, prefix=""):
        done = lab("exec", "gpus", "--", "sh", "-c", f"{prefix}nvidia-smi {arguments}", check=False)
        return done.returncode, done.stdout

    def test_query_any_fields_in_any_order(self):
        self.assertEqual(
            self.smi("--query-gpu=pci.bus_id,memory.total,index --format=csv"),
            (
                0,
                "pci.bus_id, memory.total [MiB], index\n00000000:01:00.0, 81559 MiB, 0\n00000000:0F:00.0, [Not Supported], 1\n"
                "00000000:9B:00.0, 81920 MiB, 2\n",
            ),
        )
        self.assertEqual(
            self.smi(
                "--format=csv,noheader,nounits --query-gpu=memory.used,compute_cap,persistence_mode,utilization.gpu -i 2,0"
            ),
            (0, "2, 9.0, Enabled, [N/A]\n4098, 8.0, Enabled, 0\n"),
        )
        self.assertEqual(
            self.smi("--query-gpu=index,name,frobs --format=csv"),
            (2, 'Field "frobs" is not a valid field to query.\n\n'),
        )
        self.assertEqual(self.smi("-i 7 -L"), (6, "No devices were found\n"))
        self.assertEqual(self.smi("--query-gpu=index")[0], 2)

    def test_other_queries(self):
        self.assertEqual(
            self.smi(
                "--query-remapped-rows=gpu_bus_id,remapped_rows.uncorrectable,remapped_rows.pending --format=csv,noheader -i 2"
            ),
            (0, "00000000:9B:00.0, 2, 1\n"),
        )
        status, apps = self.smi("--query-compute-apps=process_name,used_memory,pid --format=csv,noheader,nounits")
        name, memory, pid = apps.strip().split(", ")
        self.assertEqual((status, name, memory), (0, "VLLM::Worker", "4096"))
        self.assertEqual(
            on("gpus", f"cat /proc/{pid}/comm; readlink /proc/{pid}/fd/*; ps -o ppid= -p {pid}").split(),
            ["VLLM::Worker", *["/dev/null"] * 3, "/dev/nvidia2", "1"],
        )
        listed = self.smi("-L")[1].splitlines()
        self.assertRegex(listed[0], r"^GPU 0: NVIDIA H100 80GB HBM3 \(UUID: GPU-[0-9a-f]{8}-[0-9a-f-]{27}\)$")
        self.assertEqual(listed[1], "  MIG 1g.10gb         Device  0: (UUID: MIG-66666666-7777-5888-8999-000000000000)")

    def test_reports(self):
        document = xml.etree.ElementTree.fromstring(self.smi("-q -x")[1])
        self.assertEqual(
            [gpu.get("id") for gpu in document.findall("gpu")],
            ["00000000:01:00.0", "00000000:0F:00.0", "00000000:9B:00.0"],
        )
        self.assertEqual(document.findtext("gpu/mig_mode/current_mig"), "Enabled")
        self.assertIn("    Persistence Mode                      : Disabled\n", self.smi("-q -i 1")[1])
        table = self.smi("")[1].splitlines()
        self.assertEqual({len(line) for line in table[1:] if line}, {91})
        self.assertIn("Driver Version: 580.95.05      CUDA Version: 13.0", table[2])

    def test_a_broken_driver_fails_as_the_real_one(self):
        # In a mount namespace of its own each time, so that the host stays as it is.
        def broken(how):
            return self.smi("", prefix=f"unshare -m sh -c '{how}; exec \"$@\"' sh ")

        library = "/usr/lib/x86_64-linux-gnu"
        status, text = broken("umount /sys/module")
        self.assertEqual(status, 9)
        self.assertIn("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", text)
        mismatch = "echo 570.124.06 > /run/version; mount --bind /run/version /sys/module/nvidia/version"
        self.assertEqual(
            broken(mismatch),
            (18, "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 580.95\n"),
        )
        status, text = broken(
            f"sed s,{library},/nowhere, /usr/lib/trueup-lab/nvidia.json > /run/nvidia.json; "
            "mount --bind /run/nvidia.json /usr/lib/trueup-lab/nvidia.json"
        )
        self.assertEqual(status, 12)
        self.assertIn("couldn't find libnvidia-ml.so library in your system", text)
        on("gpus", "rm -f /run/version /run/nvidia.json")

    def test_kernel_interfaces(self):
        self.assertRegex(
            on("gpus", "cat /proc/driver/nvidia/version"),
            r"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580\.95\.05  ",
        )
        self.assertIn(
            "Model: \t\t NVIDIA A100-SXM4-80GB", on("gpus", "cat /proc/driver/nvidia/gpus/0000:9b:00.0/information")
        )
        self.assertEqual(
            on(
                "gpus",
                "cat /sys/module/nvidia/version; modinfo -F version nvidia; ls /proc/driver/nvidia-nvswitch/devices | wc -l",
            ).split(),
            ["580.95.05", "580.95.05", "2"],
        )
        self.assertEqual(
            on("gpus", "grep -l 0x0302 /sys/bus/pci/devices/*/class | wc -l; lspci -d 10de: | wc -l").split(),
            ["3", "5"],
        )
        self.assertEqual(on("gpus", "stat -c %t:%T /dev/nvidia0 /dev/nvidiactl").split(), ["c3:0", "c3:ff"])
        line = "NVRM: Xid (PCI:0000:9b:00): 63, Row Remapper: New row marked for remapping"
        self.assertIn(line, on("gpus", "journalctl -k -b -o cat").splitlines())
        self.assertIn(line, on("gpus", "dmesg"))
        self.assertIn("_TRANSPORT=kernel", on("gpus", "journalctl -b -o export SYSLOG_IDENTIFIER=kernel"))

    def test_toolkit(self):
        nvcc = "/usr/local/cuda/bin/nvcc"
        compile_for = lambda target: lab(
            "exec",
            "gpus",
            "--",
            nvcc,
            "--dryrun",
            "-gencode",
            f"arch=compute_{target},code=sm_{target}",
            "-x",
            "cu",
            "-c",
            "/dev/null",
            "-o",
            "/dev/null",
            check=False,
        )
        self.assertEqual(compile_for("120a").returncode, 0)
        self.assertEqual(
            (compile_for("120f").returncode, compile_for("120f").stderr),
            (1, "nvcc fatal   : Unsupported gpu architecture 'compute_120f'\n"),
        )
        self.assertEqual(
            on("gpus", f"{nvcc} --version | tail -n 2"),
            "Cuda compilation tools, release 12.8, V12.8.93\nBuild cuda_12.8.r12.8/compiler.35583870_0\n",
        )
        on("gpus", "test -e /usr/local/cuda/lib64/libcudart.so && ! test -e /usr/local/cuda/lib64/stubs")
        self.assertIn("__GNUC__ > 14", on("gpus", "cat /usr/local/cuda/include/crt/host_config.h"))

    def test_libraries_are_for_the_linker_too(self):
        self.assertIn("libcuda.so.1 (libc6,x86-64)", on("gpus", "ldconfig -p"))
        on("gpus", "ld -shared -o /dev/null -lcuda && ! ld -shared -o /dev/null -lnvidia-frobs 2> /dev/null")

    def test_units_accounts_and_commands(self):
        self.assertEqual(
            on("gpus", "systemctl show -p ActiveState --value engine idle").split(), ["failed", "inactive"]
        )
        self.assertEqual(on("gpus", "systemctl show -p Environment --value engine").strip(), '"A=b c"')
        self.assertIn("engine says goodbye", on("gpus", "journalctl -b -u engine -o cat").splitlines())
        self.assertEqual(on("gpus", "getent passwd engine").split(":")[5], "/")
        self.assertEqual(
            self.ssh("gpus", "root", "bash -lc 'echo $CUDA_HOME'; echo $CUDA_HOME").stdout, "/opt/elsewhere\n\n"
        )
        quota = self.ssh("gpus", "user", "quota -v")
        self.assertEqual((quota.returncode, quota.stdout, quota.stderr), (3, "a line\n", "another\n"))
        self.assertEqual(
            on("gpus", "dpkg-query -W -f '${Version} ${db:Status-Abbrev}' cuda-nvcc-12-8").strip(), "12.8.93-1 ii"
        )
        self.assertRegex(on("gpus", "findmnt -no FSTYPE,OPTIONS /models"), r"^ext4 +ro,noexec,relatime(,quota,usrquota)?$")

    def test_changed_names_each_thing(self):
        self.assertEqual(self.ssh("gpus", "ops", "sudo -n true").returncode, 0)
        self.assertEqual(lab("changed", "gpus").stdout, "", "a login changes nothing that is not its own")
        on(
            "gpus",
            "cp -a /etc/fstab /root/fstab; chmod 600 /etc/fstab; ln -sfn /nowhere /usr/local/cuda; touch /tmp/new /dev/shm/new; "
            "mv /etc/issue.net /root; mv /etc/skel /etc/old; mkdir /etc/skel; chown user /root/.profile; echo >> /etc/hosts; "
            "sed -i 's/^Version: 12.8.93-1$/Version: 12.8.94-1/' /var/lib/dpkg/status; mkdir -p /var/lib/trueup; ldconfig; touch /etc/issue",
        )
        done = lab("changed", "gpus", check=False)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(
            done.stdout.splitlines(),
            [
                "changed /etc/fstab: mode 0644 -> 0600",
                "changed /etc/hosts: content",
                "removed /etc/issue.net (file)",
                "added /etc/old (directory)",
                *[f"added /etc/old/{name} (file)" for name in (".bash_logout", ".bashrc", ".profile")],
                *[f"removed /etc/skel/{name} (file)" for name in (".bash_logout", ".bashrc", ".profile")],
                "changed /root/.profile: owner 0:0 -> 1000:0",
                "added /root/fstab (file)",
                "added /root/issue.net (file)",
                "added /tmp/new (file)",
                "changed /usr/local/cuda: target /usr/local/cuda-12.8 -> /nowhere",
                "added /dev/shm/new (file)",
                "package cuda-nvcc-12-8: 12.8.93-1 -> 12.8.94-1",
            ],
        )
        on(
            "gpus",
            "cp -a /root/fstab /etc/fstab; rm /root/fstab /tmp/new /dev/shm/new; ln -sfn /usr/local/cuda-12.8 /usr/local/cuda; "
            "mv /root/issue.net /etc; rmdir /etc/skel; mv /etc/old /etc/skel; chown root /root/.profile; sed -i '$d' /etc/hosts; "
            "sed -i 's/^Version: 12.8.94-1$/Version: 12.8.93-1/' /var/lib/dpkg/status",
        )
        self.assertEqual(lab("changed", "gpus").stdout, "", "put back is not changed")


class TheReboot(LabTest):
    cases = ("cases/ct201.yaml",)

    def test_what_is_on_the_disk_stays_and_what_ran_does_not(self):
        boot_id = "cat /proc/sys/kernel/random/boot_id"
        before = on("ct201", boot_id)
        on("ct201", "echo kept > /root/kept; sync; touch /run/gone; systemd-run -q --unit=long sleep 1000")
        record = self.record("ct201")
        lab("reboot", "ct201")
        self.assertFalse(is_running(record["init"]))
        self.assertNotEqual(on("ct201", boot_id), before)
        self.assertEqual(on("ct201", "cat /root/kept; ls /run/gone 2> /dev/null; true"), "kept\n")
        self.assertEqual(on("ct201", "systemctl is-active long; true").strip(), "inactive")
        on("ct201", "ask-server http://ct201:30000/health")
        self.assertEqual(on("ct201", "nvidia-smi -L | wc -l").strip(), "8")
        self.assertEqual(self.ssh("ct201", "ops", "sudo -n id -un").stdout, "root\n")
        on("ct201", "rm /root/kept")
        self.assertEqual(lab("changed", "ct201").stdout, "")


class ThePackageRepository(LabTest):
    """It behaves as NVIDIA's does where that hurts."""

    cases = ("lab/repository.yaml",)
    install = "DEBIAN_FRONTEND=noninteractive apt-get install -y -qq"
    purge = "apt-get purge -y -qq 'cuda-*13*' cuda-toolkit-config-common 'lib*-13-0' > /dev/null 2>&1"

    def put_back(self):
        on("mirror", f"{self.purge}; apt-get clean; ln -sfnT /usr/local/cuda-12.8 /usr/local/cuda")
        self.assertEqual(lab("changed", "mirror").stdout, "")

    def default(self):
        return on("mirror", "readlink -f /usr/local/cuda").strip()

    def test_the_toolkit_brings_no_driver_and_the_metapackages_do(self):
        def wanted(name):
            lines = on("mirror", f"apt-get -s install {name}").splitlines()
            return {line.split()[1] for line in lines if line.startswith("Inst ")}

        toolkit = wanted("cuda-toolkit-13-0")
        self.assertTrue({"cuda-nvcc-13-0", "cuda-cudart-dev-13-0", "libcublas-dev-13-0"} <= toolkit, toolkit)
        drivers = {"cuda-drivers", "nvidia-open", "nvidia-driver", "nvidia-kernel-open-dkms"}
        self.assertFalse(drivers & toolkit)
        for name in ("cuda", "cuda-13-0"):
            self.assertTrue(drivers | toolkit <= wanted(name), name)
        self.assertEqual(wanted("cuda-toolkit"), {"cuda-toolkit", *toolkit})
        self.assertIn("cuda-toolkit-12-9", wanted("cuda-toolkit-12"))

    def test_a_link_made_by_hand_is_replaced_without_a_word(self):
        self.addCleanup(self.put_back)
        on("mirror", f"{self.install} cuda-toolkit-13-0 2> /dev/null")
        self.assertEqual(self.default(), "/usr/local/cuda-13.0")
        nvcc = "/usr/local/cuda-13.0/bin/nvcc"
        self.assertIn("release 13.0", on("mirror", f"{nvcc} --version"))
        on("mirror", f"{nvcc} --dryrun -gencode arch=compute_120f,code=sm_120f -x cu -c /dev/null -o /dev/null")
        on("mirror", "test -e /usr/local/cuda-13.0/lib64/libcudart.so && test -e /usr/local/cuda-13.0/include/cuda.h")
        self.assertEqual(on("mirror", "dpkg -V $(dpkg-query -W -f '${Package} ' '*-13-0*')"), "")

    def test_a_manual_choice_stays(self):
        self.addCleanup(self.put_back)
        alternatives = "update-alternatives --quiet"
        self.addCleanup(on, "mirror", f"{alternatives} --remove-all cuda")
        on(
            "mirror",
            f"{alternatives} --install /usr/local/cuda cuda /usr/local/cuda-12.8 128; "
            f"{alternatives} --set cuda /usr/local/cuda-12.8; {self.install} cuda-nvcc-13-0 2> /dev/null",
        )
        self.assertEqual(self.default(), "/usr/local/cuda-12.8")
        self.assertIn("Alternative: /usr/local/cuda-13.0\nPriority: 130", on("mirror", "update-alternatives --query cuda"))

    def test_it_fails_as_told(self):
        self.addCleanup(self.put_back)
        self.addCleanup(lab, "repository", "mirror", "ok")
        try_it = f"apt-get clean; {self.install} -o Acquire::Retries=0 -o Acquire::http::Timeout=1 cuda-toolkit-config-common 2>&1"
        for state, says in (
            ("unreachable", "Connection refused"),
            ("corrupt", "Hash Sum mismatch"),
            ("missing", "404  Not Found"),
            ("silent", "Connection failed"),
        ):
            with self.subTest(state=state):
                lab("repository", "mirror", state)
                self.assertIn(says, on("mirror", try_it, check=False))
                self.assertEqual(lab("changed", "mirror").stdout, "")
        lab("repository", "mirror", "ok")
        on("mirror", f"{self.install} cuda-toolkit-config-common")

    def test_one_of_an_unknown_kind_is_refused(self):
        path = self.directory / "case.yaml"
        path.write_text("id: ct201\nhost: {repository: yum}\n")
        self.addCleanup(path.unlink)
        done = lab("up", path, check=False)
        self.assertEqual(
            (done.returncode, done.stderr), (1, f"lab: {path}: host.repository is one of apt, apt-unlisted, not 'yum'\n")
        )


class HostsThatCannotBeWrittenTo(LabTest):
    def test_read_only(self):
        lab("up", DATA / "lab/gpus.yaml", "--read-only", "--owner", os.getpid(), "-o", self.inventory)
        self.hosts = yaml.safe_load(self.inventory.read_text())["hosts"]
        done = self.ssh(
            "gpus",
            "root",
            "for d in / /tmp /var /root /dev/shm; do touch $d/x 2>/dev/null && echo $d; done; nvidia-smi -L | wc -l",
        )
        self.assertEqual(done.stdout, "4\n")
        self.assertEqual(lab("changed", "gpus").stdout, "")
        lab("down", "gpus")

    def test_full_disk(self):
        lab("up", DATA / "lab/gpus.yaml", "--full-disk", "--owner", os.getpid(), "-o", self.inventory)
        self.hosts = yaml.safe_load(self.inventory.read_text())["hosts"]
        done = self.ssh(
            "gpus",
            "root",
            "for d in /etc /tmp /dev/shm; do echo x 2>/dev/null > $d/x && echo $d; rm -f $d/x; done; nvidia-smi -L | wc -l",
        )
        self.assertEqual(done.stdout, "4\n")
        self.assertEqual(lab("changed", "gpus").stdout, "")
        lab("down", "gpus")


class TheEnd(LabTest):
    def left_over(self, record):
        """What a host has left on this machine."""
        group = [
            top
            for top in pathlib.Path("/sys/fs/cgroup").glob(f"**/trueup-lab/{record['cgroup']}")
            if any(top.rglob("cgroup.procs"))
        ]
        mounts = pathlib.Path("/proc/self/mountinfo").read_text()
        return [
            name
            for name, there in (
                ("nspawn", is_running(record["nspawn"])),
                ("init", is_running(record["init"])),
                ("cgroup", group),
                ("mount", str(self.directory) in mounts),
                ("directory", (self.directory / "ct201").exists()),
            )
            if there
        ]

    def test_down_twice_and_nothing_is_left(self):
        lab("up", DATA / "cases/ct201.yaml", "--owner", os.getpid(), "-o", self.inventory)
        record = self.record("ct201")
        self.assertIn("init", self.left_over(record))
        lab("down", "ct201", "never-was")
        self.assertEqual(self.left_over(record), [])
        lab("down", "ct201")
        self.assertEqual(lab("changed", "ct201", check=False).stderr, "lab: no test host 'ct201' is running\n")

    def test_the_owner_is_killed(self):
        owner = subprocess.Popen(
            [
                "sh",
                "-c",
                f"'{LAB[0]}' up '{DATA}/cases/ct201.yaml' -o '{self.inventory}.owned' && echo up && exec sleep 600",
            ],
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        with contextlib.closing(owner.stdout):
            self.assertEqual(owner.stdout.readline(), "up\n")
            record = self.record("ct201")
            self.assertIn("init", self.left_over(record))
            owner.send_signal(signal.SIGKILL)
            owner.wait()
        eventually(lambda: not self.left_over(record))

    def test_the_keeper_is_killed(self):
        lab("up", DATA / "cases/ct201.yaml", "--owner", os.getpid(), "-o", self.inventory)
        record = self.record("ct201")
        keeper = int(pathlib.Path(f"/proc/{record['nspawn'][0]}/stat").read_text().rpartition(")")[2].split()[1])
        os.kill(keeper, signal.SIGKILL)
        eventually(lambda: not is_running(record["nspawn"]) and not is_running(record["init"]))
        lab("down")
        self.assertEqual(self.left_over(record), [])

    def test_a_host_that_does_not_come_up_leaves_nothing(self):
        case = self.directory.parent / f"{self.directory.name}.yaml"
        case.write_text("id: ct201\nhost: {setup: 'echo no luck >&2; exit 7'}\n")
        self.addCleanup(case.unlink)
        done = lab("up", case, check=False)
        self.assertEqual((done.returncode, done.stderr), (1, "lab: ct201: host.setup ended with 7: no luck\n"))
        self.assertFalse((self.directory / "ct201").exists())

    def test_two_at_once_get_different_addresses(self):
        parts = [
            subprocess.Popen([*LAB, "up", DATA / case, "--owner", str(os.getpid()), "-o", f"{self.inventory}.{number}"])
            for number, case in enumerate(("cases/ct201.yaml", "lab/gpus.yaml"))
        ]
        self.assertEqual([part.wait(LIMIT) for part in parts], [0, 0])
        addresses = {
            entry["address"]
            for number in (0, 1)
            for entry in yaml.safe_load(pathlib.Path(f"{self.inventory}.{number}").read_text())["hosts"].values()
        }
        self.assertEqual(len(addresses), 2)
        lab("down")


class Mistakes(LabTest):
    def test_unknown_field(self):
        path = DATA / "lab/misspelt.yaml"
        done = lab("up", path, check=False)
        self.assertEqual(
            (done.returncode, done.stderr),
            (1, f"lab: {path}:5:5: unknown field 'compute_cpa' in environment.gpus[0]; did you mean 'compute_cap'?\n"),
        )

    def test_missing_file(self):
        self.assertEqual(
            lab("up", "/nowhere.yaml", check=False).stderr, "lab: /nowhere.yaml: No such file or directory\n"
        )

    def test_in_a_chroot_it_says_so(self):
        make = """
          mount -t tmpfs none /mnt && mkdir /mnt/root && cd /mnt/root || exit 9
          for name in $(ls /); do
            if [ -L "/$name" ]; then cp -a "/$name" .; fi
            if [ -d "/$name" ] && [ "$name" != mnt ] && mkdir "$name" 2> /dev/null; then mount --rbind "/$name" "$name"; fi
          done
          exec chroot . "$@"
        """
        done = subprocess.run(
            ["unshare", "-m", "sh", "-c", make, "sh", *LAB, "available"], capture_output=True, text=True, timeout=LIMIT
        )
        self.assertEqual((done.returncode, done.stdout), (1, "in a chroot\n"), done.stderr)


class Debian13(LabTest):
    cases = ("cases/ct200.yaml", "lab/gpus.yaml", "lab/repository.yaml")
    options = ("--base", "trixie")

    def test_the_same_hosts(self):
        self.assertIn('VERSION_ID="13"', on("gpus", "cat /etc/os-release"))
        self.assertEqual(on("ct200", "systemctl show sglang-k26 -p Result --value").strip(), "signal")
        self.assertEqual(self.ssh("ct200", "ops", "sudo -n id -un").stdout, "root\n")
        self.assertIn("Xid", on("gpus", "journalctl -k -b -o cat"))
        self.assertIn("cuda-nvcc-13-0", on("mirror", "apt-get -s install cuda-toolkit-13-0"))
        self.assertEqual([lab("changed", host).stdout for host in self.hosts], ["", "", ""])


def main():
    full = "--full" in sys.argv
    reason = lab("available", check=False)
    if reason.returncode:
        print(f"skipped: {reason.stdout.strip()}")
        return 77
    names = [argument for argument in sys.argv[1:] if argument != "--full"]
    classes = [Debian13] if full else [
        TheIncident,
        WhatAHostShows,
        TheReboot,
        ThePackageRepository,
        HostsThatCannotBeWrittenTo,
        TheEnd,
        Mistakes,
    ]
    loader = unittest.defaultTestLoader
    suite = (
        loader.loadTestsFromNames(names, sys.modules[__name__])
        if names
        else unittest.TestSuite(loader.loadTestsFromTestCase(one) for one in classes)
    )
    return 0 if unittest.TextTestRunner(verbosity=2).run(suite).wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())

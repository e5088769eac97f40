"""A fleet of simulated hosts (tests/fleet): what they answer, what is wrong with them, and their inventory."""
import base64
import contextlib
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent
RECORDINGS = SOURCE / "tests" / "data" / "fleet"
NONCE = "0" * 32
ABSENT = "221"  # the status with which a probe says so


class Fleet(contextlib.AbstractContextManager):
    """`count` hosts, `sim00001` and on. `faults`: number of a host -> a fault of tests/fleet/fault.hpp, `refuse` or
    `silent`. Host N answers as recording N % len(recordings), over `lasts` milliseconds."""

    def __init__(self, trueup, program, count, faults=None, recordings=("ct201",), workers=1, lasts=0):
        self.trueup, self.program, self.count, self.faults = trueup, program, count, faults or {}
        self.recordings, self.workers, self.lasts = recordings, workers, lasts
        self.connections = self.answers = None  # known once it has ended

    def __enter__(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="trueup-fleet-"))
        try:
            for key in ("host_key", "other_host_key", "user_key"):
                make_key(self.directory / key)
            write_answers(self.trueup, self.recordings, self.directory / "answers")
            served = {host: fault for host, fault in self.faults.items() if fault not in ("refuse", "silent")}
            write(self.directory / "faults", "".join(f"{host} {fault}\n" for host, fault in served.items()))
            self.process = subprocess.Popen([self.program, str(self.directory), str(self.workers), str(self.lasts)],
                                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            ready = self.process.stdout.readline().split()
            if ready[:1] != ["ready"]:
                raise AssertionError(f"the simulated fleet did not start; it ended with {self.process.wait()}")
            self.port, self.closed, self.silent = (int(port) for port in ready[1:])
            self.write_known_hosts()
            self.inventory = self.write_inventory(self.count)
        except BaseException:
            shutil.rmtree(self.directory)
            raise
        return self

    def __exit__(self, *_):
        said, _ = self.process.communicate()  # closes its standard input, by which it ends
        shutil.rmtree(self.directory)
        words = said.split()
        self.connections, self.answers = int(words[1]), int(words[3])

    def address(self, host):
        return f"127.1.{host >> 8}.{host & 255}"

    def name(self, host):
        return f"sim{host:05}"

    def port_of(self, host):
        return {"refuse": self.closed, "silent": self.silent}.get(self.faults.get(host), self.port)

    def write_known_hosts(self):
        """A line for each host, as a fleet's file has them."""
        key = " ".join((self.directory / "host_key.pub").read_text().split()[:2])
        write(self.directory / "known_hosts",
              "".join(f"[{self.address(host)}]:{self.port} {key}\n" for host in range(1, self.count + 1)))

    def write_inventory(self, count, path=None):
        path = path or self.directory / "inventory.yaml"
        lines = ["defaults:", "  user: root", f"  key: {self.directory}/user_key",
                 f"  known_hosts: {self.directory}/known_hosts", f"  port: {self.port}", "hosts:"]
        for host in range(1, count + 1):
            port = f", port: {self.port_of(host)}" if self.port_of(host) != self.port else ""
            lines.append(f"  {self.name(host)}: {{address: {self.address(host)}{port}}}")
        write(path, "\n".join(lines) + "\n")
        return str(path)


def seeded_faults(kinds, count, seed):
    """Each of `kinds` on a host of its own among 1 to `count`."""
    return dict(zip(random.Random(seed).sample(range(1, count + 1), len(kinds)), kinds))


def write(path, text):
    pathlib.Path(path).write_text(text, encoding="utf-8")


def make_key(path):
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(path)], check=True)


def probe_script(trueup):
    return subprocess.run([trueup, "probe-script"], check=True, capture_output=True, text=True).stdout


def probe_ids(trueup, output):
    """The probes of an output of the probe script, in its order."""
    with tempfile.NamedTemporaryFile("w", suffix=".out") as file:
        file.write(output)
        file.flush()
        report = subprocess.run([trueup, "audit", "--no-store", "--format", "json", "--from-output", file.name],
                                capture_output=True, text=True, check=False)
    return [probe["id"] for probe in json.loads(report.stdout)["hosts"][0]["probes"]]


def record(trueup, output):
    """What each probe gave, by its id: {status, output, errors}. Text, so that a recording can be read and compared."""
    nonce = re.search(r"^trueup-output 1 (\S+)", output).group(1)
    probes = {id_: {"status": None, "output": b"", "errors": []} for id_ in probe_ids(trueup, output)}
    rows = list(probes.values())
    for line in output.splitlines():
        words = line.split(" ", 3)
        if words[0] != nonce or len(words) < 4:
            continue
        row, kind, rest = rows[int(words[1])], words[2], words[3]
        if kind == "o":
            row["output"] += base64.b64decode(rest)
        elif kind == "h":
            row["output"] += bytes.fromhex(rest)
        elif kind == "e":
            row["errors"].append(rest)
        elif kind == "x":
            row["status"] = rest.split()[0]
    for row in rows:
        row["output"] = row["output"].decode()
    return probes


def write_answers(trueup, recordings, directory):
    """Recordings as this program's bundle would frame them: its probes in its order, whatever the recording's. A probe
    that is newer than the recording finds nothing."""
    head = re.search(r"'trueup-output 1 [0-9a-f]{32} (\S+) (\d+)'", probe_script(trueup))
    head = f"trueup-output 1 {NONCE} {head.group(1)} {head.group(2)}\n"
    ids = probe_ids(trueup, f"{head}{NONCE} end\n")
    directory.mkdir()
    for number, name in enumerate(recordings):
        probes = json.loads((RECORDINGS / f"{name}.json").read_text(encoding="utf-8"))
        text = head
        for index, id_ in enumerate(ids):
            row = probes.get(id_, {"status": ABSENT, "output": "", "errors": []})
            encoded = base64.b64encode(row["output"].encode()).decode()
            text += f"{NONCE} {index} b 100.00\n"
            for at in range(0, len(encoded), 384):
                text += f"{NONCE} {index} o {encoded[at:at + 384]}\n"
            for line in row["errors"]:
                text += f"{NONCE} {index} e {line}\n"
            text += f"{NONCE} {index} x {row['status']} 100.50\n"
        write(directory / f"{number:03}", f"{text}{NONCE} end\n")

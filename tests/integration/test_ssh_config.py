"""Whose `ssh HOST` works needs to configure nothing: hosts of ~/.ssh/config, with a real sshd on loopback."""
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import unittest

from hosts import TRUEUP, audit, run

PLAYBOOK = """\
probes:
  disks:
    into: disks
    parse: {kv: {fields: {mount: text}}}
    script: echo mount=/
checks:
  any.thing:
    title: nothing is mounted
    severity: error
    needs: [disks]
    assert: (.disks | length) > 0
    because: Something always is.
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Sshd:
    """An sshd on 127.0.0.1 with its own host key; `key` opens it."""

    def __init__(self, directory, name, more=""):
        self.path = pathlib.Path(directory) / name
        self.path.mkdir()
        self.port = free_port()
        for key in ["host_key", "key"]:
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.path / key], check=True)
        self.key = self.path / "key"
        (self.path / "authorized_keys").write_bytes((self.path / "key.pub").read_bytes())
        public = (self.path / "host_key.pub").read_text().strip()
        self.known_hosts = f"[127.0.0.1]:{self.port} {public}\n"
        (self.path / "sshd_config").write_text(
            f"ListenAddress 127.0.0.1\nPort {self.port}\nHostKey {self.path}/host_key\nPidFile none\nUsePAM no\n"
            f"AuthorizedKeysFile {self.path}/authorized_keys\nStrictModes no\nPasswordAuthentication no\n"
            f"PermitRootLogin yes\n{more}")
        if os.geteuid() == 0:
            os.makedirs("/run/sshd", exist_ok=True)
        self.process = subprocess.Popen(["/usr/sbin/sshd", "-D", "-e", "-f", self.path / "sshd_config"],
                                        stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr:
            if "Server listening" in line:
                break
        else:
            raise AssertionError("sshd did not start")

    def close(self):
        self.process.terminate()
        self.process.wait()
        self.process.stderr.close()

    def block(self, name, more=""):
        user = run("id", "-un").stdout.strip()
        return (f"Host {name}\n  HostName 127.0.0.1\n  Port {self.port}\n  User {user}\n"
                f"  IdentityFile {self.key}\n{more}")


class SshConfig(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = directory.name
        self.ssh = pathlib.Path(self.directory) / ".ssh"
        self.ssh.mkdir(mode=0o700)
        self.playbook = pathlib.Path(self.directory) / "playbook.yaml"
        self.playbook.write_text(PLAYBOOK)
        self.environment = {**os.environ, "HOME": self.directory, "SSH_AUTH_SOCK": ""}

    def sshd(self, name, more=""):
        sshd = Sshd(self.directory, name, more)
        self.addCleanup(sshd.close)
        return sshd

    def config(self, text, *known):
        path = self.ssh / "config"
        path.write_text(text)
        path.chmod(0o600)
        (self.ssh / "known_hosts").write_text("".join(sshd.known_hosts for sshd in known))

    def audit(self, *arguments):
        return audit("--no-store", "-p", str(self.playbook), *arguments, env=self.environment)

    def test_a_name_of_ssh_config_is_a_host(self):
        sshd = self.sshd("gpu")
        self.config(sshd.block("gpu1"), sshd)
        result = self.audit("-i", "gpu1,")
        self.assertEqual(result.status, 0, result.errors)
        self.assertEqual(result.host("gpu1")["status"], "audited")
        self.assertEqual(result.errors, "")

    def test_behind_a_bastion(self):
        bastion, gpu = self.sshd("bastion"), self.sshd("gpu")
        self.config(bastion.block("jump") + gpu.block("gpu*", "  ProxyJump jump\n"), bastion, gpu)
        result = self.audit("-i", "gpu[1:5],")
        self.assertEqual(result.status, 0, result.errors)
        self.assertEqual([host["status"] for host in result.document["hosts"]], ["audited"] * 5)

    def test_a_bastion_that_fails_is_told_once_with_the_hosts_behind_it(self):
        bastion, gpu = self.sshd("bastion"), self.sshd("gpu")
        self.config(bastion.block("jump") + gpu.block("gpu*", "  ProxyJump jump\n"), gpu)
        done = run(TRUEUP, "audit", "--no-store", "-p", str(self.playbook), "-i", "gpu[1:5],", check=False,
                   env=self.environment)
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertEqual(done.stdout.count("jumping through jump: checking the host key"), 1, done.stdout)
        self.assertIn("5 hosts: gpu[1-5]", done.stdout)

    def test_a_program_is_the_way(self):
        sshd = self.sshd("gpu")
        relay = pathlib.Path(self.directory) / "relay.py"
        relay.write_text("import os, socket, sys, threading\n"
                         "s = socket.create_connection((sys.argv[1], int(sys.argv[2])))\n"
                         "def up():\n"
                         "    while d := os.read(0, 65536): s.sendall(d)\n"
                         "    s.shutdown(1)\n"
                         "threading.Thread(target=up, daemon=True).start()\n"
                         "while d := s.recv(65536): os.write(1, d)\n")
        self.config(sshd.block("gpu1", f"  ProxyCommand {sys.executable} {relay} %h %p\n"), sshd)
        result = self.audit("-i", "gpu1,")
        self.assertEqual(result.status, 0, result.errors + result.text)

    def test_the_options_go_before_the_files(self):
        bastion, gpu = self.sshd("bastion"), self.sshd("gpu")
        self.config("Host *\n  Port 1\n", bastion, gpu)
        other = self.ssh / "other"
        other.write_text(bastion.block("jump") + gpu.block("gpu1"))
        self.assertEqual(self.audit("-i", "gpu1,", "-F", str(other), "-J", "jump").status, 0)
        result = self.audit("-i", "localhost,", "-F", "none", "--connect-timeout", "2s")
        self.assertNotIn("port 1", result.text)

    def test_what_is_not_done_is_noted_once(self):
        sshd = self.sshd("gpu")
        self.config(sshd.block("gpu*", "  StrictHostKeyChecking no\n  CertificateFile ~/c\n  ForwardAgent yes\n"), sshd)
        result = self.audit("-i", "gpu[1:3],")
        self.assertEqual(result.status, 0, result.errors)
        notes = [line for line in result.errors.splitlines() if line.startswith("note: ")]
        self.assertEqual(len(notes), 2, result.errors)
        self.assertIn(f"note: {self.ssh}/config:7: CertificateFile ~/c: ", result.errors)
        self.assertIn(f"note: {self.ssh}/config:6: StrictHostKeyChecking no: ", result.errors)

    def test_a_file_that_others_can_write_is_refused(self):
        self.config("Host *\n  Port 1\n")
        (self.ssh / "config").chmod(0o666)
        result = self.audit("-i", "gpu1,")
        self.assertEqual(result.status, 2)
        self.assertIn(f"{self.ssh}/config' can be written by others (mode 0666)", result.errors)
        self.assertIn("chmod go-w", result.errors)

    def test_mistakes_are_told_with_their_place_unless_no_host_needs_them(self):
        self.config("Port x\nHost gpu\n  IdentitiesOnly perhaps\n")
        result = self.audit("-i", "gpu1,")
        self.assertEqual(result.status, 2)
        self.assertIn(f"{self.ssh}/config:1: 'Port': expected a port from 1 to 65535, got 'x'", result.errors)
        self.assertIn(f"{self.ssh}/config:3: 'IdentitiesOnly': expected yes or no, got 'perhaps'", result.errors)
        self.assertEqual(self.audit().status, 0)

    def test_new_host_keys_are_accepted_when_that_is_asked_for_and_by_no_command_that_changes(self):
        sshd = self.sshd("gpu")
        self.config(sshd.block("gpu1", "  HashKnownHosts no\n"))
        self.assertEqual(self.audit("-i", "gpu1,").status, 4)
        result = self.audit("-i", "gpu1,", "--accept-new-host-keys")
        self.assertEqual(result.status, 0, result.errors)
        self.assertIn("new host key ssh-ed25519 SHA256:", result.errors)
        self.assertEqual((self.ssh / "known_hosts").read_text().split()[:2], sshd.known_hosts.split()[:2])
        self.assertEqual(self.audit("-i", "gpu1,").status, 0)
        for command in ["plan", "apply"]:
            done = run(TRUEUP, command, "--accept-new-host-keys", check=False, env=self.environment)
            self.assertEqual(done.returncode, 2, done.stdout)
            self.assertIn("--accept-new-host-keys", done.stderr)


if __name__ == "__main__":
    if not os.access("/usr/sbin/sshd", os.X_OK):
        print("skipped: no /usr/sbin/sshd (install openssh-server)")
        sys.exit(77)
    unittest.main(verbosity=2)

"""The command line."""

import argparse
import os
import shlex
import subprocess
import sys

from . import repository
from .system import LabError


def say(text):
    print(f"lab: {text}", file=sys.stderr, flush=True)


def parse_owner(text):
    if text in ("parent", "none"):
        return text
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{text}' is neither a process id nor 'none'") from None


def parser():
    top = argparse.ArgumentParser(prog="lab", description="Test hosts: real systems, one per case file.")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    up = commands.add_parser("up", help="boot one host per case file and write an inventory")
    up.add_argument("cases", nargs="+", metavar="CASE.yaml")
    up.add_argument(
        "--base", choices=("bookworm", "trixie"), default="bookworm", help="the system they run (default: bookworm)"
    )
    up.add_argument(
        "-o", "--output", metavar="INVENTORY", help="where to write the inventory (default: standard output)"
    )
    up.add_argument(
        "--owner",
        type=parse_owner,
        default="parent",
        metavar="PID|none",
        help="the hosts end when this process does (default: the one that called lab)",
    )
    up.add_argument(
        "--disk", type=int, metavar="MIB", help="a disk of this size for what the host writes, so that it can get full"
    )
    up.add_argument("--full-disk", action="store_true", help="boot with a disk of 64 MiB and fill it")
    up.add_argument("--read-only", action="store_true", help="make the host's file systems read-only once it is up")
    up.add_argument(
        "--real-nvcc", action="store_true", help="mount this machine's /usr/local/cuda-13.0 for the case's toolkit 13.0"
    )
    down = commands.add_parser("down", help="end hosts and remove them; all of them, if none is named")
    down.add_argument("names", nargs="*", metavar="NAME")
    changed = commands.add_parser(
        "changed", help="what differs from the state after boot, one line each; exit 1 if anything"
    )
    changed.add_argument("name", metavar="NAME")
    fill = commands.add_parser("fill", help="fill the disk of a host booted with --disk")
    fill.add_argument("name", metavar="NAME")
    fill.add_argument("--undo", action="store_true", help="take away again what filled it")
    again = commands.add_parser("reboot", help="power off and on: the host boots again from what its disk holds")
    again.add_argument("name", metavar="NAME")
    packages = commands.add_parser("repository", help="how the host's package repository answers from now on")
    packages.add_argument("name", metavar="NAME")
    packages.add_argument("state", choices=repository.STATES)
    enter = commands.add_parser("exec", help="run a command on a host as root, without SSH")
    enter.add_argument("name", metavar="NAME")
    enter.add_argument("words", nargs=argparse.REMAINDER, metavar="-- CMD")
    commands.add_parser("list", help="names and addresses of the hosts that are up")
    commands.add_parser("available", help="exit 0 if test hosts can boot here, else 1 and one line why not")
    return top


def inventory(hosts):
    """Our inventory format; all paths are absolute."""
    lines = ["hosts:"]
    for host in hosts:
        lines += [
            f"  {host.name}:",
            f"    address: 127.10.0.{host.read()['number']}",
            "    user: root",
            f"    key: {host.directory}/id_ed25519",
            f"    known_hosts: {host.directory}/known_hosts",
        ]
    return "\n".join(lines) + "\n"


def run(arguments):
    from . import available, base, case, host, system

    if arguments.command == "available":
        reason = available.reason()
        if reason:
            print(reason)
        return 1 if reason else 0
    if arguments.command == "up":
        cases = [case.load(path) for path in arguments.cases]
        reason = available.reason_quick()
        if reason:
            raise LabError(f"test hosts cannot boot here: {reason}")
        owner = {"parent": os.getppid(), "none": None}.get(arguments.owner, arguments.owner)
        hosts = host.up(
            cases,
            arguments.base,
            say,
            system.identity(owner) if owner else None,
            64 if arguments.full_disk else arguments.disk,
            arguments.real_nvcc,
        )
        try:
            for one in hosts:
                if arguments.full_disk:
                    host.fill(one)
                host.remember(one)
                if arguments.read_only:
                    host.make_read_only(one)
            text = inventory(hosts)
            if arguments.output:
                with open(arguments.output, "w") as file:
                    file.write(text)
            else:
                sys.stdout.write(text)
        except BaseException:
            host.down([one.name for one in hosts])
            raise
    elif arguments.command == "down":
        host.down(arguments.names or host.all_names())
    elif arguments.command == "changed":
        lines = host.differences(arguments.name)
        sys.stdout.writelines(f"{line}\n" for line in lines)
        return 1 if lines else 0
    elif arguments.command == "reboot":
        host.reboot(arguments.name)
    elif arguments.command == "repository":
        repository.set_state(host.Host(arguments.name), arguments.state)
    elif arguments.command == "fill":
        (host.free if arguments.undo else host.fill)(host.Host(arguments.name))
    elif arguments.command == "exec":
        words = arguments.words[1:] if arguments.words[:1] == ["--"] else arguments.words
        return host.Host(arguments.name).enter(words or ["/bin/bash"]).returncode
    elif arguments.command == "list":
        for name in host.all_names():
            record = host.Host(name).read() or {}
            if record.get("init") and system.is_alive(record["init"]):
                print(f"{name} 127.10.0.{record['number']} {shlex.quote(record['base'])}")
    return 0


def main(argv):
    arguments = parser().parse_args(argv)
    try:
        return run(arguments)
    except LabError as error:
        say(error)
        return 1
    except subprocess.CalledProcessError as error:
        say(f"{' '.join(map(str, error.cmd))[:300]} ended with {error.returncode}")
        return 1
    except KeyboardInterrupt:
        return 130

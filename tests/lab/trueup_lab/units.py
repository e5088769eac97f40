"""Accounts, login environments, systemd units and the programs they run."""

import json
import os
import re
import shlex

from .case import Case
from .driver import program_lines
from .python_env import PythonEnv
from .system import LabError
from .tree import GUEST_FILES, HOME

UNIT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin"
# What libpam-systemd does for a user's own systemd; the hosts do without it, as each login would start one.
WITHOUT_PAM = "[Service]\nPAMName=\nEnvironment=XDG_RUNTIME_DIR=/run/user/%i\n"
RESULTS = ("success", "exit-code", "signal", "core-dump")


def services(case: Case):
    """The case's units, with the one added for environments whose programs no unit runs."""
    units = [
        dict(unit, env={key: str(value) for key, value in (unit.get("env") or {}).items()})
        for unit in case.get("services", [])
    ]
    envs = [PythonEnv(case, given) for given in case.get("python_envs", [])]
    if envs and not any(_runs(case, unit, env) for unit in units for env in envs):
        path = case.service_environment.get("PATH", "")
        env = next((env for env in envs if env.programs in path.split(":")), envs[-1])
        if "vllm" in env.packages:
            command = f"{env.programs}/vllm serve"
        elif "sglang" in env.packages:
            command = f"{env.interpreter} -m sglang.launch_server"
        else:
            command = f"{env.interpreter} /srv/inference/serve.py"
        failed = bool(program_lines(case))
        units.append(
            {
                "unit": "inference.service",
                "user": case.account,
                "exec": command,
                "env": case.service_environment,
                "state": "failed" if failed else "active",
                "result": "exit-code" if failed else "success",
            }
        )
    for unit in units:
        if unit.get("result", "success") not in RESULTS:
            raise LabError(
                f"{case.name}: {unit['unit']}: result '{unit['result']}' cannot be played; known: {', '.join(RESULTS)}"
            )
    return units


def _runs(case, unit, env):
    """Whether a unit's command, or the script it names, is a program of an environment."""
    text = unit.get("exec", "")
    text += str(case.files.get(text.split()[0] if text else "", ""))
    return env.path in text or (
        env.is_system and re.search(r"(^|\s)(/usr/bin/python3|/usr/local/bin/(vllm|sglang))", text) is not None
    )


def speaking_unit(case):
    """Name of the unit under which the lines of `symptom` belong: the failed one, else the first of an engine."""
    units = services(case)
    failed = [unit for unit in units if unit.get("state") == "failed"]
    running = [unit for unit in units if unit.get("state") == "active" and not unit["unit"].startswith("nvidia-")]
    return next((unit["unit"] for unit in failed + running), None)


def write(case, tree):
    envs = [PythonEnv(case, given) for given in case.get("python_envs", [])]
    _accounts(case, tree)
    _login(case, tree)
    speaker = speaking_unit(case)
    for unit in services(case):
        name = unit["unit"]
        runs_engine = any(_runs(case, unit, env) for env in envs)
        tree.file(
            f"{HOME}/units/{name}.json",
            json.dumps(
                {
                    "state": unit.get("state"),
                    "result": unit.get("result", "success"),
                    "uses_gpus": runs_engine,
                    "lines": program_lines(case) if name == speaker else [],
                }
            ),
        )
        _unit_file(case, tree, unit)
        _program(case, tree, envs, shlex.split(unit["exec"]))
    versions = {
        "nv-fabricmanager": next(
            (
                f"Fabric Manager version is : {str(version).split('-')[0]}"
                for package, version in case.get("system_packages", {}).items()
                if "fabricmanager" in package
            ),
            "",
        )
    }
    tree.file(f"{HOME}/versions.json", json.dumps(versions))
    tree.file(f"{HOME}/player.py", GUEST_FILES["player.py"])
    tree.program(f"{HOME}/gpu-process", GUEST_FILES["gpu-process"])
    for env in envs:
        for program in ("vllm", "sglang"):
            if program in env.packages and not os.path.lexists(f"{env.programs}/{program}"):
                _play(tree, f"{env.programs}/{program}", env.interpreter)


def _accounts(case, tree):
    next_id = 990
    for unit in services(case):
        name = unit.get("user", "root")
        with open("/etc/passwd") as file:
            known = {line.split(":")[0] for line in file}
        if name in known:
            continue
        home = unit.get("home") or f"/home/{name}"
        line = f"{name}:x:{next_id}:{next_id}::{home}:/usr/sbin/nologin\n"
        tree.append("/etc/passwd", line)
        tree.append("/etc/group", f"{name}:x:{next_id}:\n")
        tree.append("/etc/shadow", f"{name}:*:20000:0:99999:7:::\n")
        tree.add_account(line)
        if home.startswith("/home/"):
            tree.directory(home)
        next_id -= 1


def _login(case, tree):
    variables = dict(case.login)
    if case.get("nvcc_on_path") and "PATH" not in variables and not case.get("python_envs"):
        toolkit = (case.cuda_link_target and "/usr/local/cuda") or next(
            (entry["path"] for entry in case.get("cuda_toolkits", [])), None
        )
        if toolkit and toolkit != "/usr":
            variables["PATH"] = f"{toolkit}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    if variables:
        home = "/home/user" if case.account == "user" else "/root"
        tree.append(
            f"{home}/.profile", "".join(f"export {key}={shlex.quote(value)}\n" for key, value in variables.items())
        )


def _unit_file(case, tree, unit):
    env = dict(unit.get("env") or {})
    lines = ["[Unit]", f"Description={unit['unit'].removesuffix('.service')}", "After=network.target", "", "[Service]"]
    if unit.get("user", "root") != "root" and not unit.get("manager"):
        lines.append(f"User={unit['user']}")
    lines += [
        "Environment=\"%s=%s\"" % (key, value.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%"))
        for key, value in env.items()
    ]
    directory, target = "/etc/systemd/system", "multi-user.target"
    if unit.get("manager"):
        directory, target = f"/home/{unit['manager']}/.config/systemd/user", "default.target"
        tree.file(f"/var/lib/systemd/linger/{unit['manager']}", "")
        tree.file("/etc/systemd/system/user@.service.d/lab.conf", WITHOUT_PAM)
    lines += [f"ExecStart={unit['exec']}", "", "[Install]", f"WantedBy={target}", ""]
    path = f"{directory}/{unit['unit']}"
    tree.file(path, "\n".join(lines))
    if unit.get("state") in ("active", "failed"):
        tree.link(f"{directory}/{target}.wants/{unit['unit']}", path)


def _play(tree, path, interpreter):
    tree.program(path, f"#!{interpreter}\nexec(open(\"{HOME}/player.py\").read())\n")


def _program(case, tree, envs, command):
    """The program of a unit, for what no other part of the host provides."""
    program, *arguments = command
    if re.search(r"/python[0-9.]*$", program) and arguments:
        env = next(
            (
                env
                for env in envs
                if program.startswith(env.programs + "/") or (env.is_system and program.startswith("/usr/bin/"))
            ),
            None,
        )
        if arguments[0] == "-m" and env:
            parts = arguments[1].split(".")
            for depth in range(1, len(parts)):
                if not os.path.exists(f"{env.site}/{'/'.join(parts[:depth])}/__init__.py"):
                    tree.file(f"{env.site}/{'/'.join(parts[:depth])}/__init__.py", "")
            _play(tree, f"{env.site}/{'/'.join(parts)}.py", env.interpreter)
        elif arguments[0].startswith("/"):
            _play(tree, arguments[0], program)
    elif program not in case.files:
        env = next((env for env in envs if program.startswith(env.programs + "/")), None)
        _play(tree, program, env.interpreter if env else "/usr/bin/python3")

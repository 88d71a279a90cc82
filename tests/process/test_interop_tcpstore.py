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
# What each client does beyond a limit, and then a client that does not.
LIMITS = """
import datetime, os
import torch.distributed as dist

def client():
    return dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False,
                         wait_for_workers=False, timeout=datetime.timedelta(seconds=300))

def beyond(what, call):
    try:
        call(client())
    except Exception as error:
        print("beyond", what, type(error).__name__, flush=True)
    else:
        print("accepted", what, flush=True)

long = "k" * 4096
beyond("value", lambda store: (store.set("v", b"x" * ((1 << 20) + 1)), store.get("v")))
beyond("append", lambda store: (store.set("a", b"x" * (1 << 20)), store.append("a", "x"), store.get("a")))
beyond("key", lambda store: (store.set(long, "x"), store.get(long)))
beyond("wait", lambda store: store.wait([long]))
beyond("keys", lambda store: store.check(["k"] * 131073))
beyond("request", lambda store: (store.multi_set([str(i) for i in range(65)], ["x" * (1 << 20)] * 65), store.get("0")))
store = client()
names = [str(i) for i in range(1000)]
store.multi_set(names, names)
print("within", store.multi_get(names) == [name.encode() for name in names], flush=True)
"""
BEYOND = {  # {what: the end of the run's line}
    "value": "SET: a value with a size of 1048577, and at most 1048576 are possible",
    "append": "APPEND: a limit is reached (value_bytes_max: 1048576)",
    "key": "SET: a limit is reached (key_bytes_max: 4096)",
    "wait": "WAIT: a limit is reached (key_bytes_max: 4096)",
    "keys": "CHECK: a number of keys of 131073, and at most 131072 are possible",
    "request": "its request has more than 64 MiB",
}


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


def test_limits(spawn, muster):
    """Clients go beyond each limit of the store: of a key, of a value, of the keys and the bytes of a request. Each gets
    DistNetworkError at once, a line of the run names the limit, and the next client is served."""
    run = Run(spawn, muster, 1, "--front", "tcpstore", rank=[client("torch") / "python", "-W", "ignore", "-c", LIMITS])
    run.out.wait_for("within True", patience_s=300)
    assert run.run.wait() == 0
    assert [line.split()[-2:] for line in run.out.having("beyond")] == [[what, "DistNetworkError"] for what in BEYOND]
    for line, words in zip(run.log.having("is disconnected"), BEYOND.values(), strict=True):
        assert re.fullmatch(r"muster run: tcpstore: client \d+ \(process \d+\) is disconnected: " + re.escape(words), line)

# SPDX-License-Identifier: Apache-2.0
"""A program of JAX for the tests, with nothing of muster in it. Each word of the command line is a
step; each line of its output begins with the process's index."""
import os
import signal
import sys
import time

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ.pop("XLA_FLAGS", None)

import jax  # noqa: E402

if "recoverable" in sys.argv:
    jax.config.update("jax_enable_recoverability", True)
jax.distributed.initialize(initialization_timeout=120, heartbeat_timeout_seconds=100)

import jax.numpy as jnp  # noqa: E402
from jax._src import distributed  # noqa: E402
from jax.experimental import multihost_utils  # noqa: E402

client = distributed.global_state.client
me, size = jax.process_index(), jax.process_count()


def say(*words):
    sys.stdout.write(" ".join(map(str, (me,) + words)) + "\n")
    sys.stdout.flush()


def psum():
    return int(multihost_utils.process_allgather(jnp.array([me + 1])).sum())


def kv():
    client.key_value_set(f"color/{me}", f"blue{me}")
    other = (me + 1) % size
    got = client.blocking_key_value_get(f"color/{other}", 60000)
    client.wait_at_barrier("written", 60000)
    names = sorted(name for name, _ in client.key_value_dir_get("color/"))
    count = client.key_value_increment("counter", 2) if hasattr(client, "key_value_increment") else -1
    say("kv", got, ",".join(names), count > 0)


def barrier(name, ms):
    try:
        client.wait_at_barrier(name, ms)
        say("barrier", name, "passed")
    except Exception as error:  # what the user sees
        say("barrier", name, "failed:", str(error).replace("\n", " "))


def wait_for(path):
    while not os.path.exists(path):
        time.sleep(0.02)


say("pid", os.getpid(), "of", size)
for word in sys.argv[1:]:
    what, _, rest = word.partition("=")
    if what == "psum":
        say("sum", psum())
    elif what == "kv":
        kv()
    elif what == "barrier":
        barrier(rest, 60000)
    elif what == "barrier-without":  # INDEX: all others wait a second for it
        if me != int(rest):
            barrier("missing", 1000)
    elif what == "barrier-late":  # INDEX,PATH: that one comes once the file is there
        late, path = rest.split(",", 1)
        if me == int(late):
            wait_for(path)
        barrier("late", 60000)
    elif what == "live":
        say("live", sorted(client.get_live_nodes(list(range(size)))))
    elif what == "wait":
        say("waits")
        wait_for(rest)
    elif what == "preempt":
        for step in range(1, 1000000):
            if step % 50 == 0:
                say("took", step)
            if multihost_utils.reached_preemption_sync_point(step):
                say("preempted at", step)
                break
            time.sleep(0.01)
    elif what == "die" and me == int(rest):
        say("dies")
        os.kill(os.getpid(), signal.SIGKILL)
    elif what == "fail-first" and me == int(rest) and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        say("fails")
        os._exit(3)
    elif what == "steps":  # of the processes that live, until FILE is there
        for step in range(1000000):
            live = sorted(client.get_live_nodes(list(range(size))))
            if os.path.exists(rest):
                say("lived", live)
                break
            time.sleep(0.02)
jax.distributed.shutdown()
say("ended")

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

given = dict(word.partition("=")[::2] for word in sys.argv[1:])
if "recoverable" in given:
    jax.config.update("jax_enable_recoverability", True)
jax.distributed.initialize(
    initialization_timeout=120, heartbeat_timeout_seconds=int(given.get("heartbeat", 100))
)

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


def outcome(name, call):
    try:
        result = call()
    except Exception as error:  # what the user sees
        result = str(error).replace("\n", " ")
    say("outcome", name + ":", result)


def without_others():
    """The calls of one client, each with its outcome."""
    client.key_value_set("k", "1")
    outcome("set again", lambda: client.key_value_set("k", "2"))
    outcome("set, allow_overwrite", lambda: client.key_value_set("k", "2", allow_overwrite=True))
    outcome("get, timeout", lambda: client.blocking_key_value_get("none", 300))
    outcome("try_get, no key", lambda: client.key_value_try_get("none"))
    outcome("increment, no key", lambda: client.key_value_increment("count", 5))
    client.key_value_set("word", "ten")
    outcome("increment, no number", lambda: client.key_value_increment("word", 1))
    client.key_value_set("folder/a", "1")
    client.key_value_set("folder/b/c", "2")
    outcome("dir_get", lambda: sorted(client.key_value_dir_get("folder")))
    outcome("delete", lambda: client.key_value_delete("folder"))
    outcome("dir_get, deleted", lambda: client.key_value_dir_get("folder"))
    outcome("delete, no key", lambda: client.key_value_delete("folder"))
    outcome("barrier, timeout", lambda: client.wait_at_barrier("alone", 1000))
    outcome("barrier, stranger", lambda: client.wait_at_barrier("strange", 1000, [1]))
    outcome("barrier, twice the same", lambda: client.wait_at_barrier("twice", 1000, [0, 0]))
    outcome("barrier, passed", lambda: client.wait_at_barrier("own", 1000, [0]))
    outcome("live, stranger", lambda: client.get_live_nodes([1]))


def calls(path):
    other, names = (me + 1) % size, list(range(size))
    for turn in range(1000000):
        client.key_value_set(f"turn/{turn}/{me}", str(me))
        assert client.blocking_key_value_get(f"turn/{turn}/{other}", 60000) == str(other)
        client.key_value_increment("turns", 1)
        if me == 0:
            client.key_value_set(f"last/{turn}", str(int(os.path.exists(path))))
        assert sorted(client.get_live_nodes(names)) == names
        client.wait_at_barrier(f"turn/{turn}", 60000)
        client.key_value_delete(f"turn/{turn}")
        if client.blocking_key_value_get(f"last/{turn}", 60000) == "1":
            break
        time.sleep(0.01)
    client.wait_at_barrier("counted", 60000)
    say("turns", turn + 1, client.key_value_increment("turns", 0))


def second_client():
    from jax._src.lib import _jax

    second = _jax.get_distributed_runtime_client(
        os.environ["JAX_COORDINATOR_ADDRESS"], me, init_timeout=30, shutdown_on_destruction=False
    )
    second.connect()
    return second


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
    elif what == "read":
        outcome(f"read {rest}", lambda: client.key_value_try_get(rest))
    elif what == "alone" and me == 0:
        without_others()
    elif what == "again" and me == int(rest):  # INDEX: its process registers a second client
        outcome("register again", lambda: second_client().get_live_nodes([me]) and "connected")
    elif what == "outcome":  # NAME: the barrier of all, also of those that are lost
        outcome(rest, lambda: client.wait_at_barrier(rest, 3000))
    elif what == "after-shutdown":
        distributed.global_state.preemption_sync_manager.shutdown()
        client.shutdown()
        if me == 0:
            outcome("get after shutdown", lambda: client.key_value_try_get("none"))
            outcome("barrier after shutdown", lambda: client.wait_at_barrier("after", 1000))
        sys.stdout.flush()
        os._exit(0)
    elif what == "calls":  # of all kinds, again and again, until FILE is there
        calls(rest)
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
                client.wait_at_barrier("lived", 60000, live)  # none leaves before all have seen it here
                break
            time.sleep(0.02)
jax.distributed.shutdown()
say("ended")

# SPDX-License-Identifier: Apache-2.0
"""What a store of torch.distributed answers: `store_rank.py KIND`, with the same calls for each kind. `keys` is
muster's without torch; `muster`, `prefix` are with it; `hash` and `tcp` are torch's own."""

import datetime
import json
import os
import sys
import threading

SHORT = datetime.timedelta(milliseconds=50)
LONG = datetime.timedelta(seconds=60)


def said(call, *words):
    """What a call returns, or the name of what it raises."""
    try:
        answer = call(*words)
    except Exception as failure:
        return type(failure).__name__
    return repr(answer)


def story(store):
    """(what was called, what came of it)"""
    before = store.num_keys()  # a TCPStore begins with one of its own
    yield "a number", said(store.add, "n", 5)
    yield "less", said(store.add, "n", -2)
    yield "it is text", said(store.get, "n")
    yield "a number that was set", said(store.set, "n", "10"), said(store.add, "n", 1)
    yield "bytes", said(store.set, "b", b"\x00\xff"), said(store.get, "b")
    yield "nothing", said(store.set, "empty", ""), said(store.get, "empty")
    yield "no name", said(store.set, "", "x"), said(store.get, "")
    yield "appended", said(store.append, "a", "1"), said(store.append, "a", b"\xff"), said(store.get, "a")
    yield "absent, something expected", said(store.compare_set, "c", "x", "y"), said(store.check, ["c"])
    yield "absent, nothing expected", said(store.compare_set, "c", "", "y"), said(store.get, "c")
    yield "not as expected", said(store.compare_set, "c", "x", "z"), said(store.get, "c")
    yield "as expected", said(store.compare_set, "c", "y", "z"), said(store.get, "c")
    yield "empty as expected", said(store.compare_set, "empty", "", "now"), said(store.get, "empty")
    yield "all there", said(store.check, ["a", "b"]), said(store.wait, ["a", "b"])
    yield "one missing", said(store.check, ["a", "none"]), said(store.check, [])
    yield "several", said(store.multi_set, ["u", "v"], ["1", b"2"]), said(store.multi_get, ["v", "u"])
    yield "how many", store.num_keys() - before
    yield "deleted", said(store.delete_key, "u"), said(store.delete_key, "u"), said(store.check, ["u"])
    yield "how many then", store.num_keys() - before
    yield "one that does not come", said(store.wait, ["none"], SHORT)
    store.set_timeout(SHORT)
    yield "nor in the store's time", said(store.get, "none"), said(store.wait, ["a", "none"])
    yield "among several", said(store.multi_get, ["a", "none"])
    store.set_timeout(LONG)
    yield "its time", said(lambda: store.timeout)
    writer = threading.Thread(target=store.clone().set, args=("late", "x"))
    writer.start()
    yield "one that comes", said(store.get, "late")
    writer.join()
    yield "extended", said(store.has_extended_api)


def together():
    """(what was set at once, what came of it)"""
    store = keys()
    for name, count, size in ("many", 300, 1), ("large", 20, 1 << 20):
        names = [f"{name}{i}" for i in range(count)]
        yield name, said(store.multi_set, names, ["x" * size] * count), store.multi_get(names) == [b"x" * size] * count
    yield "one cannot be set", said(store.multi_set, ["good", "\0"], ["x", "x"]), said(store.check, ["good"])


def keys():
    import muster
    from muster._store import KeyStore

    class Plain(KeyStore):
        expired = type("DistStoreError", (RuntimeError,), {})

        def set_timeout(self, timeout):
            self.timeout = timeout

    job = muster.open()
    return Plain(job.keys, job.view.generation, "torch/1/")


def tcp():
    import torch.distributed as dist
    return dist.TCPStore("127.0.0.1", 0, 1, True)


def of_hash():
    import torch.distributed as dist
    return dist.HashStore()


def of_muster():
    import muster
    import muster.torch
    return muster.torch.Store(muster.open())


def prefix():
    """Through torch's C++, as its process groups call."""
    import torch.distributed as dist
    kept.append(of_muster())
    return dist.PrefixStore("p", kept[0])


kept = []
KINDS = {"keys": keys, "tcp": tcp, "hash": of_hash, "muster": of_muster, "prefix": prefix}

if __name__ == "__main__":
    for step in together() if sys.argv[1] == "together" else story(KINDS[sys.argv[1]]()):
        print(json.dumps(step), flush=True)

# SPDX-License-Identifier: Apache-2.0
"""The documented interface of torch's TCPStore, called by real clients of the store at MASTER_ADDR and
MASTER_PORT. Nothing of muster is in it: it says the same with torch's own server. Each part ends with a
line of its name."""
import datetime
import os
import sys
import threading
import time

import torch.distributed as dist


def ms(number):
    return datetime.timedelta(milliseconds=number)


def client(**more):
    more.setdefault("timeout", ms(60000))
    more.setdefault("wait_for_workers", False)
    return dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False, **more)


def late(call, *words):
    try:
        call()
    except Exception as error:
        assert all(word in str(error) for word in words), error
    else:
        raise AssertionError(f"{call} does not end")


def put(store, key, value):
    """Its own get comes after its set. Another client's may come before: set() returns at once."""
    store.set(key, value)
    assert store.get(key) == (value.encode() if isinstance(value, str) else value)


def keys(store):
    assert store.num_keys() == 0
    other = client(world_size=5, wait_for_workers=True)
    assert store.num_keys() == 1
    put(store, "color", "blue")
    assert other.get("color") == b"blue"
    put(store, "color", "red")
    assert other.get("color") == b"red"
    for size in (0, 1, 1439, 1440, 1441, 4096, 65536, 1 << 20):
        value = bytes(i % 251 for i in range(size))
        put(store, "value", value)
        assert other.get("value") == value, size
    for key in ("a//b c", "é中", "k" * 4000):
        put(store, key, key)
        assert other.get(key) == key.encode()


def numbers(store):
    assert [store.add("n", i) for i in (1, 2, 3, -10, 0)] == [1, 3, 6, -4, -4]
    assert store.get("n") == b"-4"
    assert store.add("zero", 0) == 0 and store.check(["zero"])
    store.set("text", "41")
    assert store.add("text", 1) == 42


def deleted(store):
    store.set("gone", "x")
    before = store.num_keys()
    assert store.delete_key("gone") and not store.delete_key("gone") and not store.delete_key("never")
    assert store.num_keys() == before - 1
    store.set_timeout(ms(100))
    late(lambda: store.get("gone"), "100ms", "/gone")
    store.set("gone", "back")
    assert store.get("gone") == b"back"
    store.set_timeout(ms(60000))


def compared(store):
    assert store.compare_set("c", "x", "a") == b"x" and not store.check(["c"])
    assert store.compare_set("c", "", "a") == b"a"
    assert store.compare_set("c", "", "b") == b"a"
    assert store.compare_set("c", "x", "b") == b"a"
    assert store.compare_set("c", "a", "b") == b"b"


def many(store):
    store.set("foo", "po")
    store.append("foo", "tato")
    store.append("bar", "po")
    store.append("bar", "tato")
    store.append("empty", "")
    assert store.multi_get(["foo", "bar"]) == [b"potato"] * 2
    assert store.check(["empty"]) and store.get("empty") == b""
    names = [f"many{i}" for i in range(5000)]
    store.multi_set(names, names)
    assert store.multi_get(names) == [name.encode() for name in names]
    assert store.check(names)
    if hasattr(store, "list_keys"):
        listed = store.list_keys()
        assert set(names) < set(listed) and not [key for key in listed if key.startswith("/") or key == "init/"]
        inner = dist.PrefixStore("p", store)
        inner.set("mine", "x")
        assert list(inner.list_keys()) == ["mine"]


def waits(store):
    late(lambda: store.wait(["bad"], ms(250)), "250ms")
    ways = [
        lambda s, k: s.set(k, "x"), lambda s, k: s.add(k, 1), lambda s, k: s.append(k, "x"),
        lambda s, k: s.multi_set([k], ["x"]), lambda s, k: s.compare_set(k, "", "x"),
    ]
    for i, way in enumerate(ways):
        came = []
        other = client()
        waiting = threading.Thread(target=lambda: came.append(other.get(f"late{i}")))
        waiting.start()
        way(store, f"late{i}")
        waiting.join(60)
        assert came in ([b"x"], [b"1"]), (i, came)
    store.wait([f"late{i}" for i in range(5)], ms(60000))


def counted(store):
    def hammer():
        mine = client()
        for _ in range(50):
            mine.add("hammer", 1)

    threads = [threading.Thread(target=hammer) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert store.get("hammer") == b"400"


def barriers(store):
    if not hasattr(store, "barrier"):
        return
    passed = []

    def arrive():
        client().barrier("b", 3, ms(60000))
        passed.append(1)

    threads = [threading.Thread(target=arrive) for _ in range(2)]
    for thread in threads:
        thread.start()
    client().barrier("b", 3, ms(60000))
    for thread in threads:
        thread.join(60)
    assert len(passed) == 2 and store.get("b") == b"3"
    late(lambda: store.barrier("alone", 2, ms(200)), "200ms")
    assert store.check(["b"])


def queues(store):
    try:
        assert store.queue_len("q") == 0
    except (AttributeError, RuntimeError) as error:  # a client without libuv refuses by itself
        print("no queues:", error, flush=True)
        return
    assert not store.check(["q"])
    store.queue_push("q", "1")
    store.queue_push("q", "2")
    assert store.check(["q"]) and store.queue_len("q") == 2
    store.wait(["q"])
    assert store.queue_pop("q") == b"1" and store.queue_pop("q") == b"2"
    assert not store.check(["q"]) and store.queue_len("q") == 0
    late(lambda: store.queue_pop("q", block=False), "")
    got = []

    def consume():
        mine = client()
        for _ in range(20):
            got.append(mine.queue_pop("work"))

    threads = [threading.Thread(target=consume) for _ in range(4)]
    for thread in threads:
        thread.start()
    for i in range(80):
        store.queue_push("work", str(i))
    for thread in threads:
        thread.join(120)
    assert sorted(got) == sorted(str(i).encode() for i in range(80)), got


def clones(store):
    if hasattr(store, "clone"):
        store.set("original", "x")
        assert store.clone().get("original") == b"x"


parts = [keys, numbers, deleted, compared, many, waits, counted, barriers, queues, clones]
mine = client()
for part in parts:
    began = time.monotonic()
    part(mine)
    print("part", part.__name__, file=sys.stdout, flush=True)
print("ended", flush=True)

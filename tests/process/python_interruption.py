# SPDX-License-Identifier: Apache-2.0
"""Two ranks: when rank 1 is in the place that the first argument names, rank 0 fails, and rank 1 is to
leave it. The second argument: a folder for both. The third: soft_timeout and hard_timeout, "20,40"."""

import asyncio
import ctypes
import importlib
import os
import pathlib
import queue
import select
import socket
import subprocess
import sys
import threading
import time

import muster

NAME, FOLDER = sys.argv[1], pathlib.Path(sys.argv[2])
SOFT_S, HARD_S = map(float, sys.argv[3].split(","))
LONG_S = 3600
LOOK_S = 0.05
CLEANS_S = 1.0  # how long what cleans up takes
STRUCK = FOLDER / "struck"
MODULE = """
import __main__
__main__.kept["imports"] = __main__.kept.get("imports", 0) + 1
__main__.until_struck_and_longer()
last = 1
"""
kept = {}  # what this process remembers from one attempt to the next


def say(what, **values):
    """One write: lines of several threads and processes stay whole."""
    words = [f"{key}={value}" for key, value in values.items()]
    sys.stdout.write(" ".join([what, f"pid={os.getpid()}", *words]) + "\n")
    sys.stdout.flush()


def here():
    """Its file has the process, and appears at once."""
    (FOLDER / "here.new").write_text(str(os.getpid()), encoding="ascii")
    (FOLDER / "here.new").rename(FOLDER / "here")


def until(path):
    while not path.exists():
        time.sleep(LOOK_S)


def watch(thread):
    """Says that the function stands still in its place, or moves there if it never stands."""
    before, same = None, 0
    while same < 3:
        time.sleep(LOOK_S)
        frame = sys._current_frames().get(thread)
        now = (frame.f_code, frame.f_lasti) if frame and NAME not in MOVE else None
        same = same + 1 if now == before else 0
        before = now
        while frame is not None and frame.f_code is not PLACES[NAME].__code__:
            frame = frame.f_back
        same = 0 if frame is None else same
    here()


def until_asleep(pid):
    """The same of a process whose interpreter's lock is held, seen from outside."""
    before, same = None, 0
    while same < 3:
        time.sleep(LOOK_S)
        with open(f"/proc/{pid}/status", encoding="ascii") as status:
            now = [line for line in status if line.startswith(("State:", "voluntary_ctxt_switches:"))]
        same = same + 1 if now == before and "sleeping" in now[0] else 0
        before = now


def watched():
    threading.Thread(target=watch, args=(threading.get_ident(),), daemon=True).start()


def until_struck_and_longer():
    until(STRUCK)
    lasts()


def lasts():
    end = time.monotonic() + CLEANS_S
    while time.monotonic() < end:
        time.sleep(LOOK_S)


def no_children():
    """What a place has started is gone."""
    with open(f"/proc/self/task/{os.getpid()}/children") as children:
        assert not children.read(), "a child is left"


# ---- places ----


def loop(call):
    count = 0
    while True:
        count += 1


def sleep(call):
    time.sleep(LONG_S)


def recv(call):
    ours, theirs = socket.socketpair()
    ours.recv(1)


def select_(call):
    ours, theirs = socket.socketpair()
    select.select([ours], [], [])


def lock(call):
    held = threading.Lock()
    held.acquire()
    held.acquire()


def queue_get(call):
    queue.Queue().get()


def join(call):
    thread = threading.Thread(target=time.sleep, args=(LONG_S,), daemon=True)
    thread.start()
    thread.join()


def subprocess_(call):
    subprocess.run(["sleep", str(LONG_S)])


def numpy(call):
    import numpy

    values = numpy.ones((800, 800))
    while True:
        values @ values


def finally_(call):
    try:
        time.sleep(LONG_S)
    finally:
        lasts()
        kept["clean"] = True


class Lasting:
    def __enter__(self):
        pass

    def __exit__(self, *_):
        lasts()
        kept["clean"] = True


def with_(call):
    with Lasting():
        time.sleep(LONG_S)


def except_exception(call):
    while True:
        try:
            time.sleep(LONG_S)
        except Exception:
            kept["clean"] = False


def except_base(call):
    kept["swallowed"] = 0
    while True:
        try:
            time.sleep(LONG_S)
        except BaseException:
            kept["swallowed"] += 1
            if kept["swallowed"] == 3:
                raise


def numbers():
    try:
        while True:
            yield time.sleep(LONG_S)
    finally:
        kept["clean"] = True


def generator(call):
    for _ in numbers():
        pass


def asyncio_(call):
    async def waits():
        try:
            await asyncio.sleep(LONG_S)
        finally:
            kept["clean"] = True

    asyncio.run(waits())


def imports(call):
    (FOLDER / "lasting").mkdir()
    (FOLDER / "lasting" / "__init__.py").write_text("from . import core\n")
    (FOLDER / "lasting" / "core.py").write_text(MODULE)
    sys.path.insert(0, str(FOLDER))
    importlib.invalidate_caches()
    import lasting

    time.sleep(LONG_S)


def is_whole():
    import lasting

    kept["clean"] = kept["imports"] == lasting.core.last == 1


def c_free(call):
    ctypes.CDLL(None).pause()


def c_held(call):
    ctypes.PyDLL(None).pause()


def deadlock(library):
    """A call that a signal does not end."""
    mutex = ctypes.create_string_buffer(64)
    library.pthread_mutex_lock(mutex)
    library.pthread_mutex_lock(mutex)


def c_free_stuck(call):
    deadlock(ctypes.CDLL(None))


def c_held_stuck(call):
    deadlock(ctypes.PyDLL(None))


def atomic(call):
    with call.atomic():
        until_struck_and_longer()
        kept["clean"] = True
    kept["clean"] = False  # the end of the section is where it is raised


def thread_loop(call):
    loop(call)


def thread_sleep(call):
    time.sleep(LONG_S)


def gloo(call):
    import torch

    muster.torch.init(call, "gloo")
    torch.distributed.all_reduce(torch.ones(4))


def ddp(call):
    import torch

    muster.torch.init(call, "gloo")
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 64))
    model(torch.ones(8, 64)).sum().backward()
    float(next(model.parameters()).grad.sum())


def data_loader(call):
    import torch

    class Slow(torch.utils.data.Dataset):
        def __len__(self):
            return LONG_S

        def __getitem__(self, index):
            time.sleep(CLEANS_S)
            return index

    for number, _ in enumerate(torch.utils.data.DataLoader(Slow(), num_workers=2)):
        if number == 0:  # the workers are there
            watched()


PLACES = {
    "loop": loop,
    "sleep": sleep,
    "recv": recv,
    "select": select_,
    "lock": lock,
    "queue": queue_get,
    "join": join,
    "subprocess": subprocess_,
    "numpy": numpy,
    "gloo": gloo,
    "ddp": ddp,
    "data_loader": data_loader,
    "finally": finally_,
    "with": with_,
    "except_exception": except_exception,
    "except_base": except_base,
    "generator": generator,
    "asyncio": asyncio_,
    "import": imports,
    "c_free": c_free,
    "c_held": c_held,
    "c_free_stuck": c_free_stuck,
    "c_held_stuck": c_held_stuck,
    "atomic": atomic,
    "thread_loop": thread_loop,
    "thread_sleep": thread_sleep,
}
MOVE = ("loop", "numpy", "thread_loop")
CLEANS = ("finally", "with", "generator", "asyncio", "atomic")  # what must have run to its end
HELD = ("c_held", "c_held_stuck")  # nothing else of Python runs then
MARKS_ITSELF = ("data_loader", *HELD)
AFTER = {"subprocess": no_children, "data_loader": no_children, "import": is_whole}


def prepare(call):
    """What rank 0 has to do so that rank 1 gets into its place."""
    if NAME in ("gloo", "ddp"):
        import torch

        muster.torch.init(call, "gloo")
        if NAME == "ddp":
            torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 64))


def strikes(call):
    prepare(call)
    until(FOLDER / "here")
    if NAME in HELD:
        until_asleep(int((FOLDER / "here").read_text(encoding="ascii")))
    STRUCK.with_suffix(".new").write_text(str(time.monotonic_ns()))
    STRUCK.with_suffix(".new").rename(STRUCK)
    raise RuntimeError("struck")


def is_struck(call):
    if NAME not in MARKS_ITSELF:
        watched()
    if NAME in HELD:
        here()
    kept["clean"] = NAME not in CLEANS
    try:
        PLACES[NAME](call)
    except BaseException as left:
        kept["left"] = time.monotonic_ns()
        kept["by"] = type(left).__name__
        raise


def ends(call):
    """The second attempt."""
    if "left" in kept:
        AFTER.get(NAME, lambda: None)()
        after = (kept["left"] - int(STRUCK.read_text())) / 1e9
        clean = int(kept["clean"])
        say("left", after=f"{after:.3f}", by=kept["by"], clean=clean, attempt=call.iteration)
    else:
        say("replaced", faults=",".join(fault.kind.name for fault in call.faults))


@muster.Wrapper(soft_timeout=SOFT_S, hard_timeout=HARD_S, barrier_timeout=4 * HARD_S, grace=1, replace_wait=60)
def work(call: muster.Call):
    if STRUCK.exists():
        if call.index == 1:
            ends(call)
    elif call.index == 1:
        is_struck(call)
    else:
        strikes(call)


if NAME in ("gloo", "ddp"):
    import muster.torch
if NAME.startswith("thread") and os.environ["RANK"] == "1":
    beside = threading.Thread(target=work)
    beside.start()
    beside.join()
else:
    work()
say("ends")

# SPDX-License-Identifier: Apache-2.0
"""The functions of the workers of test_python_cluster.py; python_cluster.py is their coordinator."""

import os
import pathlib
import sys
import threading
import time

from muster import worker

HOLD = pathlib.Path(os.environ["HOLD"])


class Broken(Exception):
    """What one of them raises."""

    def __init__(self, what, number):
        super().__init__(what, number)
        self.number = number


class Unreadable(Exception):
    """Its pickle has one argument, and it needs two."""

    def __init__(self, one, two):
        super().__init__(f"{one} {two}")


def mark(name):
    with open(HOLD / name, "a", encoding="ascii") as file:
        file.write(f"{os.getpid()}\n")


def until(name):
    while not (HOLD / name).exists():
        time.sleep(0.005)


@worker.function("square", pure=True)
def square(x):
    return x * x


@worker.function
def give(*args, **kwargs):
    return args, kwargs


@worker.function
def nothing():
    return None


@worker.function("newer", version=1)
def newer_1():
    return 1


@worker.function("newer", version=2)
def newer_2():
    return 2


@worker.function
def breaks(number):
    try:
        {}["missing"]
    except KeyError as why:
        raise Broken("broken", number) from why


@worker.function
def breaks_meanwhile():
    try:
        {}["missing"]
    except KeyError:
        raise Broken("broken", 1)


@worker.function
def unreadable():
    raise Unreadable("one", "two")


class Unprintable(Exception):
    """Neither its text nor its pickle can be made."""

    def __str__(self):
        raise RuntimeError("it has no text")

    __repr__ = __str__
    __reduce__ = __str__


@worker.function
def unprintable():
    raise Unprintable("x")


class Unmade:
    """Its pickle cannot be read."""

    def __reduce__(self):
        return int, ("no number",)


@worker.function
def returns_what_cannot_be_read():
    return Unmade()


@worker.function
def ends():
    return next(iter(()))


@worker.function
def exits():
    raise SystemExit(3)


@worker.function
def forks(how):
    """A child comes out of the function: the status that it ends with."""
    pid = os.fork()
    if pid != 0:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if how == "raises":
        raise Broken("in the child", 1)
    if how == "exits":
        sys.exit(3)
    return "the child's"


@worker.function
def keeps_a_lock():
    return threading.Lock()


@worker.function(idempotent=True)
def tidies():
    """It sees that it was cancelled, and takes its time then."""
    try:
        mark("tidies")
        while True:  # without a pause: it sees it before the signal comes
            worker.check_cancelled()
    except worker.Stopped:
        time.sleep(0.5)  # dozens of signals
        mark("tidied")
        raise


@worker.function(idempotent=True)
def waits(name):
    """Until there is a mark of that name, or it is cancelled. The pid of its worker."""
    try:
        mark("waits")
        while not (HOLD / name).exists():
            worker.check_cancelled()
            time.sleep(0.005)
    except worker.Stopped:
        mark("stopped")
        raise
    return os.getpid()


@worker.function(idempotent=True)
def hears():
    """Shows once that Python runs, and waits for ever."""
    mark("waits")
    until("hear")
    mark("heard")
    until("never")


@worker.function
def goes_on(how):
    """Without a look at whether it is cancelled."""
    mark("goes_on")
    try:
        if how == "sleeps":
            time.sleep(3600)
        elif how == "locked":
            lock = threading.Lock()
            lock.acquire()
            lock.acquire()
        else:
            while True:
                try:
                    sum(range(1000))
                except Exception:
                    pass
    finally:
        time.sleep(0.25)  # it is not raised again at once
        mark("cleaned")


@worker.function
def imports_slowly():
    import python_slow

    return python_slow.number


@worker.function(retry_on=(ConnectionError,))
def flaky(kind):
    attempt = worker.current().attempt
    if attempt > 2:
        return attempt
    raise worker.Retry("once more") if kind == "retry" else ConnectionError("once more")


@worker.function
def about():
    task = worker.current()
    task.log("a line of a function")
    task.progress(0.5, "half")
    return {
        "worker": worker.get_current_worker_index(),
        "slot": task.slot,
        "closure": task.closure,
        "key": task.key,
        "host": task.host,
        "left": task.left,
        "cancelled": task.cancelled,
    }


@worker.function
def shard(size):
    """Every second number, from the one of this worker."""
    mark("shard")
    return range(worker.get_current_worker_index(), size, 2)


@worker.function
def model(bias):
    mark("model")
    return {"bias": bias, "calls": 0}


LARGE = 500_000


@worker.function
def cannot_load(size=1):
    raise Broken("no model " * (size // 9), 7)


@worker.function
def takes(iterator, count=1):
    return worker.get_current_worker_index(), [next(iterator) for _ in range(count)]


@worker.function
def applies(x, nested):
    nested["model"][0]["calls"] += 1
    return x + nested["model"][0]["bias"], nested["model"][0]["calls"]


@worker.function(raw=True)
def joins(*parts):
    return b"-".join(parts)


@worker.function(raw=True)
def splits(text):
    return text.split(b"-")


@worker.function
def array_facts(array):
    array.flat[0] = 5  # it is the function's own
    return array.dtype.str, array.shape, float(array.sum())


@worker.function(borrow=True)
def borrowed_facts(array):
    return array.flags.writeable, array.flags.owndata, array[:100000]


kept = []


@worker.function
def keeps(array):
    kept.append(array)


@worker.function
def sums_of_kept():
    return [float(array.sum()) for array in kept]


@worker.function(borrow=True)
def keeps_what_it_borrowed(array):
    kept.append(array)


@worker.function(borrow=True)
def breaks_with_what_it_borrowed(array):
    part = array[1:]
    breaks(len(part))


@worker.function
def state_fails():
    raise worker.StateServerFailed("ps0", "no answer")


worker.command("upper", ["tr", "a-z", "A-Z"])
worker.command("aborts", ["sh", "-c", "kill -ABRT $$"])
worker.command("print", ["printf", "%s.%s"])

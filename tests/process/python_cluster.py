# SPDX-License-Identifier: Apache-2.0
"""A coordinator in Python: python_cluster.py MODE, with python_steps.py on the workers."""

import asyncio
import atexit
import collections
import concurrent.futures
import gc
import os
import pathlib
import signal
import sys
import threading
import time
import traceback
import weakref

import muster
import python_steps as steps
from muster import cluster
from muster.cluster import Coordinator, Executor, as_completed

HOLD = pathlib.Path(os.environ["HOLD"])


def say(*words):
    print(*words, flush=True)


PATIENCE_S = 50  # less than whoever waits for this program has, who would not see where it stands


def until(check):
    end = time.monotonic() + PATIENCE_S
    while not check():
        assert time.monotonic() < end
        time.sleep(0.005)


def lines(name):
    return (HOLD / name).read_text().split() if (HOLD / name).exists() else []


def raises(kind, call, *args, **kwargs):
    try:
        call(*args, **kwargs)
    except kind as failure:
        return failure
    raise AssertionError(f"{call} has not raised {kind}")


def values(job):
    with Coordinator(job) as c:
        value = c.schedule(steps.square, args=(7,))
        assert value.fetch() == value.get() == value.result() == 49 and value.done()
        assert value.exception() is None and not value.cancelled()
        assert c.schedule("square", (3,)).fetch() == 9
        assert c.schedule(steps.give, (1, [2]), {"three": {"x": (3,)}}).fetch() == (
            (1, [2]), {"three": {"x": (3,)}})
        assert c.schedule(steps.nothing).fetch() is None
        assert (c.schedule(steps.newer_1).fetch(), c.schedule(steps.newer_2).fetch()) == (1, 2)
        assert c.schedule("newer", version=1).fetch() == 1
        many = c.map(steps.square, range(3000))
        c.join()
        assert c.done()
        assert c.fetch({"list": many, "other": (many[2], "text")}) == {
            "list": [x * x for x in range(3000)], "other": (4, "text")}
        given = collections.defaultdict(list, a=many[3])
        assert c.fetch(given)["b"] == [] and c.fetch(given)["a"] == 9
        assert c.fetch(c.schedule_many(steps.give, "ab", [1, 2])) == [
            (("a", 1), {}), (("b", 2), {})]
        assert sorted(value.fetch() for value in as_completed(c.map(steps.square, range(50)))) == [
            x * x for x in range(50)]
        options = {"idempotent": True, "run": 50, "total": 60, "retries": 2, "group": 5, "key": "k"}
        told = c.schedule(steps.about, **options).fetch()
        assert told["worker"] in (0, 1) and told["key"] == "k" and not told["cancelled"], told
        assert 0 < told["left"] <= 60 and told["closure"] > 3000
        assert c.schedule("joins", (b"a", b"b")).exception() is not None  # it is not declared as raw
        assert raises(TypeError, c.join)
        raw = [c.schedule(steps.joins, (b"a", bytearray(b"b"))), c.schedule(steps.splits, (b"x-y",)),
               c.schedule(steps.joins)]
        assert c.fetch(raw) == [b"a-b", [b"x", b"y"], b""]
        until(lambda: c.counts().workers_present == 2)
        counts = c.counts()
        assert counts.queued == 0 and counts.values > 3000
        assert [one.state.name for one in c.workers()] == ["PRESENT", "PRESENT"]
        c.dismiss()
        assert c.dismissed
        assert raises(muster.Cancelled, c.schedule, steps.nothing)


def errors(job):
    with Coordinator(job) as c:
        value = c.schedule(steps.breaks, (7,))
        failure = raises(steps.Broken, c.join)
        assert failure.number == 7 and repr(failure.__cause__) == "KeyError('missing')"
        assert raises(steps.Broken, value.fetch) is value.exception() is failure
        text = "".join(traceback.format_exception(type(failure), failure, None))
        assert "python_steps.py" in text and '{}["missing"]' in text, text
        assert "worker.py" not in str(failure.__cause__.__cause__)
        (first,) = c.failures()
        assert first.origin == cluster.Origin.FUNCTION and first.worker in (0, 1), first
        assert "python_steps.Broken" in first.text and "python_steps.py:" in first.text
        c.schedule(steps.breaks, (8,))  # whose value is not kept
        assert raises(steps.Broken, c.join).number == 8
        c.join()  # it was raised once
        c.schedule(steps.breaks, (9,))
        until(lambda: c.counts().failures == 3)
        assert raises(steps.Broken, c.schedule, steps.nothing).number == 9
        c.schedule(steps.breaks, (10,))
        until(lambda: c.counts().failures == 4)
        assert raises(steps.Broken, c.done).number == 10
        failure = c.schedule(steps.breaks_meanwhile).exception()
        assert repr(failure.__context__) == "KeyError('missing')"
        raises(steps.Broken, c.join)
        assert isinstance(c.schedule(steps.unreadable).exception(), cluster.RemoteError)
        assert "unreadable" in str(raises(cluster.RemoteError, c.join).__cause__)
        failure = c.schedule(steps.unprintable).exception()
        assert str(failure) == "python_steps.Unprintable: <exception str() failed>", str(failure)
        raises(cluster.RemoteError, c.join)
        raises(StopIteration, c.fetch, [c.schedule(steps.ends)])
        raises(StopIteration, c.join)
        value = c.schedule(steps.returns_what_cannot_be_read)
        assert isinstance(value.exception().__cause__, ValueError)
        assert raises(cluster.RemoteError, value.fetch) is value.exception()
        c.join()
        assert str(c.schedule(steps.exits).exception()) == "SystemExit: 3"
        raises(cluster.RemoteError, c.join)
        assert c.schedule(steps.flaky, ("retry",), retries=2).fetch() == 3
        assert c.schedule(steps.flaky, ("other",), retries=2).fetch() == 3
        assert isinstance(c.schedule(steps.flaky, ("other",)).exception(), ConnectionError)
        raises(ConnectionError, c.join)
        c.state_server("ps0")
        lost = raises(cluster.PSUnavailableError, c.schedule(steps.state_fails).fetch)
        assert isinstance(lost, muster.StateServer) and lost.failure.state_server == "ps0"
        assert raises(cluster.PSUnavailableError, c.join)
        late = c.schedule(steps.waits, ("never",), run=0.2)
        assert isinstance(raises(cluster.DeadlineError, late.fetch), (TimeoutError, muster.Failed))
        raises(cluster.DeadlineError, c.join)
        c.dismiss()


def lines_of_errors(job):
    """What a person reads who has made a mistake."""
    with Coordinator(job, policy="isolate") as c:
        value = c.schedule(steps.nothing)
        for failure in (
            raises(TypeError, c.schedule, steps.square, (threading.Lock(),)),
            raises(TypeError, c.schedule, steps.square, (1,), {"by": [threading.Lock()]}),
            raises(TypeError, c.schedule, steps.square, ([value],)),
            raises(muster.Invalid, c.schedule, len, (1,)),
            raises(TypeError, c.schedule, 5),
            raises(TypeError, c.schedule, steps.square, 7),
            raises(TypeError, c.schedule, steps.square, "word"),
            raises(TypeError, c.schedule, steps.square, (1,), [2]),
            raises(TypeError, c.schedule, steps.square, (1,), speed=3),
            raises(TypeError, c.schedule, steps.joins, ("text",)),
            raises(muster.Invalid, c.schedule, steps.square, (1,), retries=-1),
            raises(muster.Invalid, c.map, steps.square, [1], crash_retries=1.5),
            raises(TypeError, next, iter(c.create_per_worker_dataset(steps.shard, (4,)))),
            c.schedule(steps.keeps_a_lock).exception(),
            c.schedule(steps.waits, ("never",), total=0.2).exception(),
            raises(muster.Timeout, c.schedule(steps.waits, ("never",)).fetch, 0.05),
        ):
            say(f"{type(failure).__name__}: {failure}")
        c.cancel()
    raises(muster.Cancelled, c.join)  # closed, and says so
    assert "closed" in str(raises(muster.Cancelled, c.schedule, steps.nothing))
    with Coordinator(job) as c:
        c.dismiss()


def unknown_functions(job):
    with Coordinator(job, policy="isolate", code=True) as c:
        until(lambda: c.counts().workers_present == 2)
        for value in (c.schedule("sqare"), c.schedule(steps.square, (1,), version=7), c.schedule(lambda: 1)):
            failure = value.exception(20)  # less than unknown_grace
            assert type(failure) is cluster.ClosureError and failure.failure.origin.name == "UNKNOWN"
            say(f"told {failure}")
        assert c.schedule(steps.square, (3,)).fetch() == 9
        c.dismiss()


def unknown_from_outside(_job):
    """This coordinator is none of the three processes of the run, and two of them are workers."""
    with muster.open(role="worker", index=9) as mine:
        with Coordinator(mine, policy="isolate", unknown_grace=1) as c:
            until(lambda: c.counts().workers_present == 2)
            began = time.monotonic()
            assert c.schedule("sqare").exception(PATIENCE_S).failure.origin.name == "UNKNOWN"
            assert time.monotonic() - began >= 1
            c.dismiss()


def forks(job):
    with Coordinator(job) as c:
        pids = {one.pid for one in c.workers()}
        ended = c.map(steps.forks, ["returns", "raises", "exits"])
        assert c.fetch(ended) == [0, 1, 3]
        assert c.fetch(c.map(steps.square, range(50))) == [x * x for x in range(50)]
        assert pids <= {one.pid for one in c.workers()} and c.counts().put_back == 0
        c.dismiss()


def per_worker(job):
    with Coordinator(job) as c:
        until(lambda: c.counts().workers_present == 2)
        data = c.create_per_worker_dataset(steps.shard, (100,))
        first, second = iter(data), iter(data)
        drawn = {0: [], 1: []}
        for worker, numbers in c.fetch([c.schedule(steps.takes, (first, 2)) for _ in range(10)]):
            drawn[worker] += numbers
        for worker, numbers in drawn.items():
            assert sorted(numbers) == list(range(worker, 100, 2))[: len(numbers)], drawn
        worker, numbers = c.schedule(steps.takes, (second,)).fetch()
        assert numbers == [worker]  # from the beginning
        model = c.create_per_worker_value(steps.model, kwargs={"bias": 10}, eager=True)
        for number in (0, 1):
            model.wait(number)
        assert len(lines("model")) == 2
        told = c.fetch([c.schedule(steps.applies, (x, {"model": [model, model]})) for x in range(9)])
        assert sorted(value for value, _ in told) == list(range(10, 19))
        assert len(lines("model")) == 2 and max(calls for _, calls in told) >= 5
        bad = c.create_per_worker_value(steps.cannot_load)
        needs_it = c.schedule(steps.give, (bad,))
        failure = raises(cluster.ClosureInputError, needs_it.fetch)
        assert isinstance(failure, muster.Failed) and failure.original_exception.number == 7
        assert "python_steps.Broken" in failure.failure.cause.text
        worker = failure.failure.worker
        assert raises(steps.Broken, bad.wait, worker).number == 7
        raises(cluster.ClosureInputError, c.join)
        assert c.schedule(steps.takes, (second,)).fetch()[0] in (0, 1)  # it outlives the series
        c.dismiss()


def waits_by_threads(job):
    """What they read is large, and is the handle's."""
    with Coordinator(job, policy="isolate") as c:
        bad = c.create_per_worker_value(steps.cannot_load, (steps.LARGE,))
        worker = c.schedule(steps.give, (bad,)).exception().failure.worker

        def wait():
            return {raises(steps.Broken, bad.wait, worker).number for _ in range(100)}

        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            assert set().union(*(future.result() for future in [pool.submit(wait) for _ in range(4)])) == {7}
        never = c.create_per_worker_value(steps.model, (1,))
        waiting = threading.Thread(target=lambda: raises(muster.Cancelled, never.wait, worker), daemon=True)
        waiting.start()
        raises(muster.Timeout, never.wait, worker, 0.01)  # one that waits does not make the others wait
        assert raises(steps.Broken, bad.wait, worker, 0).number == 7
    waiting.join(PATIENCE_S)
    assert not waiting.is_alive()
    with Coordinator(job) as c:
        c.dismiss()


def killed(job):
    with Coordinator(job) as c:
        model = c.create_per_worker_value(steps.model, (3,))
        data = iter(c.create_per_worker_dataset(steps.shard, (10,)))
        value = c.schedule(steps.waits, ("go",))
        until(lambda: lines("waits"))
        (pid,) = lines("waits")
        os.kill(int(pid), signal.SIGKILL)
        until(lambda: len(lines("waits")) == 2)
        (HOLD / "go").touch()
        assert value.fetch() == int(lines("waits")[1]) != int(pid)
        assert c.counts().failures == 0
        c.join()
        until(lambda: c.counts().workers_present == 2)
        assert c.schedule(steps.applies, (1, {"model": [model]})).fetch() == (4, 1)
        assert c.schedule(steps.takes, (data,)).fetch()[1][0] in (0, 1)
        c.dismiss()


def maps_fail(job):
    def endless():
        yield from ["never"] * 1500
        raise LookupError("no more names")

    with Coordinator(job) as c:
        raises(LookupError, c.map, steps.waits, endless())
        until(lambda: c.counts().queued + c.counts().running == 0)
        raises(TypeError, c.map, steps.waits, ["never"] * 1500 + [threading.Lock()])
        until(lambda: c.counts().queued + c.counts().running == 0)
        assert c.counts().admitted >= 2048, c.counts()
        c.join()  # what was cancelled by a call is no failure
        assert c.fetch(c.map(steps.square, range(3))) == [0, 1, 4]
        c.dismiss()


def cancels(job):
    with Coordinator(job) as c:
        value = c.schedule(steps.waits, ("never",), group=4)
        others = [c.schedule(steps.square, (x,)) for x in range(5)]
        until(lambda: lines("waits"))
        value.cancel()
        failure = raises(cluster.ClosureAbortedError, value.fetch)
        assert value.cancelled()
        assert isinstance(failure, muster.Cancelled) and failure.failure.origin.name == "CANCELLED"
        assert c.fetch(others) == [0, 1, 4, 9, 16]
        c.join()  # what was cancelled by a call is no failure
        until(lambda: lines("stopped"))
        value = c.schedule(steps.tidies)
        until(lambda: lines("tidies"))
        value.cancel()
        raises(cluster.ClosureAbortedError, value.fetch)
        until(lambda: lines("tidied"))
        group = [c.schedule(steps.waits, ("never",), group=9) for _ in range(4)]
        c.cancel(9)
        assert all(isinstance(one.exception(), cluster.ClosureAbortedError) for one in group)
        running = c.schedule(steps.waits, ("never",))
        c.schedule(steps.breaks, (1,))
        raises(steps.Broken, c.join)
        raises(cluster.ClosureAbortedError, running.fetch)  # with its series
        left = c.schedule(steps.waits, ("never",))
    assert isinstance(left.exception(), muster.Cancelled)  # closed
    with Coordinator(job) as c:
        c.dismiss()


def interrupts_workers(job):
    with Coordinator(job, policy="isolate") as c:
        def runs(count, function, *args):
            """A function that waits, whose worker has got Ctrl-C and shows it."""
            value = c.schedule(function, args)
            until(lambda: len(lines("waits")) == count)
            pid = int(lines("waits")[-1])
            os.kill(pid, signal.SIGINT)
            until(lambda: any(one.pid == pid and one.state.name == "DRAINING" for one in c.workers()))
            return value, pid

        def replaced(pid):
            return all(one.pid != pid for one in c.workers())

        value, pid = runs(1, steps.waits, "go")
        (HOLD / "go").touch()
        assert value.fetch() == pid
        until(lambda: replaced(pid))
        value, pid = runs(2, steps.hears)
        (HOLD / "hear").touch()
        until(lambda: lines("heard"))  # Python has handled the first one: it would take both for one
        os.kill(pid, signal.SIGINT)
        assert str(value.exception()) == "KeyboardInterrupt"
        until(lambda: replaced(pid))
        assert c.counts().failures == 1
        c.dismiss()


def stops(job):
    """Functions that do not look at whether they are cancelled."""
    with Coordinator(job, policy="isolate", cancel_grace=30) as c:
        before = [one.pid for one in c.workers()]
        for count, how in enumerate(("sleeps", "locked", "computes"), 1):
            value = c.schedule(steps.goes_on, (how,))
            until(lambda: len(lines("goes_on")) == count)
            value.cancel()
            assert isinstance(value.exception(), cluster.ClosureAbortedError)
            until(lambda: len(lines("cleaned")) == count)
        assert isinstance(c.schedule(steps.goes_on, ("sleeps",), run=0.1).exception(),
                          cluster.DeadlineError)
        assert len(lines("cleaned")) == 4
        value = c.schedule(steps.imports_slowly)
        until(lambda: lines("imports"))
        value.cancel()
        # It may have returned before the exception came.
        assert isinstance(value.exception(), (cluster.ClosureAbortedError, type(None)))
        assert c.fetch([c.schedule(steps.imports_slowly) for _ in range(4)]) == [5] * 4
        assert len(lines("imports")) == len(set(lines("imports")))  # once in each process
        counts = c.counts()
        assert counts.workers_present == 2 and counts.put_back == 0
        assert [one.pid for one in c.workers()][: len(before)] == before
        c.dismiss()


def executor(job):
    with Executor(job) as pool:
        futures = [pool.submit(steps.square, x) for x in range(20)]
        done, rest = concurrent.futures.wait(futures, timeout=60)
        assert not rest and sorted(f.result() for f in done) == [x * x for x in range(20)]
        assert list(pool.map(steps.square, range(100), timeout=60)) == [x * x for x in range(100)]
        assert {f.result() for f in concurrent.futures.as_completed(futures)} == {
            x * x for x in range(20)}
        bad = pool.submit(steps.breaks, 3)
        assert bad.exception(60).number == 3 and raises(steps.Broken, bad.result)
        assert raises(steps.Broken, list, pool.map(steps.breaks, [1]))
        wrong = [pool.submit(steps.square, threading.Lock()), pool.submit(len, "a"), pool.submit(5),
                 pool.submit(steps.nothing, bytes(17 << 20))]
        kinds = [type(future.exception(60)) for future in wrong]
        assert kinds == [TypeError, muster.Invalid, TypeError, muster.Limit], kinds
        called = []
        futures[0].add_done_callback(lambda f: called.append(f.result()))
        assert called == [0] and futures[0].done() and not futures[0].cancel()
        long = [pool.submit(steps.waits, "go") for _ in range(12)]
        until(lambda: long[0].running() and len(lines("waits")) == 2)
        assert raises(concurrent.futures.TimeoutError, long[0].result, 0.01)
        assert long[-1].cancel() and long[-1].cancelled() and long[-1].done()
        raises(concurrent.futures.CancelledError, long[-1].result)
        (HOLD / "go").touch()
        assert {f.result() for f in long[:-1]} <= set(map(int, lines("waits")))
        futures = [pool.submit(steps.waits, "then") for _ in range(9)]
        threading.Timer(0.1, (HOLD / "then").touch).start()
        pool.shutdown(cancel_futures=True)
        assert all(f.done() for f in futures) and futures[-1].cancelled()
        raises(RuntimeError, pool.submit, steps.square, 1)
    raises(muster.Cancelled, pool.coordinator.join)  # its own, closed
    executor_max_workers(job)
    with Coordinator(job) as c:
        raises(muster.Invalid, Executor, c)
    with Coordinator(job, policy="isolate") as c, Executor(c) as pool:
        assert pool.submit(steps.square, 5).result() == 25
        before = len(lines("waits"))
        runs = pool.submit(steps.waits, "never")
        until(lambda: runs.running() and len(lines("waits")) > before)
        assert runs.cancel() and runs.cancelled()
        until(lambda: lines("stopped"))
    with Executor(job, code=True, dismiss=True) as pool:
        assert list(pool.map(lambda x: x + 1, [1, 2])) == [2, 3]


def executor_max_workers(job):
    for kind, wrong in ((TypeError, {"coordinator": 4}), (muster.Invalid, {"max_workers": 0}),
                        (TypeError, {"max_workers": 2.5}), (TypeError, {"initializer": print})):
        raises(kind, Executor, **wrong)
    with Executor(job, max_workers=2, initializer=None, initargs=(), thread_name_prefix="") as pool:
        counts = pool.coordinator.counts
        first = [pool.submit(steps.waits, "first") for _ in range(2)]
        others = [pool.submit(steps.square, x) for x in range(2000)]
        assert counts().admitted == 2 and not others[0].running()
        assert others[0].cancel() and others[0].cancelled() and not others[1].done()
        (HOLD / "first").touch()
        assert [future.result() for future in others[1:]] == [x * x for x in range(1, 2000)]
        assert counts().admitted == 2001 and all(future.result() > 0 for future in first)
        assert not concurrent.futures.wait(others, 60)[1]  # the cancelled one too
        # Each ends at once, and makes room for the next one: a deep stack, if that were a call.
        unknown = [pool.submit("no such function") for _ in range(10000)]
        assert {type(future.exception(60)) for future in unknown} == {cluster.ClosureError}
        futures = [pool.submit(steps.waits, "second") for _ in range(2000)]
        until(lambda: futures[1].running())
        threading.Timer(0.1, (HOLD / "second").touch).start()
        pool.shutdown(cancel_futures=True)
        assert all(future.done() for future in futures) and futures[-1].cancelled()


left = []  # until the program ends


def leaves_work(_job, shut=False):
    """The program ends while a function runs."""
    pool = Executor(muster.open(role="worker", index=9), dismiss=True)
    pool.submit(steps.waits, "go").add_done_callback(lambda future: say("ended", future.result() > 0))
    until(lambda: lines("waits"))
    left.append(pool)
    if shut:
        pool.shutdown(wait=False)
        timer = threading.Timer(0.3, (HOLD / "go").touch)
        timer.daemon = True
        timer.start()
    else:
        atexit.register((HOLD / "go").touch)


def leaves_work_shut(job):
    leaves_work(job, shut=True)


def leaves_workers(job):
    with Coordinator(job) as c:
        assert c.schedule(steps.square, (3,)).fetch() == 9
    with Executor(job) as pool:
        assert pool.submit(steps.square, 4).result() == 16


def forked(job):
    with Coordinator(job, policy="isolate") as c, Executor(c) as pool:
        future = pool.submit(steps.waits, "go")
        until(lambda: lines("waits"))
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                raises(muster.Error, c.schedule, steps.nothing)
                raises(RuntimeError, pool.submit, steps.nothing)
                pool.shutdown()
                c.close()
                code = 0
            finally:
                os._exit(code)
        ended = []
        until(lambda: ended or ended.extend(code for at, code in [os.waitpid(pid, os.WNOHANG)] if at))
        assert ended == [0]
        (HOLD / "go").touch()
        assert future.result(60) > 0
        c.dismiss()


def waits_async(job):
    async def many(c):
        assert await asyncio.gather(*(c.schedule(steps.square, (x,)) for x in range(200))) == [
            x * x for x in range(200)]
        failures = await asyncio.gather(c.schedule(steps.breaks, (4,)), return_exceptions=True)
        assert failures[0].number == 4
        waiting = c.schedule(steps.waits, ("never",))
        until(lambda: lines("waits"))
        ticks = 0
        try:
            async with asyncio.timeout(0.1):
                await waiting
        except TimeoutError:
            ticks += 1
        assert ticks == 1 and isinstance(waiting.exception(), cluster.ClosureAbortedError)

    with Coordinator(job, policy="isolate") as c:
        asyncio.run(many(c))
    with Coordinator(job) as c:
        async def fails():
            return await asyncio.gather(c.schedule(steps.breaks, (5,)), return_exceptions=True)

        for _ in range(30):
            assert asyncio.run(fails())[0].number == 5
            assert raises(steps.Broken, c.join).number == 5  # due once, whoever has awaited it
            c.join()
        called = threading.Event()
        c.schedule(steps.nothing).add_done_callback(lambda value: called.set())
        assert called.wait(60)
        c.dismiss()


def closes_meanwhile(job):
    """Each round closes the job at another moment of its use."""
    for turn in range(300):
        own = muster.open(role="worker", index=9)
        came = []

        def use():
            try:
                c = Coordinator(own, policy="isolate")
                while True:
                    c.fetch([c.schedule(steps.square, (x,)) for x in range(5)])
                    c.counts(), c.workers(), c.done()
            except muster.Error as failure:
                came.append(failure)

        user = threading.Thread(target=use, daemon=True)
        user.start()
        time.sleep(turn % 25 * 0.0004)  # no event tells where it is
        own.close()
        user.join(PATIENCE_S)
        assert not user.is_alive() and len(came) == 1, came
        assert isinstance(came[0], (muster.Cancelled, muster.Invalid)), repr(came[0])
    with Coordinator(job) as c:
        c.dismiss()


def callbacks(job):
    with Coordinator(job, policy="isolate") as c:
        for wrong in (ValueError, SystemExit, KeyboardInterrupt):
            called = threading.Event()

            def fails(value):
                called.set()
                raise wrong

            c.schedule(steps.waits, (wrong.__name__,)).add_done_callback(fails)
            (HOLD / wrong.__name__).touch()
            assert called.wait(60)
        ended = c.schedule(steps.nothing)
        ended.fetch()
        raises(KeyboardInterrupt, ended.add_done_callback, fails)  # on this thread
        closed = threading.Event()

        def closes(value):
            c.close()
            closed.set()

        c.schedule(steps.waits, ("closes",)).add_done_callback(closes)
        left = c.schedule(steps.waits, ("never",))
        told = threading.Event()
        left.add_done_callback(lambda value: told.set())
        (HOLD / "closes").touch()
        assert closed.wait(60) and told.wait(60)
        assert isinstance(left.exception(), muster.Cancelled)
        until(lambda: all(one.name != "muster.cluster" for one in threading.enumerate()))
    with Coordinator(job) as c:
        c.dismiss()


def arrays(job):
    import numpy

    with Coordinator(job) as c:
        array = numpy.arange(500000, dtype="f8").reshape(1000, 500)
        told = c.schedule(steps.array_facts, (array,)).fetch()
        assert told == (
            "<f8", (1000, 500), float(array.sum() + 5)), told
        assert array[0, 0] == 0
        writeable, owns, back = c.schedule(steps.borrowed_facts, (array.ravel(),)).fetch()
        assert not writeable and not owns and (back == array.ravel()[:100000]).all()
        assert not back.flags.owndata and not back.flags.writeable  # as it was there
        value = c.schedule(steps.give, (array,))
        (((back,), _)) = value.fetch()
        del value
        gc.collect()
        for shift in range(1, 9):  # what was freed would be used again
            c.schedule(steps.give, (array + shift,)).fetch()
        assert (back == array).all() and back.shape == array.shape
        assert not back.flags.owndata and back.flags.writeable  # the memory that arrived
        c.fetch([c.schedule(steps.keeps, (numpy.full(100000, number),)) for number in range(8)])
        c.fetch([c.schedule(steps.array_facts, (array,)) for _ in range(16)])
        sums = sum(c.fetch([c.schedule(steps.sums_of_kept) for _ in range(4)]), [])
        assert sums and set(sums) <= {number * 1e5 for number in range(8)}
        broken = c.schedule(steps.breaks_with_what_it_borrowed, (array.ravel(),)).exception()
        assert isinstance(broken, steps.Broken) and broken.number == 499999, repr(broken)
        raises(steps.Broken, c.join)
        kept = c.schedule(steps.keeps_what_it_borrowed, (array,)).exception()
        say(f"{type(kept).__name__}: {kept}")
        raises(muster.Invalid, c.join)
        assert c.schedule(steps.array_facts, (numpy.ones(3),)).fetch() == ("<f8", (3,), 7.0)
        many = c.map(steps.array_facts, [numpy.ones(5000) for _ in range(20)])
        assert c.fetch(many)[-1] == ("<f8", (5000,), 5004.0)
        raises(muster.Limit, c.schedule, steps.array_facts, (numpy.ones(3 << 20),))
        c.dismiss()


def interrupted(job):
    """Ctrl-C in each wait of a coordinator."""
    c = Coordinator(job)
    other = muster.open(role="worker", index=9)
    long = c.schedule(steps.waits, ("go",))
    until(lambda: lines("waits"))
    waits = {
        "fetch": long.fetch,
        "timed": lambda: long.fetch(60),
        "many": lambda: c.fetch([long, c.schedule(steps.square, (1,))]),
        "join": c.join,
        "as_completed": lambda: list(as_completed([long])),
        "drain": c.drain,
        "open": lambda: Coordinator(other),
    }
    for name, wait in waits.items():
        best = 1e9
        for _ in range(3):
            sent = []

            def send():
                sent.append(time.monotonic())
                os.kill(os.getpid(), signal.SIGINT)

            timer = threading.Timer(0.3, send)
            timer.start()
            try:
                wait()
            except KeyboardInterrupt:
                best = min(best, (time.monotonic() - sent[0]) * 1000)
            else:
                raise AssertionError(name)
            timer.join()
        say(f"{name} interrupted best_ms={best:.1f}")
    (HOLD / "go").touch()
    assert long.fetch() in map(int, lines("waits"))
    c.dismiss()
    c.close()


def code(job):
    shift = 5
    with Coordinator(job, code=True) as c:
        assert c.fetch(c.map(lambda x: x + shift, range(3))) == [5, 6, 7]
        assert c.schedule(steps.square, (4,)).fetch() == 16
        shift = 6
        assert c.schedule(lambda: shift).fetch() == 6
        function = lambda: shift  # noqa: E731 (it is to be collected)
        assert c.schedule(function).fetch() == 6
        shift = 7
        assert c.schedule(function).fetch() == 7  # as it is now
        kept = weakref.ref(function)
        del function
        gc.collect()
        assert kept() is None
        large = bytes(1 << 17)
        assert c.fetch(c.map(lambda x: len(large) + x, range(2))) == [1 << 17, (1 << 17) + 1]
        it = iter(c.create_per_worker_dataset(lambda: iter("ab")))
        assert c.schedule(lambda it: next(it), (it,)).fetch() == "a"
        c.dismiss()


def commands(job):
    with Coordinator(job) as c:
        assert b"missing operand" not in c.schedule("upper", raw=True).fetch()
        assert c.schedule("print", (b"one", b"two"), raw=True).fetch() == b"one.two"
        assert c.fetch(c.map("print", [b"a"], [b"b"], raw=True)) == [b"a.b"]
        failure = c.schedule("aborts", raw=True, crash_retries=0).exception()
        assert failure.failure.attempt == 1, failure
        raises(cluster.ClosureError, c.join)
        c.dismiss()


def meets(job):
    with Coordinator(job) as c:
        c.schedule(steps.nothing).fetch()
        say("met")
        sys.stdin.read()


if __name__ == "__main__":
    with muster.open(role="worker") as opened:
        globals()[sys.argv[1]](opened)
    say("well")

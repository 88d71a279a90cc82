# SPDX-License-Identifier: Apache-2.0
"""A rank in Python, told by its first argument what to do."""

import ctypes
import itertools
import logging
import os
import signal
import sys
import threading
import time

import muster


def say(*words):
    """One write: lines of several threads and processes stay whole."""
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def raised(function, *args, **options):
    try:
        function(*args, **options)
    except (muster.Error, TypeError, OverflowError) as error:
        return error
    raise AssertionError("nothing was raised")


def keys(job):
    keys, me = job.keys, job.view.rank
    if me == 0:
        keys["greeting"] = "good day"
    assert keys.get("greeting", timeout=None) == b"good day"
    assert keys.add("sum", me) >= me
    keys.append("who", str(me))
    assert keys.put(f"mine/{me}", bytes([me]), owned=True) > 0
    job.barrier("written")
    assert keys["sum"] == b"6" and sorted(keys["who"]) == list(b"0123")
    assert keys.list("mine/") == {f"mine/{i}": bytes([i]) for i in range(4)}
    assert "greeting" in keys and "nothing" not in keys
    assert keys.get("nothing") is None and keys.get("nothing", 7) == 7
    try:
        keys["nothing"]
    except KeyError as error:
        assert error.status is muster.Status.ENOTFOUND and "nothing" in str(error)
    seen = keys["greeting"]
    job.barrier("seen")
    if me == 0:
        revision = keys.cas("greeting", seen, b"\0\xff")
        assert keys["greeting"].revision == revision > seen.revision
        assert isinstance(raised(keys.cas, "greeting", seen, "again"), muster.Conflict)
        assert isinstance(raised(keys.insert, "greeting", "again"), muster.Exists)
        assert keys["greeting"] == b"\0\xff"
        del keys["greeting"], keys["greeting"]
        keys.put("now", "x", generation=job.view.generation)
        assert keys.get("now") is None
    keys.wait("gone", "sum") if me else keys.put("gone", "")
    assert keys["gone"] == b"" and "greeting" not in keys
    assert isinstance(raised(keys.wait, "gone", "never", timeout=0.01), muster.Timeout)
    assert isinstance(raised(keys.wait, "gone", "gone\0sum"), muster.Invalid)
    keys["caf\u00e9"] = b"x"
    assert "caf\u00e9" in list(keys)
    assert isinstance(raised(keys.get, "cut\0here"), muster.Invalid)
    for args in ((5,), (None,), ("sum", 1.5), ("sum", "1")):
        assert isinstance(raised(keys.add, *args), TypeError)
    assert isinstance(raised(keys.add, "sum", 2**63), OverflowError)
    assert isinstance(raised(keys.get, "sum", generation=-1), OverflowError)
    assert isinstance(raised(keys.add, "sum", timeout=-1), muster.Invalid)

    class Name(str):
        pass

    assert keys.get(Name("gone")) == keys.get(bytearray(b"gone")) == b""


def rounds(job):
    me = job.view.rank
    gathered = job.round("all", f"from {me}", reduce="gather")
    assert gathered.value == [b"from 0", b"from 1", b"from 2", b"from 3"]
    assert gathered.indices == tuple(sorted(gathered.indices)) and gathered.number == 0
    assert job.round("all", b"", reduce="gather").number == 1
    assert job.round("least", me - 2, reduce="min").value == -2
    assert job.round("most", [me, -me], reduce=muster.Reduce.MAX).value == [3, 0]
    total = job.round("total", [me, 2**40], reduce="sum")
    assert total.value == [6, 2**42] and total.arrived == total.expected == 4
    assert job.round("same", "x", reduce="equal").value == b"x"
    tenth = job.round("tenths", [0.1 * (me + 1), 1e16 * (me % 2)], reduce="sum_double").value
    assert tenth == [0.1 + 0.2 + 0.1 * 3 + 0.4, 2e16], tenth
    assert job.round("lowest", me - 0.5, reduce="min_double").value == -0.5
    assert job.round("highest", [me, float("inf")], reduce="max_double").value == [3.0, float("inf")]
    assert job.round("flips", [1 << me, 2**63 * (me == 3)], reduce="xor").value == [15, 2**63]
    assert job.broadcast("sent", f"of {me}", root=2) == b"of 2"
    assert job.view.size_of_job == 4
    try:
        job.round("flips", -1, reduce="xor")
        raise AssertionError("no word of 64 bits is below 0")
    except TypeError as error:
        assert "xor is of integers from 0 to 2**64 - 1" in str(error)
    assert isinstance(raised(job.broadcast, "sent", root=4), muster.Invalid)
    assert job.round("plain").value is None
    error = raised(job.round, "differs", str(me == 2), reduce="equal")
    assert isinstance(error, muster.Mismatch) and error.result.status == error.status
    # Who differs, differs from the first to arrive: that may be rank 2.
    others = {member.rank for member in error.result.who}
    assert others == {2} or (others and others <= {0, 1, 3}), error.result
    assert isinstance(raised(job.round, "much", 2**62, reduce="sum"), muster.Range)
    if me < 2:
        pair = job.round("pair", me, reduce="sum", participants=[0, 1])
        assert pair.value == 1 and pair.expected == 2
    if me == 3:
        error = raised(job.barrier, "never", timeout=0.05)
        assert isinstance(error, muster.Timeout) and isinstance(error, TimeoutError)
        assert error.status is muster.Status.ETIMEDOUT and error.os_errno == 0
        assert "never" in error.text == str(error)
    members = job.members()
    ranks = [member for member in members if member.role is muster.Role.RANK]
    assert [member.rank for member in ranks] == [0, 1, 2, 3]
    assert all(member.state is muster.MemberState.PRESENT for member in ranks)
    assert ranks[me].pid == os.getpid() and ranks[me].heard < 60
    job.barrier("end")


def watches(job):
    """Rank 0 writes; the others see the state, each change, and a deletion, and go on after it."""
    me = job.view.rank
    if me == 0:
        job.keys["w/a"] = "1"
        job.barrier("written")
        job.keys.wait("seen/1", "seen/2")
        job.keys["other"] = "not theirs"
        job.keys["w/b"] = b"\0two"
        del job.keys["w/a"]
        job.keys.wait("left/1", "left/2")
        job.keys["w/c"] = "3"
        job.barrier("all saw it")
        return
    job.barrier("written")
    watch = job.watch("w/")
    first = watch.next()
    assert (first.type, first.key, first.value) == (muster.EventType.KEY, "w/a", b"1")
    assert first.value.revision == first.revision > 0 and 0 <= first.age < 60
    assert isinstance(raised(watch.next, timeout=0.01), muster.Timeout)
    job.keys[f"seen/{me}"] = ""
    seen = {}
    for event in watch:
        seen[event.key] = event
        if len(seen) == 2:
            break
    assert seen["w/b"].value == b"\0two"
    assert seen["w/a"].type is muster.EventType.DELETED and seen["w/a"].value is None
    watch.close()
    assert list(watch) == []
    job.keys[f"left/{me}"] = ""
    with job.watch("w/", after=watch.revision) as again:
        event = again.next()
        assert (event.key, event.value) == ("w/c", b"3")
    members = job.watch(kinds=["members", "view"])
    assert members.next().type in (muster.EventType.MEMBER, muster.EventType.VIEW)
    assert isinstance(raised(job.watch, kinds="king"), muster.Invalid)
    # Closed by another thread.
    quiet = job.watch("never/")
    ends = threading.Thread(target=lambda: say("ended", list(quiet)))
    ends.start()
    until(lambda: state_of(ends)[0] == "S")
    quiet.close()
    ends.join()
    interrupt("watch", job.watch("never/").next)
    job.barrier("all saw it")


def batches(job):
    """All of a batch, or none of it."""
    keys, me = job.keys, job.view.rank
    if me == 0:
        keys["n"] = "1"
        seen = keys["n"]
        with keys.batch() as batch:
            batch.put("a", "1")
            batch.insert("b", b"2")
            batch.cas("n", seen, "5")
            batch.append("log", "x")
            batch.delete("nothing")
            assert len(batch) == 5
        keys["shelf/1"] = keys["shelf/2"] = "x"
        assert keys.delete_prefix("shelf/") == 2 and keys.delete_prefix("shelf/") == 0
        assert (keys["a"], keys["b"], keys["n"], keys["log"]) == (b"1", b"2", b"5", b"x")

        def conflicts():
            with keys.batch() as batch:
                batch.put("a", "2")
                batch.cas("n", seen, "6")

        conflict = raised(conflicts)
        assert isinstance(conflict, muster.Conflict) and str(conflict).startswith("apply a batch of 2 writes: 'n': ")
        assert str(raised(keys.batch().insert, "", b"x")) == "batch: insert '': the key is empty"
        assert keys["a"] == b"1" and keys["n"] == b"5"
        try:
            with keys.batch() as batch:
                batch.add("n", 1)
                raise RuntimeError("not applied")
        except RuntimeError:
            assert keys["n"] == b"5"
        with keys.batch(owned=True):
            pass
    again = keys.batch()
    again.add("sum", 2)
    again.apply()
    again.apply(timeout=60)
    job.barrier("applied")
    assert keys["sum"] == b"8"


def aio(job):
    """Many calls in one event loop, without a thread; cancelled, closed, and in a second loop."""
    import asyncio

    me = job.view.rank

    async def all_of_it():
        keys = job.aio.keys
        waits = [asyncio.create_task(keys.get(f"late/{i}", timeout=None)) for i in range(500)]
        await job.aio.barrier("here")
        before = threading.active_count()
        assert (await job.aio.round("sum", me, reduce="sum")).value == 1
        assert await job.aio.broadcast("sent", f"of {me}", root=1) == b"of 1"
        if me == 0:
            for i in range(500):
                await keys.put(f"late/{i}", str(i))
        assert [int(value) for value in await asyncio.gather(*waits)] == list(range(500))
        assert threading.active_count() == before
        revision = await keys.insert(f"mine/{me}", "1")
        assert await keys.cas(f"mine/{me}", revision, "5") > revision
        assert await keys.add(f"mine/{me}", 2) == 7 and await keys.append(f"mine/{me}", "x") == 2
        await keys.wait(f"mine/{1 - me}")
        assert (await keys.list("mine/"))[f"mine/{me}"] == b"7x"
        await job.aio.barrier("listed")
        await keys.delete(f"mine/{me}")
        await keys.put(f"mine/{me}/a", "x")
        assert await keys.delete_prefix(f"mine/{me}/") == 1
        assert await keys.get(f"mine/{me}", 3) == 3 and len(await job.aio.members()) >= 2
        try:
            await job.aio.barrier(f"only {me}", timeout=0.05)
            raise AssertionError("the barrier has opened")
        except muster.Timeout as error:
            assert "only" in str(error)
        try:
            await asyncio.wait_for(keys.get("never", timeout=None), 0.05)
            raise AssertionError("the key is there")
        except asyncio.TimeoutError:
            pass
        seen = []
        watch = job.aio.watch("late/49")
        async for event in watch:
            seen.append(event.key)
            if len(seen) == 11:
                asyncio.get_running_loop().call_later(0.01, watch.close)
        assert sorted(seen) == sorted(f"late/{i}" for i in [49, *range(490, 500)])
        try:
            await job.aio.round("differs", str(me), reduce="equal")
            raise AssertionError("they are equal")
        except muster.Mismatch as error:
            assert error.result.status == error.status

    asyncio.run(all_of_it())
    asyncio.run(job.aio.barrier("second loop"))
    job.barrier("blocking beside it")

    async def ended():
        waits = asyncio.create_task(job.aio.keys.get("never", timeout=None))
        await job.aio.keys.add("both", 1)
        threading.Thread(target=job.close).start()
        try:
            await waits
            raise AssertionError("nothing was raised")
        except muster.Cancelled:
            say("closed")
        assert isinstance(raised(job.barrier, "x"), muster.Invalid)

    asyncio.run(ended())


def threads(job):
    """The barrier opens only if another thread of rank 0 runs while its main thread waits there."""
    if job.view.rank == 0:

        def count():
            job.keys.wait("waiting")  # two threads wait in one client
            job.keys["counted"] = str(sum(range(1000)))

        thread = threading.Thread(target=count)
        thread.start()
        job.barrier("all")
        thread.join()
    else:
        if job.view.rank == 1:
            until(lambda: any(member.waits_at == "all" for member in job.members()))
            job.keys["waiting"] = ""
        job.keys.wait("counted")
        job.barrier("all")
    say("counted", job.keys["counted"].decode())


def until(holds):
    while not holds():
        time.sleep(0)  # gives the processor and the interpreter away


def state_of(thread):
    """(state, system call) of one of our threads."""
    place = f"/proc/self/task/{thread.native_id}/"
    with open(place + "stat", encoding="ascii") as stat:
        state = stat.read().rpartition(")")[2].split()[0]
    with open(place + "syscall", encoding="ascii") as call:
        return state, call.read().split()[0]


def interrupt(name, wait, least=5):
    """Ctrl-C during a wait, several times; the best of them shows how long it takes."""
    took = []
    for _ in range(least):
        began = []

        def strike():
            main = threading.main_thread()
            seen = 0
            while seen < 20:  # asleep, and not only for the moment in which this thread runs
                seen = seen + 1 if state_of(main)[0] == "S" else 0
                time.sleep(0)
            began.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)

        thread = threading.Thread(target=strike)
        try:
            thread.start()
            wait()
            raise AssertionError(f"{name} was not interrupted")
        except KeyboardInterrupt:
            took.append(time.monotonic() - began[0])
        thread.join()
    say(f"{name} interrupted best_ms={min(took) * 1000:.3f}")


def interrupts(job):
    if job.view.rank != 0:
        job.keys.wait("done")
        return
    interrupt("barrier", lambda: job.barrier("alone"))
    interrupt("round", lambda: job.round("alone too", 1, reduce="sum"))
    interrupt("get", lambda: job.keys.get("never", timeout=None))
    interrupt("wait", lambda: job.keys.wait("never", "ever"))
    interrupt("timed", lambda: job.keys.wait("never", timeout=1000))
    names = itertools.count()

    def enter_another():
        name = f"another-{next(names)}"  # nobody else comes
        muster.open(addr=os.environ["MUSTER_ADDR"], job=name, index=0, size_of_job=2, log=False)

    interrupt("open", enter_another)
    assert job.keys.add("after", 1) == 1
    job.keys["done"] = ""


def away(job):
    """Interrupted while the service is stopped, it goes on when the service does."""
    say("ready")
    sys.stdin.readline()  # it is stopped
    interrupt("put", lambda: job.keys.put("a", "b"), 2)
    interrupt("members", job.members, 2)
    say("interrupted all")
    job.keys["a"] = "c"
    assert job.keys["a"] == b"c"


def fork(job):
    child = os.fork()
    if child == 0:
        error = raised(job.barrier, "all")
        assert isinstance(error, muster.Invalid) and "fork" in error.text
        job.close()
        job.close()
        assert isinstance(raised(job.keys.put, "a", "b"), muster.Invalid)
        os._exit(17)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 17
    job.barrier("all")
    say("child was told")


def close(job):
    """Closing ends what another thread waits for; the handle is of no use afterwards."""
    found = []
    waits = threading.Thread(target=lambda: found.append(raised(job.keys.wait, "never")))
    waits.start()
    until(lambda: state_of(waits)[0] == "S")
    job.close()
    waits.join()
    assert isinstance(found[0], (muster.Cancelled, muster.Invalid)), found
    assert isinstance(raised(job.barrier, "all"), muster.Invalid)
    assert isinstance(raised(lambda: job.view), muster.Invalid)
    say("closed")


def busy(job):
    """A computation keeps the interpreter for three leases, and the library has lines to tell."""
    say("computes")
    ctypes.PyDLL(None).poll(None, 0, 9000)  # a PyDLL does not release the interpreter's lock
    say("computed")
    job.barrier("still here")
    until(lambda: heard.wait(0.1))
    assert job.view.generation == 1


heard = threading.Event()


class Heard(logging.Handler):
    def emit(self, record):
        if "connected to the service again" in record.getMessage():
            heard.set()


def fails(job):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # by which the run ends: each has its say first
    job.barrier("all here")
    if job.view.rank == 1:
        raise RuntimeError("a bug of mine")
    error = raised(job.barrier, "never")
    say("rank", job.view.rank, "is told", type(error).__name__)
    sys.exit(muster.exit_code(error))


def loses(job):
    """A rank that ends without a word; the others are told who it was."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    job.barrier("all here")
    if job.view.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    error = raised(job.barrier, "never")
    say(type(error).__name__, error)


def heartbeat(job):
    """A heart beats on all ranks; two of them stop, and one has no time to."""
    before = threading.active_count()
    with job.heartbeat(0.05, timeout=10) as heart:
        assert threading.active_count() == before
        job.barrier("all have one")
        if job.view.rank == 0:
            heart.stop()
            heart.stop()
    job.barrier("stopped")


def heartbeat_alone(job):
    """The other one never starts its own."""
    if job.view.rank != 0:
        job.keys.wait("done")
        return
    interrupt("heartbeat", lambda: job.heartbeat(60))
    job.keys["done"] = ""


def dies(job):
    """A rank is frozen: the others end themselves."""
    job.barrier("both are here")
    _heart = job.heartbeat(0.1, timeout=3, failures_max=2)
    if job.view.rank == 1:
        os.kill(os.getpid(), signal.SIGSTOP)
    job.keys.wait("never")


def steps_until_saved(job, strike=lambda step: None, first=0):
    """The step that was saved, and what became of it."""
    for step in itertools.count(first):
        strike(step)
        reach = job.preempt.reached(step)
        assert reach is not muster.Reach.STOP
        if reach is muster.Reach.SAVE_NOW:
            job.keys.append("saves", f"{step} ")
            return step, job.preempt.saved
        job.round("step", str(step), reduce="equal")


def preempted(job):
    """SIGTERM to one; the handler that Python had for it is called as well."""
    handled = []
    signal.signal(signal.SIGTERM, lambda *_: handled.append(job.preempt.notice))
    assert job.preempt.open() is job.preempt
    assert isinstance(raised(job.preempt.open), muster.Invalid)
    assert job.preempt.sources[0] == "signals" and job.preempt.notice is None
    rank = job.view.rank

    def strike(step):
        if rank == 2 and step == 20:
            os.kill(os.getpid(), signal.SIGTERM)

    step, saved = steps_until_saved(job, strike)
    notice = job.preempt.notice
    assert notice.agreed_step == step and notice.source.startswith("signal")
    assert notice.level is muster.NoticeLevel.CERTAIN and notice.assumed
    assert 0 < notice.left <= 30 and abs(notice.deadline_unix - time.time() - notice.left) < 1
    assert notice.index == [member.index for member in job.members() if member.rank == 2][0]
    assert bool(handled) == (rank == 2)
    error = raised(saved, step)
    assert isinstance(error, muster.Preempted) and muster.exit_code(error) == 75
    say("saved", step)
    job.close()
    sys.exit(muster.exit_code(error))


def checkpoints(job):
    """Saves every tenth step, and the agreed one when a notice has come."""
    done, saved, committed = [], [], []
    options = {"every": 10, "commit": committed.append}

    def train(step):
        job.round("step", str(step), reduce="equal")
        done.append(step)

    for step in job.preempt.checkpointing(saved.append, lambda: 7, last=25, **options):
        train(step)
    assert done == list(range(7, 25)) and saved == committed == [10, 20]
    try:
        for step in job.preempt.checkpointing(saved.append, lambda: 30, **options):
            if job.view.rank == 2 and step == 43:
                os.kill(os.getpid(), signal.SIGTERM)
            train(step)
    except SystemExit as ended:
        assert ended.code == 75 and saved[:3] == [10, 20, 40] and saved == committed
        assert done[-1] == saved[-1] - 1 >= 43
        say("saved", saved[-1])
        raise


def goes_on(job):
    """The noticed one leaves after the save; the others go on, and save again later."""
    job.preempt.open(leave="noticed", signals="")
    me, victim = job.view.rank, [one.index for one in job.members() if one.rank == 1][0]
    saved, committed = [], []
    try:
        for step in job.preempt.checkpointing(saved.append, commit=committed.append, exit=False):
            if saved:
                break
            if step == 10 and me == 0:
                job.preempt.announce(600, index=victim, reason="a test")
            job.round("step", str(step), reduce="equal")
    except muster.Preempted:
        assert me == 1 and len(saved) == 1 and saved == committed
        say("leaves", saved[0])
        return
    assert me != 1 and len(saved) == 1 and saved == committed
    say("goes on", saved[0])


def noticed(job):
    """One is noticed by hand and leaves; the others go on."""
    job.preempt.open(leave="noticed", signals="")
    rank = job.view.rank
    victim = [member.index for member in job.members() if member.rank == 1][0]

    def strike(step):
        if rank == 0 and step == 10:
            job.preempt.announce(600, index=victim, reason="a test")

    step, saved = steps_until_saved(job, strike)
    assert job.preempt.notice.reason == "a test" and not job.preempt.notice.assumed
    if rank == 1:
        assert isinstance(raised(saved, step), muster.Preempted)
        say("leaves")
        return
    assert saved(step) is True
    job.preempt.wait_exit()
    say("goes on")


def withdrawn(job):
    """A notice for all is taken back before anybody saves: they go on with the step they were at."""
    job.preempt.open()
    rank = job.view.rank
    if rank == 0:
        job.preempt.announce(600, reason="too early")
    step, saved = steps_until_saved(job)
    notice = job.preempt.notice
    assert notice.index is None and notice.rank is None
    job.barrier("all are to save")
    if rank == 0:
        job.preempt.withdraw()
    until(lambda: job.preempt.notice is None)
    until(lambda: job.preempt.reached(step) is muster.Reach.GO_ON)
    job.barrier("all go on")
    assert saved(step) is False


def held(job):
    """Nobody is asked to save while one cannot."""
    job.preempt.open()
    rank = job.view.rank
    job.preempt.reached(0)
    if rank == 1:
        with job.preempt.hold(600), job.preempt.hold(1000):
            job.keys["held"] = ""
            job.keys.wait("noticed")
            until(lambda: job.preempt.notice is not None)
            assert job.preempt.notice.agreed_step is None
            assert job.preempt.reached(1) is muster.Reach.GO_ON
    else:
        job.keys.wait("held")
        if rank == 0:
            job.preempt.announce(600)
            job.keys["noticed"] = ""
    step = 2
    while job.preempt.reached(step) is muster.Reach.GO_ON:
        step += 1
    # Each counts on its own here, so they are at different steps: the next one all can save is agreed.
    assert step >= job.preempt.notice.agreed_step
    job.barrier("all are asked")


def interrupted_saves(job):
    """Ctrl-C while the others do not save, and while they are not gone."""
    job.preempt.open()
    if job.view.rank == 0:
        job.preempt.announce(600, index=job.members()[1].index)
    step, saved = steps_until_saved(job)
    if job.view.rank == 0:
        interrupt("wait_exit", job.preempt.wait_exit)
        interrupt("saved", lambda: saved(step))
        job.keys["save"] = ""
    else:
        job.keys.wait("save")
    assert isinstance(raised(saved, step), muster.Preempted)  # takes up what was left


def interrupted_asking(job):
    """Ctrl-C while the members agree, which a frozen one holds up."""
    job.preempt.open(agree_timeout=600)
    assert job.preempt.reached(0) is muster.Reach.GO_ON
    job.barrier("all take part")
    if job.view.rank == 1:
        os.kill(os.getpid(), signal.SIGSTOP)
        os._exit(0)
    (other,) = [member.pid for member in job.members() if member.rank == 1]
    until(lambda: frozen(other))
    job.preempt.announce(800, reason="now")
    until(lambda: job.preempt.notice is not None)
    interrupt("reached", lambda: job.preempt.reached(1))
    job.close()  # ends the question that was left
    say("closed")
    os.kill(other, signal.SIGCONT)


def frozen(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
        return stat.read().rpartition(")")[2].split()[0] == "T"


def main():
    logging.basicConfig(stream=sys.stdout, level=logging.DEBUG, format="logged %(message)s")
    logging.getLogger("muster").addHandler(Heard())
    with muster.open() as job:
        globals()[sys.argv[1]](job)
    say("well")


main()

# SPDX-License-Identifier: Apache-2.0
"""A rank in Python whose function restarts. Its arguments: the mode, a folder, words for the mode."""

import ctypes
import datetime
import gc
import logging
import math
import os
import pathlib
import signal
import sys
import threading
import time
import weakref

import muster

MODE, FOLDER, WORDS = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3:]
LONG_S = 600


def exported():
    return [os.environ.get(name) for name in ("RANK", "WORLD_SIZE")]


BEFORE = exported()


def say(what, /, **values):
    """One write: lines of several threads and processes stay whole."""
    words = [f"{key}={value}" for key, value in values.items()]
    sys.stdout.write(" ".join([what, f"pid={os.getpid()}", *words]) + "\n")
    sys.stdout.flush()


def enter(call):
    assert exported() == [str(call.rank), str(call.size)], exported()
    say("entered", attempt=call.iteration, rank=call.rank, size=call.size, index=call.index)
    for fault in call.faults:
        say("fault", kind=fault.kind.name, index=fault.index, code=fault.code, text=fault.text)


def ranks_of(job):
    return [member for member in job.members() if member.role is muster.Role.RANK]


# ---- how rank 1 ends attempt 0 ----


def fails(call):
    raise ValueError(f"a bug\nof rank {call.rank}")


def fails_by_report(call):
    call.fail("no disk", code=7)


def fails_and_swallows(call):
    """What was reported stays, whatever the function makes of the exception."""
    try:
        call.fail("no disk", code=7)
    except BaseException:
        pass


def fails_and_logs_slowly(call):
    """What writes the log has no hurry: it waits until the others have left, or for a while."""

    class Slow(logging.Handler):
        def emit(self, record):
            until = time.monotonic() + 20
            while len(left()) < call.size - 1 and time.monotonic() < until:
                time.sleep(0.01)
            say("logged", others=len(left()))

    def left():
        return list(FOLDER.glob("left.*"))

    wait_until_there()  # else they leave no mark
    logging.getLogger("muster").addHandler(Slow())
    fails(call)


def again(call):
    call.again()


def raises_restart(call):
    raise muster.Restart("once more")


def leaves(call):
    call.leave()


def exits_0(call):
    sys.exit()


def exits_3(call):
    sys.exit(3)


def ctrl_c(call):
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(LONG_S)


def killed(call):
    while len(ranks_of(call.job)) < int(os.environ.get("ALL", 0)):  # the spare is late
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGKILL)


def aborts(call):
    call.abort("no point in it")


def gives_up(call):
    raise muster.GiveUp("no point in it")


def loses(call):
    call.lost(0, 0)


def hangs(call):
    call.ping()
    time.sleep(LONG_S)


def keeps_the_interpreter(call):
    """In C, by a call that does not let the interpreter's lock go, and that no signal ends."""
    c = ctypes.PyDLL(None)
    mutex = ctypes.create_string_buffer(64)
    c.pthread_mutex_lock(mutex)
    c.pthread_mutex_lock(mutex)


# ---- where the others are meanwhile ----


def sleeps(call):
    time.sleep(LONG_S)


def sleeps_and_leaves_a_mark(call):
    try:
        (FOLDER / f"in-{call.rank}").touch()
        time.sleep(LONG_S)
    finally:
        FOLDER.joinpath(f"left.{call.rank}").touch()


def computes(call):
    while True:
        sum(range(100))


def at_a_barrier(call):
    call.job.barrier("never")


def catches_exceptions(call):
    while True:
        try:
            time.sleep(LONG_S)
        except Exception as failure:
            say("caught", what=repr(failure))


def breaks(call):
    """What is raised by what was cut short, as a library does whose connection to a peer is gone."""
    try:
        (FOLDER / f"in-{call.rank}").touch()
        time.sleep(LONG_S)
    except muster.Restart:
        raise ConnectionError("the peer is gone") from None


def swallows(call):
    """The first one is lost, as in a __del__; the next one comes."""
    try:
        (FOLDER / f"in-{call.rank}").touch()
        time.sleep(LONG_S)
    except muster.Restart:
        say("swallowed")
    time.sleep(LONG_S)


def tidies(call):
    """Longer than the first repetition waits."""
    try:
        (FOLDER / f"in-{call.rank}").touch()
        time.sleep(LONG_S)
    finally:
        until = time.monotonic() + 2
        while time.monotonic() < until:
            time.sleep(0.01)
        say("tidied")


def writes(call):
    """The signal comes within the section, which is left at its end."""
    ended = False
    try:
        with call.atomic():
            (FOLDER / f"in-{call.rank}").touch()
            while not (FOLDER / "told").exists():
                time.sleep(0.01)
            call.check()  # fine in here
            ended = True
    finally:
        say("wrote", whole=ended)
    say("behind the section")


def imports(call):
    sys.path.insert(0, str(FOLDER))
    import slowly

    say("imported", whole=slowly.WHOLE)
    time.sleep(LONG_S)


def forks(call):
    """A child that ends in the function must not go on with its parent's run."""
    for ends in (True, False):
        child = os.fork()
        if child == 0 and ends:
            raise SystemExit(9)
        if child == 0:
            return
        say("child", status=os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    (FOLDER / f"in-{call.rank}").touch()
    time.sleep(LONG_S)


def wait_until_there():
    """The others say by a file that they are where they are to be."""
    for rank in (0, 2):
        while not (FOLDER / f"in-{rank}").exists():
            time.sleep(0.01)


def interrupt_by_file(state):
    (FOLDER / "told").touch()


def work(call, victim, place):
    enter(call)
    if call.iteration > 0:
        return call.rank * 10
    if call.rank == 1:
        call.job.barrier("met")
        if place in ("breaks", "writes", "forks", "imports", "swallows", "tidies"):
            wait_until_there()
        globals()[victim](call)
        return "not to be returned"
    try:
        call.job.barrier("met")
        globals()[place](call)
    except BaseException as ended:
        say("left", by=type(ended).__name__)
        raise
    return "not to be returned"


def one(**options):
    """The work of most tests: rank 1 ends attempt 0 as the first word says, while the others are
    where the second one says."""
    victim, place = WORDS

    @muster.Wrapper(**options)
    def train(call: muster.Call):
        return work(call, victim, place)

    try:
        say("returned", value=train())
    except BaseException as ended:
        say("raised", what=type(ended).__name__, cause=getattr(ended, "cause", None), text=ended)
        raise
    assert exported() == BEFORE


def plain():
    one()


def given_up():
    """No rank ends before all have raised: the run stops the others when the first one has failed."""
    try:
        one()
    finally:
        (FOLDER / f"raised.{os.getpid()}").touch()
        while len(list(FOLDER.glob("raised.*"))) < 3:
            time.sleep(0.01)


def interpreter_kept():
    one(soft_timeout=2, hard_timeout=4, grace=1)


def hanging():
    one(soft_timeout=2)


def writing():
    one(abort=interrupt_by_file)


def importing():
    """Told when it is in the middle of the import."""
    (FOLDER / "slowly.py").write_text(
        "import os, time, pathlib\n"
        "folder = pathlib.Path(__file__).parent\n"
        "(folder / f'in-{os.environ[\"RANK\"]}').touch()\n"
        "while not (folder / 'told').exists():\n"
        "    time.sleep(0.01)\n"
        "time.sleep(0.5)\n"  # dozens of signals
        "WHOLE = True\n"
    ) if os.environ["RANK"] == "1" else None
    one(abort=[interrupt_by_file])


def describing():
    """Rank 1 has raised, and its exception takes its time to be described when all are told."""

    class Slow(Exception):
        def __str__(self):
            if not (FOLDER / "in-1").exists():
                (FOLDER / "in-1").touch()
                while not (FOLDER / "told").exists():
                    time.sleep(0.01)
                time.sleep(0.3)  # signals would have come
                say("described")
            return "slow"

    @muster.Wrapper(abort=interrupt_by_file)
    def train(call: muster.Call):
        enter(call)
        if call.iteration > 0:
            return call.rank * 10
        call.job.barrier("met")
        if call.rank == 1:
            raise Slow
        time.sleep(LONG_S)

    say("returned", value=train())


def on_a_thread():
    """The function is on another thread, and in a loop: no system call of such a one is ended."""
    victim = WORDS[0]

    @muster.Wrapper()
    def train(call: muster.Call):
        enter(call)
        if call.iteration > 0:
            return call.rank * 10
        if call.rank == 1:
            call.job.barrier("met")
            globals()[victim](call)
        try:
            call.job.barrier("met")
            while True:
                time.sleep(0.001)
        finally:
            say("left", by=sys.exc_info()[0].__name__)

    results = []
    thread = threading.Thread(target=lambda: results.append(train()))
    thread.start()
    thread.join()
    say("returned", value=results[0])


def two_at_once():
    """While the function of the job runs on a thread, the main one runs another, of a job of its own."""
    own = muster.open(job=f"own-{os.environ['RANK']}", index=0, size_of_job=1)
    met = threading.Event()

    @muster.Wrapper()
    def train(call: muster.Call):
        enter(call)
        if call.iteration > 0:
            return call.rank * 10
        met.set()
        call.job.keys.wait("alone", "alone/1")
        if call.rank == 1:
            raise ValueError("a bug")
        while True:
            time.sleep(0.001)

    @muster.Wrapper(job=own, export=False)
    def alone(call: muster.Call):
        if call.iteration == 0:
            call.again()

    results = []
    thread = threading.Thread(target=lambda: results.append(train()))
    thread.start()
    met.wait()
    alone()
    muster._run._job_of_process(None).keys.put("alone" if os.environ["RANK"] == "0" else "alone/1", "")
    thread.join()
    say("returned", value=results[0])


def grows():
    """Rank 1 is killed, and its replacement is there while the others compute."""

    @muster.Wrapper()
    def train(call: muster.Call):
        enter(call)
        if call.iteration == 0:
            call.job.barrier("met")
            if call.index == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(LONG_S)
        told = muster._muster.lib.muster_restart_interrupted
        while not told(call._run.restart):
            sum(range(100))
        until = time.monotonic() + 1  # of the watchdog four times
        while time.monotonic() < until:
            sum(range(100))
        return call.iteration

    say("returned", value=train())


def callbacks():
    """Each says its name; rank 1 fails once."""
    order = []

    def note(what):
        def noted(state):
            order.append(f"{what}:{state.iteration}:{state.mode.name.lower()}")
            if what == "finalize":
                order.append(type(state.fn_exception).__name__)
            if what != "abort":
                assert os.environ.get("RANK") == str(state.rank)

        return noted

    kinds = ("precondition", "initialize", "health_check", "abort", "finalize", "completion", "terminate")
    options = {kind: [note(kind), note(kind + "2")] for kind in kinds}

    @muster.Wrapper(**options, restart_health_check=note("restart_health_check"))
    def train(call: muster.Call):
        order.append(f"fn:{call.iteration}")
        call.job.barrier("met")
        if call.iteration == 0:
            if call.rank == 1:
                raise ValueError
            time.sleep(LONG_S)

    train()
    say("order", rank=os.environ["RANK"], of=",".join(order))


def callbacks_fail():
    """The first word is the callback that fails, always on rank 1."""

    def bad(state):
        if state.initial_rank == 1 and (WORDS[0] != "initialize" or state.iteration == 0):
            raise OSError("worn out")

    @muster.Wrapper(**{WORDS[0]: bad})
    def train(call: muster.Call):
        enter(call)
        if call.iteration == 0:
            call.job.barrier("met")
            if call.rank == 1:
                raise ValueError("first")
            time.sleep(LONG_S)
        return call.rank

    try:
        say("returned", value=train())
    except muster.Error as error:
        say("raised", what=type(error).__name__, cause=repr(error.__cause__), text=error)
        sys.exit(0)


def ctrl_c_in_a_callback():
    """The first word is where rank 1 is: in one of the last callbacks, or rank 0 where it works the
    assignment out for all."""
    where = WORDS[0]
    struck = []

    def strike(state):
        if int(os.environ["MUSTER_INDEX"]) == (where != "rank_assignment") and not struck:
            struck.append(True)
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(LONG_S)

    def number(places):
        strike(None)

    strikes = number if where == "rank_assignment" else strike

    @muster.Wrapper(**{where: strikes}, iterations_max=1)
    def train(call: muster.Call):
        enter(call)
        call.job.barrier("met")
        if where == "terminate":
            raise ValueError("first")
        return call.rank

    try:
        say("returned", value=train())
    except muster.Failed:
        say("failed")
    except KeyboardInterrupt:
        say("interrupted")


def leaves_early():
    """Rank 1 leaves in `initialize`, as by sys.exit()."""

    def prepare(state):
        if state.rank == 1 and state.world_size == 3:
            sys.exit()

    @muster.Wrapper(initialize=prepare)
    def train(call: muster.Call):
        enter(call)
        if call.size == 3:
            time.sleep(LONG_S)
        return call.size

    try:
        say("returned", value=train())
    except SystemExit:
        say("raised")


def looks():
    """What a process has of descriptors, threads and KiB of memory."""
    with open("/proc/self/status", encoding="ascii") as status:
        (memory,) = [int(line.split()[1]) for line in status if line.startswith("VmRSS")]
    return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task")), memory


def hundreds():
    """300 attempts, with no collection of garbage; each leaves an object behind if a frame stays."""
    gc.disable()
    logging.getLogger("muster").setLevel(logging.CRITICAL)
    held, seen = [], {}

    class Model:
        pass

    @muster.Wrapper(stalled_max=1000)
    def train(call: muster.Call):
        if any(one() is not None for one in held):
            call.abort(f"attempt {call.iteration}: a model is there still")
        model = Model()
        held.append(weakref.ref(model))
        if call.iteration in (100, 300):
            seen[call.iteration] = looks()
        if call.iteration == 300:
            return
        call.job.barrier(f"met-{call.iteration}")
        if call.rank == 1:
            raise ValueError(model)
        time.sleep(LONG_S)

    train()
    (fds, threads, before), (fds_after, threads_after, after) = seen[100], seen[300]
    say("seen", fds=fds_after - fds, threads=threads_after - threads, kib=after - before)


def limits():
    """Fails for ever, at the same step."""

    @muster.Wrapper(**{WORDS[0]: 3})
    def train(call: muster.Call):
        enter(call)
        call.step(7)
        call.job.barrier(f"met-{call.iteration}")
        if call.rank == 1:
            raise ValueError("always")
        time.sleep(LONG_S)

    try:
        train()
    except muster.Failed as error:
        say("raised", why=error.why.name, cause=error.cause.kind.name, index=error.cause.index)
        raise


def progress():
    """Nothing is called for longer than the soft timeout: in Python that is progress, unless only pings
    are."""

    @muster.Wrapper(soft_timeout=3, progress=WORDS[0])
    def train(call: muster.Call):
        enter(call)
        if call.iteration == 0:
            until = time.monotonic() + (5 if WORDS[0] == "auto" else LONG_S)
            while time.monotonic() < until:
                sum(range(100))  # no wait, in which the interpreter is left
        return call.iteration

    say("returned", value=train())


def waiting():
    """Rank 1 waits in muster for longer than the soft timeout, after a ping, while rank 0 goes on."""

    @muster.Wrapper(soft_timeout=2)
    def train(call: muster.Call):
        enter(call)
        call.ping()
        until = time.monotonic() + 5
        while call.rank == 0 and call.iteration == 0 and time.monotonic() < until:
            call.ping()
            time.sleep(0.01)
        call.job.barrier(f"met-{call.iteration}")
        return call.iteration

    say("returned", value=train())


def phases():
    """A phase in C without progress, longer than the soft timeout: in a section with a limit above,
    and one below."""

    @muster.Wrapper(soft_timeout=2)
    def train(call: muster.Call):
        enter(call)
        if call.iteration == 0:
            with call.disable_hang_protection():
                time.sleep(4)
            say("passed")
            with call.section("compile", limit=0.5):
                time.sleep(LONG_S)
        return call.iteration

    say("returned", value=train())


def waits():
    """Ctrl-C while this rank waits for the others: in the run, its function being done, or as a spare."""

    @muster.Wrapper(precondition=lambda state: say("runs"))
    def train(call: muster.Call):
        enter(call)
        if call.rank == 0:
            call.job.keys.wait("interrupted")
            return None
        say("done")
        return None

    began = []

    def struck(number, frame):
        began.append(time.monotonic())
        signal.default_int_handler(number, frame)

    signal.signal(signal.SIGINT, struck)
    try:
        train()
        say("returned")
    except KeyboardInterrupt:
        say("interrupted", ms=(time.monotonic() - began[0]) * 1000)


def current():
    """A helper of the function finds its Call; the one of an old attempt is over."""
    old = []

    def helper():
        call = muster.current()
        old.append(call)
        return call

    @muster.restart
    def train(factor):
        call = helper()
        assert muster.current() is call
        if call.iteration == 0:
            found = []
            thread = threading.Thread(target=lambda: found.append(muster.current()))
            thread.start()
            thread.join()
            assert found == [call]
            call.job.barrier("met")
            call.again()
        try:
            old[0].ping()
        except muster.Restart as over:
            assert "attempt 0 is over" in str(over)
        else:
            raise AssertionError("an old attempt goes on")
        return factor * call.iteration

    assert train(5) == 5
    assert train(factor=6) == 6  # another run
    try:
        muster.current()
    except muster.Invalid:
        say("well")


def signals():
    """A signal for which the program has a handler is refused, and another one can be used."""
    number = signal.SIGRTMIN + 7
    mine = signal.signal(number, lambda *_: None)
    try:
        muster.restart(print)()
    except muster.Invalid as error:
        assert "handler" in str(error) and "MUSTER_INTERRUPT_SIGNAL" in str(error)
    else:
        raise AssertionError("it is not refused")

    @muster.Wrapper(interrupt=signal.SIGUSR2)
    def train(call: muster.Call):
        if call.iteration == 0:
            call.job.barrier("met")
            if call.rank == 1:
                call.again()
            time.sleep(LONG_S)
        assert signal.getsignal(number) not in (signal.SIG_DFL, mine)
        return call.iteration

    before = signal.getsignal(signal.SIGUSR2)
    assert train() == 1
    assert signal.getsignal(signal.SIGUSR2) == before

    @muster.Wrapper(interrupt=False, export=False)
    def quiet(call: muster.Call):
        assert exported() == BEFORE
        if call.iteration == 0:
            call.job.barrier("met again")
            if call.rank == 1:
                call.again()
            while True:
                time.sleep(0.01)  # is not cut short
                call.check()
        return call.iteration

    assert quiet() == 1
    say("well")


def hard_limit():
    """The hard timeout of the run, whatever set it."""

    def limit(**options):
        @muster.Wrapper(**options)
        def asked(call: muster.Call):
            return call.hard_timeout

        return asked()

    assert [limit(), limit(enabled=False)] == [90, 90]
    assert limit(hard_timeout=75) == limit(hard_timeout=datetime.timedelta(minutes=1.25)) == 75
    assert limit(barrier_timeout=60) == 45  # what is not set fits into it
    assert limit(hard_timeout=math.inf, soft_timeout=math.inf) == math.inf
    os.environ["MUSTER_HARD_TIMEOUT"] = "70500ms"
    assert [limit(), limit(hard_timeout=75)] == [70.5, 75]
    say("well")


def nested():
    """A wrapped function within a wrapped one is refused."""

    @muster.Wrapper()
    def inner():
        raise AssertionError("it must not run")

    @muster.Wrapper()
    def outer():
        try:
            inner()
        except muster.Deadlock:
            return "refused"

    assert outer() == "refused"
    say("well")


def used_by_threads():
    """Threads that the function does not wait for use its Call, and the job is closed after it."""
    calls, limits, over = [], set(), threading.Event()

    def use():
        while not over.is_set():
            for ask in (lambda: calls[-1].step(1), lambda: calls[-1].check(), lambda: calls[-1].faults,
                        lambda: limits.add(calls[-1].hard_timeout), lambda: muster.current().ping()):
                try:
                    ask()
                except (muster.Restart, muster.Invalid, IndexError):
                    pass

    users = [threading.Thread(target=use) for _ in range(6)]
    sys.setswitchinterval(1e-5)
    for user in users:
        user.start()
    for _ in range(60):
        with muster.open() as job:

            @muster.Wrapper(job=job)
            def train(call: muster.Call):
                calls[:] = [call]
                time.sleep(0.001)

            train()
            try:
                calls[-1].ping()
            except muster.Restart:
                continue
            raise AssertionError("it is over")
    over.set()
    for user in users:
        user.join()
    assert len(limits) == 1, limits  # each read what was there
    say("well")


def storm():
    """Rank by rank fails, at any moment of the others, from its heap to its locks: 60 attempts."""
    import random

    dice = random.Random(int(WORDS[0]) + int(os.environ["RANK"]))
    lock = threading.Lock()

    @muster.Wrapper(stalled_max=1000)
    def train(call: muster.Call):
        if call.iteration >= 60:
            return call.iteration
        until = time.monotonic() + dice.random() * 0.02
        while time.monotonic() < until or call.iteration % call.size != call.rank:
            with lock:
                dict.fromkeys(range(20))
            with call.atomic():
                time.sleep(0.0001)
        if dice.random() < 0.5:
            raise ValueError("now")
        call.again()

    assert train() >= 60
    assert not lock.locked()
    say("well", threads=threading.active_count())


globals()[MODE]()

# SPDX-License-Identifier: Apache-2.0
"""A rank in Python that does one of the numbered scenarios of a restart: SCENARIO FOLDER."""

import os
import pathlib
import signal
import sys
import threading
import time

import muster

SCENARIO, FOLDER = sys.argv[1], pathlib.Path(sys.argv[2])
LONG_S = 600


def say(what, /, **values):
    """One write: lines of several threads and processes stay whole."""
    words = [f"{key}={value}" for key, value in values.items()]
    sys.stdout.write(" ".join([what, f"pid={os.getpid()}", *words]) + "\n")
    sys.stdout.flush()


def entered(call):
    faults = ",".join(f"{fault.kind.name}:{fault.index}" for fault in call.faults)
    say("entered", attempt=call.iteration, rank=call.rank, size=call.size, faults=faults)


def one_fails(call):
    """In attempt 0 rank 1 fails once all are there; the others return from here, and may be told as they do."""
    if call.iteration == 0:
        call.job.barrier("met")
        if call.rank == 1:
            raise ValueError("first")


def the_argument_and_the_result():
    @muster.Wrapper()
    def train(steps, *, more):
        steps.append(muster.current().iteration)
        one_fails(muster.current())
        if len(steps) == 1:
            time.sleep(LONG_S)
        return [*steps, more]

    steps = []
    assert train(steps, more="x") == [0, 1, "x"] and steps == [0, 1]


def the_view_and_nested_sections():
    @muster.Wrapper()
    def train(call: muster.Call):
        view = call.job.view
        assert call.iteration == 0 and not call.spare and call.faults == []
        assert (call.rank, call.size, call.index) == (view.rank, view.size, view.index)
        assert call.generation == view.generation == call.view.generation
        for step in range(3):
            with call.atomic(), call.atomic():
                call.ping()
                with call.section("inner", 60), call.section("innermost"):
                    call.step(step)
        return "done"

    assert train() == "done"


def one_run_after_the_other():
    seen = []

    @muster.Wrapper(iterations_max=2)
    def train(fail, call: muster.Call):
        seen.append(call.iteration)
        call.job.barrier("met")
        if fail:
            raise ValueError("always")
        return call.rank

    @muster.Wrapper()
    def other():
        return "other"

    assert train(False) == train(False) and other() == "other"
    try:
        train(True)
    except muster.Failed as error:
        assert error.why is muster.Why.ITERATIONS and "always" in str(error)
    assert train(False) in (0, 1)
    assert seen[:3] == [0, 0, 0] and 1 in seen[3:] and seen[-1] == 0, seen


def nothing_is_left():
    def looks():
        return (
            len(os.listdir("/proc/self/fd")),
            len(os.listdir("/proc/self/task")),
            threading.active_count(),
            signal.getsignal(signal.SIGRTMIN + 7),
            os.environ.get("RANK"),
            os.environ.get("WORLD_SIZE"),
        )

    @muster.Wrapper()
    def train(call: muster.Call):
        one_fails(call)
        if call.iteration == 0:
            time.sleep(LONG_S)

    train()  # from the first one on there is a job
    before = looks()
    train()
    assert looks() == before, (before, looks())


def a_precondition_fails():
    def bad(state):
        assert state.mode is muster.Mode.INITIALIZED
        raise LookupError("not here")

    @muster.Wrapper(precondition=bad)
    def train():
        raise AssertionError("it must not run")

    try:
        train()
    except LookupError as error:
        assert str(error) == "not here"
    assert muster.restart(lambda: 5)() == 5  # nothing was left


def three_failures():
    seen = []

    @muster.Wrapper()
    def train(call: muster.Call):
        seen.append(call.iteration)
        call.job.barrier(f"met-{call.iteration}")
        if call.iteration < 3:
            raise ValueError(call.iteration)
        return [fault.index for fault in call.faults]

    assert sorted(set(train())) in ([0], [0, 1], [1])
    assert seen == [0, 1, 2, 3]


def abort_fails():
    def bad(state):
        raise OSError("abort is worn out")

    @muster.Wrapper(abort=bad)
    def train(call: muster.Call):
        one_fails(call)
        if call.iteration == 0:
            time.sleep(LONG_S)
        return call.iteration

    assert train() == 1


def the_assignment_fails():
    """The first one is fine; the second one raises, on the rank that works it out."""

    def assign(places):
        if any(place.previous is not None for place in places):
            raise LookupError("no place for anybody")
        for number, place in enumerate(place for place in places if place.alive):
            place.number = number

    seen = []

    @muster.Wrapper(rank_assignment=assign)
    def train(call: muster.Call):
        seen.append(call.iteration)
        one_fails(call)
        time.sleep(LONG_S)

    try:
        train()
    except muster.Error as error:
        assert error.why is muster.Why.ASSIGNMENT, error.why
        say("raised", cause=type(error.__cause__).__name__)
    assert seen == [0]


def a_state_is_a_copy():
    def writes(state):
        try:
            state.rank = 5
        except AttributeError:
            pass
        else:
            raise AssertionError("it can be written")

    @muster.Wrapper(initialize=writes)
    def train(call: muster.Call):
        return call.rank

    assert train() in (0, 1)


def the_key_space_of_the_generation():
    @muster.Wrapper()
    def train(call: muster.Call):
        job, generation = call.job, call.generation
        count = job.keys.add(f"count-{call.rank}", 1, generation=generation)
        one_fails(call)
        if call.iteration == 0:
            time.sleep(LONG_S)
        return count

    assert train() == 1


def two_fail_at_once():
    @muster.Wrapper(settle=1)
    def train(call: muster.Call):
        entered(call)
        call.job.barrier(f"met-{call.iteration}")
        if call.iteration == 0 and call.rank < 2:
            raise ValueError(call.rank)
        if call.iteration == 0:
            time.sleep(LONG_S)
        return sorted(fault.index for fault in call.faults)

    assert train() == [0, 1]


def one_fails_while_others_finalize():
    """Rank 0 keeps `finalize` until rank 2 is about to fail as well, which is the same restart."""

    def wait(state):
        if state.rank == 0 and state.iteration == 0:
            while not (FOLDER / "fails").exists():
                time.sleep(0.01)

    @muster.Wrapper(finalize=wait)
    def train(call: muster.Call):
        entered(call)
        if call.rank == 2 and call.iteration == 0:
            try:
                call.job.barrier("met")
                time.sleep(LONG_S)
            finally:
                (FOLDER / "fails").touch()
                raise OSError("as well")
        one_fails(call)
        if call.iteration == 0:
            time.sleep(LONG_S)
        return call.iteration

    assert train() == 1


def pings_once():
    """An interpreter that runs is no progress once there was a ping."""

    @muster.Wrapper(soft_timeout=2)
    def train(call: muster.Call):
        entered(call)
        call.ping()
        until = time.monotonic() + LONG_S
        while call.iteration == 0 and time.monotonic() < until:
            time.sleep(0.01)
        return call.iteration

    assert train() == 1


def a_handler_of_sigterm():
    """No signal reaches it, so it is ended by its agent: its handler has the time to clean up."""

    def cleans_up(number, frame):
        time.sleep(0.5)
        (FOLDER / "clean").touch()
        os._exit(1)

    signal.signal(signal.SIGTERM, cleans_up)

    @muster.Wrapper(interrupt=False, soft_timeout=2, hard_timeout=4, grace=30)
    def train(call: muster.Call):
        entered(call)
        if call.iteration > 0:
            assert (FOLDER / "clean").exists()
            return
        call.job.barrier("met")
        while call.rank == 1:
            time.sleep(LONG_S)
        while True:
            call.ping()
            time.sleep(0.01)

    train()


def an_exception_in_a_section():
    """The next attempt is in no section: a hang in it is found."""

    @muster.Wrapper(soft_timeout=2)
    def train(call: muster.Call):
        entered(call)
        if call.iteration == 0:
            with call.section("open"):
                one_fails(call)
                time.sleep(LONG_S)
        if call.iteration == 1:
            time.sleep(LONG_S)
        return call.iteration

    assert train() == 2


def one_never_ends():
    @muster.Wrapper(completion_timeout=1)
    def train(call: muster.Call):
        entered(call)
        while call.iteration == 0 and call.rank == 0:
            call.ping()
            time.sleep(0.01)
        return call.iteration

    assert train() == 1


def a_section_after_the_interruption():
    @muster.Wrapper()
    def train(call: muster.Call):
        try:
            one_fails(call)
            if call.iteration == 0:
                time.sleep(LONG_S)
        except muster.Restart:
            pass
        if call.iteration == 0:
            with call.atomic():
                say("within")
        return call.iteration

    assert train() == 1


def an_exception_in_nested_sections():
    """The next attempt can be interrupted."""

    @muster.Wrapper()
    def train(call: muster.Call):
        entered(call)
        call.job.barrier(f"met-{call.iteration}")
        if call.iteration < 2 and call.rank == 1 - call.iteration:
            with call.atomic(), call.atomic():
                raise ValueError("within")
        if call.iteration < 2:
            time.sleep(LONG_S)
        return call.iteration

    assert train() == 2


def ended(what):
    """Rank 1 does something for ever once it is told; only its agent ends it."""

    @muster.Wrapper(soft_timeout=2, hard_timeout=4, grace=1)
    def train(call: muster.Call):
        entered(call)
        if (FOLDER / "ended").exists():
            return
        call.job.barrier("met")
        if call.rank == 1:
            (FOLDER / "ended").touch()
            what(call)
        time.sleep(LONG_S)

    train()


def a_section_without_an_end():
    def stays(call):
        with call.atomic():
            while True:
                time.sleep(0.01)

    ended(stays)


def who_always_goes_on():
    def goes_on(call):
        while True:
            try:
                time.sleep(LONG_S)
            except BaseException:
                say("goes")

    ended(goes_on)


def in_a_destructor():
    """The first one is lost there, as the interpreter can only print it."""

    class Slow:
        def __init__(self, call):
            self.call = call

        def __del__(self):
            one_fails(self.call)
            time.sleep(LONG_S)

    @muster.Wrapper()
    def train(call: muster.Call):
        if call.rank == 1:
            one_fails(call)
        elif call.iteration == 0:
            slow = Slow(call)
            del slow
            say("behind")
            time.sleep(LONG_S)
        return call.iteration

    assert train() == 1


def with_blocks_in_three_frames():
    order = []

    class Held:
        def __init__(self, name):
            self.name = name

        def __enter__(self):
            order.append(f"+{self.name}")

        def __exit__(self, kind, *_):
            order.append(f"-{self.name}:{kind.__name__ if kind else None}")

    def inner(call):
        with Held("c"):
            one_fails(call)
            if call.iteration == 0:
                time.sleep(LONG_S)

    def outer(call):
        with Held("b"):
            inner(call)

    @muster.Wrapper(finalize=lambda state: order.append("finalize"))
    def train(call: muster.Call):
        with Held("a"):
            outer(call)
        return call.rank

    rank = train()
    kind = "ValueError" if rank == 1 else "Restart"
    ends = [f"-{name}:{kind}" for name in "cba"]
    well = [f"-{name}:None" for name in "cba"]
    assert order == ["+a", "+b", "+c", *ends, "finalize", "+a", "+b", "+c", *well], order


def all_fail():
    @muster.Wrapper()
    def train(call: muster.Call):
        entered(call)
        if call.iteration == 0:
            call.job.barrier("met")
            raise ValueError(call.rank)
        return call.iteration

    assert train() == 1


globals()[SCENARIO]()
say("well")

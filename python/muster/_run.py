# SPDX-License-Identifier: Apache-2.0
"""One call of a wrapped function: muster_restart_run in Python.

C calls muster_python_call and muster_python_callback, at the end of this file, on the thread that
called the wrapped function; abort callbacks come on a thread of C's own. What these raise must not
pass through C, and so an interruption that comes a step too early or too late ends in them."""

from __future__ import annotations

import atexit
import importlib
import logging
import os
import sys
import threading
from types import TracebackType
from typing import TYPE_CHECKING, Any, Callable, Dict, List, NoReturn, Optional, Sequence, Set

from ._assignment import to_c
from ._c import enum_of, string_of, text_of, view_of
from ._call import (
    ECANCELLED,
    EFAILED,
    EINTERRUPTED,
    EUNHEALTHY,
    OK,
    Call,
    Done,
    Fault,
    GiveUp,
    faults_of,
    local,
    running,
)
from ._errors import Fenced, Interrupted, Invalid, Lost, Preempted, Restart, Status, error_of
from ._interrupt import Interruption
from ._job import Job, open as open_job
from ._muster import ffi, lib
from ._state import Mode, State

if TYPE_CHECKING:
    from ._restart import Wrapper
    from ._types import Why as Why
else:
    Why = enum_of("Why", "enum muster_why", "Which rule ended a run: `why` of its error.")

FAULT_ROOM = 255
EXPORTED = ("RANK", "WORLD_SIZE")
# What a framework keeps between two attempts is of no use to the next one. Each of ours is imported
# only where the program has imported theirs.
FRAMEWORKS = {"torch.distributed": "muster.torch"}

log = logging.getLogger("muster")


def abort_torch(state: State) -> None:
    """Aborts all process groups of torch.distributed, if the program has imported that."""
    _frameworks("abort", state)


def _frameworks(function: str, state: State) -> None:
    for theirs, ours in FRAMEWORKS.items():
        if theirs in sys.modules:
            getattr(importlib.import_module(ours), function, lambda state: None)(state)


_jobs: Dict[int, Job] = {}  # by process: the one that is opened where none is given


def _job_of_process(min_size: Optional[int]) -> Job:
    job = _jobs.get(os.getpid())
    if job is None or job._handle.client is None:
        options: Dict[str, Any] = {} if min_size is None else {"min_size": min_size}
        job = _jobs[os.getpid()] = open_job(**options)
        atexit.register(job.close)
    return job


def _disabled() -> bool:
    return os.environ.get("MUSTER_ENABLED", "").strip() == "0"


class Run:
    def __init__(
        self,
        wrapper: Wrapper,
        function: Callable[..., Any],
        places: List[str],
        args: Sequence[Any],
        kwargs: Dict[str, Any],
    ) -> None:
        self.wrapper = wrapper
        self.function, self.places = function, places
        self.args, self.kwargs = args, kwargs
        self.watched = False
        self.bound: Any = None
        if places:
            import inspect

            self.bound = inspect.signature(function).bind_partial(*args, **kwargs)
        self.interruption = Interruption(wrapper.interrupt, Run.attempt.__code__)
        self.pid = os.getpid()
        self.job: Optional[Job] = None
        self.restart: Any = ffi.NULL
        self.call: Optional[Call] = None
        self.threads: Set[int] = {threading.get_ident()}  # which C waits for
        self.gate: Any = threading.Lock()  # held by other threads in C: the end of an attempt waits for them
        self.shared: bool = False  # they may be
        self.result: Any = None
        self.said: Optional[int] = None  # what the function has reported, and is to return
        self.words = ""  # of it
        self.before_fault = True
        self.fn_exception: Optional[BaseException] = None
        self.ends: Optional[BaseException] = None  # raised after the run, as it is
        self.dies = False  # it ends alone, after a failure
        self.preempted: Optional[Preempted] = None
        self.failure: Optional[BaseException] = None  # the cause of the error of the run
        self.faults: List[Fault] = []
        self.initial: Any = None
        self.assignment: Any = None
        self.kept: List[Any] = []

    # --- what callbacks are given ---

    def state(self, mode: Optional[Mode] = None) -> State:
        view = self.view()
        active = view.rank is not None and not view.spare
        rank = view.rank if active else None
        return State(
            rank=rank,
            world_size=view.size,
            active_rank=rank,
            active_world_size=view.size,
            initial_rank=self.initial.index,
            initial_world_size=self.initial.size_of_job,
            iteration=view.iteration,
            mode=mode or (Mode.ACTIVE if active else Mode.INACTIVE),
            fn_exception=self.fn_exception,
        )

    def view(self) -> Any:
        if not self.restart:
            return self.initial
        out = ffi.new("struct muster_view *")
        lib.muster_restart_view(self.restart, out)
        return view_of(out)

    def take_call(self) -> None:
        """A new one for each attempt: what an old attempt has left running gets Restart."""
        self.call = Call(self, self.view())
        for place in self.places:
            self.bound.arguments[place] = self.call
        if self.places:
            self.args, self.kwargs = self.bound.args, self.bound.kwargs

    def mirror(self) -> None:
        """os.environ is a copy, made when the interpreter started: C's setenv does not reach it."""
        for name in EXPORTED:
            value = text_of(lib.getenv(name.encode()))
            if value == os.environ.get(name):
                continue
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value

    # --- callbacks, each with the status that C gets ---

    def callback(self, kind: str, restart: Any) -> int:
        self.restart = restart
        status = int(getattr(self, "_" + kind)())
        self.end_child(None)
        return status

    def _precondition(self) -> int:
        try:
            self.each("precondition", Mode.INITIALIZED)
        except BaseException as failure:
            self.ends = failure
            return EFAILED
        return OK

    def _initialize(self) -> int:
        self.take_call()
        self.said = self.fn_exception = self.result = None
        self.before_fault = True
        self.mirror()
        try:
            _frameworks("begin", self.state())
            self.each("initialize")
        except BaseException as failure:
            return self.report(failure, "initialize: ")
        return OK

    def _health_check(self) -> int:
        try:
            if self.before_fault:
                self.each("health_check")
            else:
                for hook in self.wrapper.restart_health_check:
                    hook(self.state())
        except BaseException as failure:
            if self.before_fault:
                return self.report(failure, "health_check: ")
            return self.ended(failure, EUNHEALTHY)
        return OK

    def _finalize(self) -> int:
        self.before_fault = False
        self.result = None
        self.call = None if self.call is None else Call(self, self.call.view)  # the old one is over
        try:
            self.each("finalize")
            _frameworks("finalize", self.state())
            if self.wrapper.gc:
                import gc

                gc.collect()
        except BaseException as failure:
            return self.ended(failure, EFAILED)
        return EFAILED if self.dies else OK

    def _abort(self) -> int:
        """On C's thread of the abort callbacks."""
        self.threads.add(threading.get_ident())
        aborted = threading.Event()
        poker: Optional[threading.Thread] = None
        if not self.interruption.main:
            poker = threading.Thread(
                target=self.interruption.poke, args=(aborted, self.told), daemon=True
            )
            poker.start()
        try:
            self.logged("abort")
        finally:
            self.threads.discard(threading.get_ident())
            aborted.set()
            if poker is not None:
                poker.join()
        return OK

    def _completion(self) -> int:
        self.mirror()
        self.logged("completion")
        return OK

    def _terminate(self) -> int:
        self.faults = faults_of(self.restart)
        self.mirror()
        self.logged("terminate", Mode.TERMINATED)
        return OK

    def _wait_check(self) -> int:
        """Handlers of signals run when the interpreter does."""
        try:
            for _ in (None, None):
                pass
        except BaseException as failure:
            self.ends = failure
            return ECANCELLED
        return OK

    def each(self, kind: str, mode: Optional[Mode] = None) -> None:
        for hook in self.wrapper.hooks[kind]:
            hook(self.state(mode))

    def logged(self, kind: str, mode: Optional[Mode] = None) -> None:
        for hook in self.wrapper.hooks[kind]:
            try:
                hook(self.state(mode))
            except BaseException as failure:
                if isinstance(failure, Exception) or kind == "abort":
                    log.warning("a callback of %s failed", kind, exc_info=True)
                else:
                    self.ends = self.ends or failure

    def ended(self, failure: BaseException, status: int) -> int:
        """This rank's run ends with it."""
        lib.muster_restart_fail(self.restart, 1, _text_of(failure))
        if isinstance(failure, Exception):
            self.failure = failure
        else:
            self.ends = failure
        return status

    # --- what the function raised ---

    def end_child(self, failure: Optional[BaseException]) -> None:
        """A process that was forked from the function must not return into C: that is its parent's."""
        if os.getpid() != self.pid and self.job is not None:
            _end_child(failure)

    def told(self) -> bool:
        return bool(lib.muster_restart_interrupted(self.restart))

    def say(self, status: int, expected: int, words: str = "") -> NoReturn:
        """It has reported something and is to return that."""
        if status != expected:
            raise error_of(status)
        self.said, self.words = status, words
        raise Done()

    def report(self, failure: BaseException, where: str = "") -> int:
        """The status of a function, or of `where` before it, that raised this."""
        self.end_child(failure)
        restart = self.restart
        if self.said is not None:
            return self.said
        if isinstance(failure, Restart):
            return EINTERRUPTED if self.told() else int(lib.muster_restart_again(restart))
        if isinstance(failure, GiveUp):
            self.ends = failure
            return int(lib.muster_restart_abort(restart, failure.code, string_of(str(failure))))
        if isinstance(failure, Preempted):
            self.preempted = failure
            return int(failure.status)
        if isinstance(failure, (Lost, Fenced)):
            return int(failure.status)  # C knows whether a peer's end is why
        if isinstance(failure, Exception):
            return self.failed(failure, where)
        code = _exit_code(failure)
        self.ends = failure
        if code in (0, 75):
            return int(lib.muster_restart_leave(restart))
        self.dies = True
        return int(lib.muster_restart_fail(restart, code, _text_of(failure, where)))

    def failed(self, failure: Exception, where: str) -> int:
        self.fn_exception = failure
        if isinstance(failure, Interrupted) or self.told():
            log.debug("the function raised while the job restarts", exc_info=failure)
            return EINTERRUPTED
        # First of all: the others wait for it, and a traceback takes its time.
        status = int(lib.muster_restart_fail(self.restart, 1, _text_of(failure, where)))
        view = self.call.view if self.call is not None else self.initial
        log.warning(
            "rank %s (#%s) failed in attempt %s", view.rank, view.index, view.iteration, exc_info=failure
        )
        return status

    # --- the function ---

    def attempt(self, restart: Any) -> int:
        """An interruption may come at each step of it, until left() is done."""
        self.restart = restart
        if self.job is None:  # restarts are disabled: nothing came before this
            self.take_call()
        failure: Optional[BaseException] = None
        self.shared = True
        try:
            try:
                self.interruption.begin()
                if self.watched:  # the clocks of a hang start with the first call
                    lib.muster_restart_check(restart)
                self.result = self.function(*self.args, **self.kwargs)
            finally:
                self.leave()
        except BaseException as raised:
            failure = raised
        try:
            self.end_child(failure)
            with self.gate:
                self.shared = False
            return self.returned(failure)
        finally:
            _release(failure)
            failure = None  # whose traceback holds this frame

    def leave(self) -> None:
        """Until it is so; an interruption in it is not repeated for a second."""
        late: Optional[Restart] = None
        while self.interruption.inside:
            try:
                self.interruption.left()
            except Restart as interruption:
                late = interruption
        if late is not None:
            raise late

    def returned(self, failure: Optional[BaseException]) -> int:
        if failure is None:
            return OK  # C knows what was reported
        if self.said is not None:
            return self.said
        if self.job is None:
            self.ends = failure
            return EFAILED
        return self.report(failure)

    # --- the run ---

    def options(self) -> Any:
        wrapper = self.wrapper
        options = wrapper._options(self.kept)
        self.interruption.put_into(options)
        kinds = ["initialize", "finalize", "terminate", "health_check", "wait_check"]
        kinds += [kind for kind in ("precondition", "completion") if wrapper.hooks[kind]]
        if wrapper.hooks["abort"] or not self.interruption.main:
            kinds.append("abort")
        for kind in kinds:
            handle = ffi.new_handle((self, kind))
            call = lib.muster_python_hook_address()
            hook = ffi.new("struct muster_restart_hook *", {"call": call, "arg": handle})
            hooks = getattr(options, kind)
            hooks.list, hooks.count = hook, 1
            self.kept += [handle, hook]
        options.assignment, self.assignment = to_c(
            wrapper.assignment, self.state(Mode.INITIALIZED)
        )
        return options

    def go(self) -> Any:
        _refuse_groups()
        if not self.wrapper.enabled or _disabled():
            return self.plainly()
        self.job = self.wrapper.job or _job_of_process(self.wrapper.min_size)
        self.initial = self.job.view
        err = ffi.new("struct muster_error *")
        handle = ffi.new_handle(self)
        options = self.options()
        runs = local.__dict__.setdefault("runs", [])
        self.interruption.arm()
        try:
            if self.wrapper.progress == "auto" and self.interruption.main:
                self.watched = lib.muster_python_watch_start() == 0
            runs.append(self)
            running.append(self)
            with self.job._handle as client:
                function = lib.muster_python_function_address()
                status = lib.muster_restart_run(client, options, function, handle, err)
        finally:
            self.over(runs)
        return self.outcome(status, err)

    def over(self, runs: List[Run]) -> None:
        for listed in (runs, running):
            if self in listed:
                listed.remove(self)
        if self.watched:
            lib.muster_python_watch_stop()
            self.watched = False
        self.interruption.disarm()
        self.mirror()
        self.restart = ffi.NULL
        self.call = self.bound = None

    def plainly(self) -> Any:
        handle = ffi.new_handle(self)
        options = self.wrapper._options(self.kept)
        options.disabled = True
        err = ffi.new("struct muster_error *")
        given = self.wrapper.job
        client = ffi.NULL if given is None else given._handle.get()
        runs = local.__dict__.setdefault("runs", [])
        runs.append(self)
        try:
            function = lib.muster_python_function_address()
            status = lib.muster_restart_run(client, options, function, handle, err)
        finally:
            self.over(runs)
        return self.outcome(status, err)

    def outcome(self, status: int, err: Any) -> Any:
        raised = self.error(status, err)
        result = self.result
        self.result = self.ends = self.preempted = self.failure = self.fn_exception = None
        self.kept.clear()
        if raised is None:
            return result
        try:
            raise raised
        finally:
            del raised  # whose traceback holds this frame

    def error(self, status: int, err: Any) -> Optional[BaseException]:
        """What the call of the wrapped function raises."""
        assigning: Optional[BaseException] = getattr(self.assignment, "failure", None)
        if self.ends is None and not isinstance(assigning, Exception):
            self.ends = assigning  # Ctrl-C, there
        if self.ends is not None:
            return self.ends
        if status == lib.MUSTER_EPREEMPTED and self.preempted is not None:
            return self.preempted
        if status >= 0:
            return None
        text = text_of(err.text) or ""
        if self.job is None:  # restarts are disabled, and C has kept nothing of what it said
            text = text or self.words
        if self.job is None and status == EINTERRUPTED:
            return Restart("the function is to begin again, and restarts are disabled")
        if err.why == lib.MUSTER_WHY_ABORTED:
            return GiveUp(text)
        error = error_of(status, text, err.os_errno)
        error.why = Why(err.why) if err.why in Why.__members__.values() else err.why
        error.cause = self.faults[0] if self.faults else None
        error.__cause__ = self.failure or assigning
        return error


def _refuse_groups() -> None:
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        raise Invalid(
            "torch.distributed is initialized already: call init_process_group in the function, which "
            "makes the groups of each attempt anew",
            Status.EINVAL,
        )


def _exit_code(failure: Optional[BaseException]) -> int:
    """Of SystemExit; Ctrl-C leaves as status 0 does."""
    if not isinstance(failure, SystemExit):
        return 0 if failure is None or isinstance(failure, KeyboardInterrupt) else 1
    if failure.code is None:
        return 0
    return failure.code if isinstance(failure.code, int) else 1


def _end_child(failure: Optional[BaseException]) -> NoReturn:
    code = _exit_code(failure)
    if failure is not None and not isinstance(failure, SystemExit):
        sys.excepthook(type(failure), failure, failure.__traceback__)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code & 255)


def _text_of(failure: BaseException, before: str = "") -> Any:
    """`repr at file:line`, as long as a record may be."""
    try:
        said = before + " ".join(repr(failure).split())
    except Exception:
        said = before + type(failure).__name__
    trace: Optional[TracebackType] = failure.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = b""
    if trace is not None:
        name = os.path.basename(trace.tb_frame.f_code.co_filename)
        where = f" at {name}:{trace.tb_lineno}".encode(errors="replace")[:FAULT_ROOM]
    line = said.encode(errors="replace").replace(b"\0", b" ")
    room = FAULT_ROOM - len(where)
    if len(line) > room:
        line = line[: max(room - 3, 0)].decode(errors="ignore").encode() + b"..."
    return string_of(line + where)


def _release(failure: Optional[BaseException]) -> None:
    """Its frames keep what the function held: a model, and groups of a generation that is over."""
    import traceback

    seen: Set[int] = set()
    waiting = [failure]
    while waiting:
        one = waiting.pop()
        if one is not None and id(one) not in seen:
            seen.add(id(one))
            traceback.clear_frames(one.__traceback__)
            waiting += [one.__cause__, one.__context__]


# ---- what C calls ----


def _escaped(_kind: Any, value: Any, _trace: Any) -> int:
    """What came between the lines of this module: an interruption, or Ctrl-C as C called it."""
    runs = getattr(local, "runs", None)
    if isinstance(value, Restart) or not runs:
        return int(EINTERRUPTED)
    runs[-1].ends, runs[-1].dies = value, True
    return int(ECANCELLED)


@ffi.def_extern(error=EINTERRUPTED, onerror=_escaped)
def muster_python_call(restart: Any, arg: Any) -> int:
    return ffi.from_handle(arg).attempt(restart)  # type: ignore[no-any-return]


@ffi.def_extern(error=EFAILED, onerror=_escaped)
def muster_python_callback(restart: Any, arg: Any) -> int:
    run, kind = ffi.from_handle(arg)
    return run.callback(kind, restart)  # type: ignore[no-any-return]

# SPDX-License-Identifier: Apache-2.0
"""Workers of a cluster: processes that run functions for a coordinator (muster.cluster).

    from muster import worker

    @worker.function("square", pure=True)
    def square(x):
        return x * x

    if __name__ == "__main__":
        worker.serve()

`python3 -m muster.worker MODULE...` serves the functions of modules. docs/python/cluster.md is the
guide."""

import argparse
import functools
import importlib
import itertools
import os
import pickle
import select
import signal
import sys
import threading
import time
import traceback
from typing import Any, Callable, Dict, List, NoReturn, Optional, Sequence, Tuple, Type, TypeVar, Union

from . import _job
from . import _pickled as pickled
from ._c import bytes_of, options_of, string_of
from ._errors import Error, check
from ._muster import ffi, lib
from ._pickled import BUFFER, BUILD, ITERATE, PICKLE, RAW, local

__all__ = [
    "Retry",
    "StateServerFailed",
    "Stopped",
    "Task",
    "check_cancelled",
    "command",
    "current",
    "function",
    "get_current_worker_index",
    "job",
    "serve",
]

FLAGS = {
    "pure": lib.MUSTER_FUNCTION_PURE,
    "idempotent": lib.MUSTER_FUNCTION_IDEMPOTENT,
    "once": lib.MUSTER_FUNCTION_ONCE,
    "threads": lib.MUSTER_FUNCTION_THREADS,
}
MARK = "__muster_function__"
CODE_KEPT = 1 << 16  # bytes: a function that holds more is loaded for each call
SIGNALS = "MUSTER_WORKER_SIGNALS"  # the setting, which C reads
Fn = TypeVar("Fn", bound=Callable[..., Any])


class Retry(Exception):
    """Raised by a function: this attempt failed, another one may succeed. The closure runs again if
    it has a retry left (`retries` of schedule)."""


class StateServerFailed(Exception):
    """Raised by a function: the state server of this name (Coordinator.state_server) failed."""

    def __init__(self, server: str, text: str = "") -> None:
        super().__init__(server, text)
        self.server = server
        self.text = text


class Stopped(BaseException):
    """Raised in a function that must stop: its closure was cancelled, or its time is over. Its own
    `finally` and `with` run; `except Exception` does not catch it."""


STOPPED = "the closure was cancelled, or its time is over"


class _Stopper:
    """Raises Stopped in the function on the main thread: a thread waits for C's word, and sends a
    signal, which ends a system call; its handler in Python raises. Not while a module is imported,
    which would stay half of one, and again after a while, as a `finally` may take some time."""

    SIGNAL = signal.SIGRTMIN + 8
    EVERY_S = 0.05
    AGAIN_S = 2.0

    def __init__(self) -> None:
        self.inside = False
        self.began = False
        self.main = threading.get_ident()
        self.next_s = 0.0
        self.before = signal.signal(self.SIGNAL, self._raise)

    def begin(self, task: Any) -> None:
        """The first function: its slot's descriptor is that of all later ones."""
        self.began = True
        descriptor = lib.muster_task_cancel_fd(task)
        if descriptor >= 0:
            threading.Thread(target=self._watch, args=(descriptor,), daemon=True).start()

    def _watch(self, descriptor: int) -> None:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        while _stoppers and _stoppers[-1] is self:
            if poll.poll(1000) and self.inside:
                signal.pthread_kill(self.main, self.SIGNAL)
            if self.inside or poll.poll(0):
                time.sleep(self.EVERY_S)

    def _raise(self, _number: int, frame: Any) -> None:
        if not self.inside or local.task is None or not lib.muster_task_cancelled(local.task):
            return
        if time.monotonic() < self.next_s:
            return
        while frame is not None:
            if frame.f_globals.get("__name__") == "importlib._bootstrap":
                return
            frame = frame.f_back
        self.stop()

    def stop(self) -> NoReturn:
        """What the function does then is not cut short for a while."""
        self.next_s = time.monotonic() + self.AGAIN_S
        raise Stopped(STOPPED)

    def end(self) -> None:
        signal.signal(self.SIGNAL, self.before)


class Function:
    """A function as workers know it."""

    def __init__(
        self,
        call: Callable[..., Any],
        name: str,
        version: int = 1,
        flags: int = 0,
        raw: bool = False,
        borrow: bool = False,
        retry_on: Tuple[Type[BaseException], ...] = (),
    ) -> None:
        self.call = call
        self.name = name
        self.version = version
        self.flags = flags
        self.raw = raw
        self.borrow = borrow
        self.retry_on: Tuple[Type[BaseException], ...] = (Retry, *retry_on)

    def run(self, task: Any, data: Any, size: int, kind: int, parts: Any, count: int) -> int:
        """One attempt. Whatever it raises becomes its failure."""
        local.task = task
        stopper = _stoppers[-1] if _stoppers else None
        try:
            if stopper is not None:
                if not stopper.began:
                    stopper.begin(task)
                stopper.next_s = 0.0
                stopper.inside = True
            if count == 1 and kind == PICKLE and not self.raw:
                args, kwargs = pickle.loads(ffi.buffer(data, size))
                result = self.call(*args, **kwargs)
            else:
                result = self._run(task, data, size, kind, parts, count)
            if stopper is not None:
                stopper.inside = False
            if local.forked:
                _end_child(None)
            if result is None:
                return lib.MUSTER_OK
            return self._give(task, result)
        except BaseException as failure:
            if stopper is not None:
                stopper.inside = False
            if local.forked:
                _end_child(failure)
            return self._fail(task, failure)
        finally:
            local.task = None

    def _run(self, task: Any, data: Any, size: int, kind: int, parts: Any, count: int) -> Any:
        if self.raw != (count == 0 or kind == RAW):
            wanted = "bytes: schedule it with raw=True" if self.raw else "a pickle, not bytes"
            raise TypeError(f"function {self.name!r} takes {wanted}")
        if self.raw:
            return self.call(*(pickled.bytes_of_part(parts[i]) for i in range(count)))
        views = [self._view(parts[i]) for i in range(1, count)]
        try:
            args, kwargs = pickle.loads(ffi.buffer(data, size), buffers=views)
            result = self.call(*args, **kwargs)
            if kind == PICKLE:
                return self._apart(result) if self.borrow else result
            return self._keep(task, iter(result) if kind == ITERATE else result)
        except BaseException as failure:
            if self.borrow:  # its traceback has the variables of the function
                pickled.forget_variables(failure)
            raise
        finally:
            if self.borrow:
                args = kwargs = result = None
                self._returned(views)

    def _view(self, part: Any) -> memoryview:
        memory = ffi.buffer(part.data, part.size)
        return memoryview(memory).toreadonly() if self.borrow else memoryview(bytearray(memory))

    def _apart(self, result: Any) -> Any:
        """Without the arguments, which may be in it, for these are borrowed."""
        data, buffers = pickled.dumps(result)
        return _Ready(data, [bytes(buffer) for buffer in buffers])

    def _returned(self, views: List[memoryview]) -> None:
        """An array that refers to them still would read memory that is not the message's any more."""
        memory = [view.obj for view in views]
        while views:
            views.pop().release()
        while memory:
            if sys.getrefcount(memory.pop()) > 1:  # the call's own
                raise pickled.invalid(
                    f"function {self.name!r} kept an argument that it borrowed: copy it, or register "
                    "it without borrow"
                )

    @staticmethod
    def _keep(task: Any, made: Any) -> None:
        number = next(_numbers)
        pickled.objects[number] = made
        status = lib.muster_python_keep(task, number)
        if status < 0:
            del pickled.objects[number]
            raise pickled.invalid("this is no builder of a per-worker value")

    def _give(self, task: Any, result: Any) -> int:
        if self.raw:
            for one in [result] if isinstance(result, (bytes, bytearray, memoryview)) else result:
                check(lib.muster_task_add(task, ffi.from_buffer(one), len(one), RAW), None)
            return lib.MUSTER_OK
        if type(result) is _Ready:
            data: Any = result.data
            buffers: Sequence[Any] = result.buffers
        else:
            try:
                data, buffers = pickled.dumps(result)
            except Exception as why:
                raise TypeError(f"the result of {self.name!r} cannot be pickled: {why}") from why
        status = lib.muster_task_add(task, data, len(data), PICKLE)
        for buffer in buffers:
            if status >= 0:
                status = lib.muster_task_add(task, ffi.from_buffer(buffer), len(buffer), BUFFER)
        return status

    def _fail(self, task: Any, failure: BaseException) -> int:
        if failure.__traceback__ is not None:  # without the frame of this module
            failure.__traceback__ = _below(failure.__traceback__)
        text = pickled.line_of(failure).encode(errors="replace").replace(b"\0", b"")
        for data in pickled.parts_of_exception(failure):
            if lib.muster_task_add(task, data, len(data), lib.MUSTER_PART_ERROR) < 0:
                break
        if isinstance(failure, StateServerFailed):
            server = string_of(failure.server)
            return lib.muster_task_state_failed(task, server, text)
        tell = lib.muster_task_retry if isinstance(failure, self.retry_on) else lib.muster_task_fail
        return tell(task, 1, text)


class _Ready:
    """A result that is pickled already."""

    def __init__(self, data: bytes, buffers: List[bytes]) -> None:
        self.data = data
        self.buffers = buffers


def _below(trace: Any) -> Any:
    """Its part below this module, if there is any."""
    lower = trace
    while lower is not None and lower.tb_frame.f_code.co_filename == __file__:
        lower = lower.tb_next
    return lower or trace


_functions: Dict[Tuple[str, int], Function] = {}  # what was declared
_commands: Dict[Tuple[str, int], Tuple[List[bytes], int]] = {}
_served: List[Function] = []  # by the number that C has
_numbers = itertools.count(1)
_loaded = functools.lru_cache(maxsize=64)(pickle.loads)  # functions that were sent
_jobs: List[Any] = []  # of what serves now
_stoppers: List[_Stopper] = []  # where functions run on the main thread


def _run(task: Any, number: int, data: Any, size: int, kind: int, parts: Any, count: int) -> int:
    return _served[number].run(task, data, size, kind, parts, count)


def _drop(number: Any) -> None:
    pickled.objects.pop(int(ffi.cast("uintptr_t", number)), None)


ffi.def_extern(name="muster_python_task", error=lib.MUSTER_EFAILED)(_run)
ffi.def_extern(name="muster_python_drop")(_drop)


def _in_child() -> None:
    local.forked = local.task is not None


def _end_child(failure: Optional[BaseException]) -> NoReturn:
    """A function has forked, and this is the child, which has come out of it. The attempt is its
    parent's, and so are the connections: the child ends as a program would."""
    code = 0
    if isinstance(failure, SystemExit) and (failure.code is None or isinstance(failure.code, int)):
        code = (failure.code or 0) & 0xFF
    elif isinstance(failure, SystemExit):
        print(failure.code, file=sys.stderr)
        code = 1
    elif failure is not None:
        traceback.print_exception(type(failure), failure, failure.__traceback__)
        code = 1
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (AttributeError, OSError, ValueError):  # none, or closed
            pass
    os._exit(code)


os.register_at_fork(after_in_child=_in_child)


def _call_code(code: bytes, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Any:
    function: Any = _loaded(code) if len(code) <= CODE_KEPT else pickle.loads(code)
    return function(*args, **kwargs)


# ---- declaring ----


def _place(call: Callable[..., Any]) -> Tuple[Any, Any]:
    code = getattr(call, "__code__", None)
    return getattr(code, "co_filename", call), getattr(code, "co_firstlineno", None)


def function(
    name: Union[str, Fn, None] = None,
    *,
    version: int = 1,
    pure: bool = False,
    idempotent: bool = False,
    once: bool = False,
    threads: bool = False,
    raw: bool = False,
    borrow: bool = False,
    retry_on: Tuple[Type[BaseException], ...] = (),
) -> Any:
    """Declares a function of workers: `@function`, or `@function("name", version=2, pure=True)`. In
    the coordinator's program it marks the function, so that `schedule(f, ...)` knows its name.

    pure, idempotent, once, threads: as in muster/worker.h. raw: its arguments and its result are
    bytes (or a list of these), nothing is pickled. borrow: arrays in its arguments are the memory of
    the message itself, read-only, and must not be kept. retry_on: exceptions that another attempt
    may not have, like Retry."""
    given = {"pure": pure, "idempotent": idempotent, "once": once, "threads": threads}

    def declare(call: Any) -> Any:
        named = name if isinstance(name, str) else call.__name__
        flags = sum(FLAGS[flag] for flag, wanted in given.items() if wanted)
        made = Function(call, named, version, flags, raw, borrow, retry_on)
        known = _functions.get((named, version))
        if known is not None and _place(known.call) != _place(call):  # not its module once more
            raise pickled.invalid(f"function {named!r}, version {version}, is declared twice")
        _functions[named, version] = made
        setattr(call, MARK, made)
        return call

    return declare(name) if callable(name) else declare


def command(
    name: str,
    argv: Sequence[Union[str, bytes]],
    *,
    version: int = 1,
    pure: bool = False,
    idempotent: bool = False,
    once: bool = False,
) -> None:
    """Declares a program as a function of workers: its arguments are words of its command line, its
    result is what it writes to its standard output, as bytes (muster_worker_register_command)."""
    given = {"pure": pure, "idempotent": idempotent, "once": once}
    flags = sum(FLAGS[flag] for flag, wanted in given.items() if wanted)
    _commands[name, version] = [bytes_of(word) for word in argv], flags


# ---- serving ----


def _register(worker: Any, served: Sequence[Function]) -> None:
    err = ffi.new("struct muster_error *")
    run = lib.muster_python_run_address()
    for one in served:
        number = ffi.cast("void *", len(_served))
        name = string_of(one.name)
        check(
            lib.muster_worker_register(worker, name, one.version, one.flags, run, number, err), err
        )
        _served.append(one)
    for (named, version), (argv, flags) in _commands.items():
        words = [ffi.new("char[]", word) for word in argv]
        listed = ffi.new("char *[]", [*words, ffi.NULL])
        name = string_of(named)
        check(
            lib.muster_worker_register_command(
                worker, name, version, flags, listed, ffi.NULL, err
            ),
            err,
        )


def _wanted(functions: Any, code: bool) -> List[Function]:
    """The functions to serve: those given, or all that were declared."""
    if functions is None:
        wanted = list(_functions.values())
    elif isinstance(functions, dict):
        wanted = [getattr(f, MARK, None) or Function(f, name) for name, f in functions.items()]
    else:
        wanted = [getattr(f, MARK, None) or Function(f, f.__name__) for f in functions]
    if code:
        wanted.append(Function(_call_code, pickled.CALL))
    if not wanted and not _commands:
        raise pickled.invalid("serve: no function is declared: use @muster.worker.function")
    return wanted


class _CtrlC:
    """Of a worker whose SIGINT is Python's: the first one drains it, which C does, and KeyboardInterrupt
    comes when what runs has ended; at the next one it comes in the function that runs."""

    def __init__(self, options: Dict[str, Any]) -> None:
        chosen = options.get("signals") is not None or SIGNALS in os.environ
        main = threading.current_thread() is threading.main_thread()
        python = signal.getsignal(signal.SIGINT) is signal.default_int_handler
        self.ours = main and python and not chosen
        self.came = False
        if self.ours:
            options["signals"] = "TERM,INT"

    def begin(self) -> None:
        if self.ours:
            signal.signal(signal.SIGINT, self._came)

    def _came(self, number: int, frame: Any) -> None:
        if self.came:
            signal.default_int_handler(number, frame)
        self.came = True

    def end(self) -> None:
        if self.ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def serve(
    functions: Any = None,
    *,
    job: Any = None,  # shadows the function, whose name users see
    code: bool = False,
    timeout: Optional[float] = None,
    **options: Any,
) -> None:
    """Runs closures until this worker is drained or its cluster dismissed.

    functions: a list of functions or {name: function}; None: all that were declared. job: of role
    "worker"; None: muster.open does it. code: also runs functions that a coordinator sends by
    cloudpickle. Options are those of struct muster_worker_options: cluster, slots, cancel_grace (in
    seconds), signals, scratch. Fenced: this process was replaced; KeyboardInterrupt: Ctrl-C, once the
    function that runs has ended, or at a second Ctrl-C in it."""
    served = _wanted(functions, code)
    ctrl_c = _CtrlC(options)
    given, kept = options_of(lib.muster_worker_options_init, options, "muster.worker.serve")
    err = ffi.new("struct muster_error *")
    out = ffi.new("muster_worker **")
    own = _job.open(role="worker", timeout=timeout) if job is None else None
    _jobs.append(own or job)
    slots = given.slots or int(os.environ.get("MUSTER_WORKER_SLOTS", "1"))
    if slots == 1 and threading.current_thread() is threading.main_thread():
        _stoppers.append(_Stopper())
    try:
        with _jobs[-1]._handle as client:
            check(lib.muster_worker_open(out, client, given, err), err)
            del kept[:]
            try:
                _register(out[0], served)
                ctrl_c.begin()
                check(lib.muster_worker_serve(out[0], err), err)
            finally:
                ctrl_c.end()
                lib.muster_worker_close(out[0])
    finally:
        del _jobs[-1]
        if _stoppers:
            _stoppers.pop().end()
        if own is not None:
            own.close()
    if ctrl_c.came:
        raise KeyboardInterrupt


# ---- for functions ----


class Task:
    """The attempt that a function is in: valid until the function returns."""

    __slots__ = ("_task",)

    def __init__(self, task: Any) -> None:
        self._task = task

    @property
    def cancelled(self) -> bool:
        """Whether the function must stop: it was cancelled, or its time is over."""
        return bool(lib.muster_task_cancelled(self._task))

    @property
    def left(self) -> Optional[float]:
        """Seconds left; None: no limit."""
        left = lib.muster_task_left_ms(self._task)
        return None if left < 0 else left / 1000

    @property
    def worker(self) -> Optional[int]:
        """The number of this worker in its cluster."""
        number = lib.muster_task_worker(self._task)
        return None if number == lib.MUSTER_WORKER_NONE else number

    @property
    def slot(self) -> int:
        """Which of the worker's slots it runs in, from 0."""
        return int(lib.muster_task_slot(self._task))

    @property
    def attempt(self) -> int:
        """Which attempt of the closure this is, from 1."""
        return int(lib.muster_task_attempt(self._task))

    @property
    def closure(self) -> int:
        """The number of the closure."""
        return int(lib.muster_task_closure(self._task))

    @property
    def key(self) -> str:
        """The same in each attempt of a closure, and of no other closure."""
        return str(ffi.string(lib.muster_task_key(self._task)).decode(errors="surrogateescape"))

    @property
    def host(self) -> str:
        """The worker's host."""
        return str(ffi.string(lib.muster_task_host(self._task)).decode(errors="surrogateescape"))

    def progress(self, fraction: float, text: Optional[str] = None) -> None:
        """Reports how much is done, from 0 to 1, with a word on it."""
        lib.muster_task_progress(
            self._task, fraction, ffi.NULL if text is None else string_of(text)
        )

    def log(self, text: str) -> None:
        """A line for the coordinator's log."""
        lib.muster_task_log(self._task, string_of(text))


def current() -> Task:
    """The attempt that this thread runs."""
    if local.task is None:
        raise pickled.invalid("no function of a worker runs on this thread")
    return Task(local.task)


def job() -> Any:
    """The muster.Job of this worker."""
    if not _jobs:
        raise pickled.invalid("this process serves no cluster now")
    return _jobs[-1]


def check_cancelled() -> None:
    """Raises Stopped if the function that this thread runs must stop."""
    if not current().cancelled:
        return
    if _stoppers and threading.get_ident() == _stoppers[-1].main:
        _stoppers[-1].stop()
    raise Stopped(STOPPED)


def get_current_worker_index() -> Optional[int]:
    """The number of this worker, for its share of the data."""
    return current().worker


# ---- python3 -m muster.worker ----


def _arguments(words: Optional[Sequence[str]]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python3 -m muster.worker",
        description="Serves the functions that modules declare with @muster.worker.function.",
        epilog="example: muster run -n 1 python3 train.py : -n 8 python3 -m muster.worker steps",
    )
    parser.add_argument("module", nargs="*", help="name of a module, or path of a FILE.py")
    parser.add_argument(
        "--code",
        action="store_true",
        help="also run functions that the coordinator sends by cloudpickle",
    )
    parser.add_argument("--cluster", metavar="NAME", help="default: MUSTER_CLUSTER_NAME, default")
    parser.add_argument(
        "--slots", type=int, metavar="N", help="closures at once (default: MUSTER_WORKER_SLOTS, 1)"
    )
    chosen = parser.parse_args(words)
    if not chosen.module and not chosen.code:
        parser.error("name a module, or use --code")
    return chosen


def main(words: Optional[Sequence[str]] = None) -> int:
    chosen = _arguments(words)
    for name in chosen.module:
        if name.endswith(".py"):
            folder, name = os.path.split(os.path.abspath(name[:-3]))
            sys.path.insert(0, folder)
        importlib.import_module(name)
    try:
        serve(code=chosen.code, cluster=chosen.cluster, slots=chosen.slots)
    except Error as failure:
        print(f"muster.worker: {failure}", file=sys.stderr)
        return int(lib.muster_exit_code(failure.status))
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    return 0


if __name__ == "__main__":
    # Modules declare their functions in muster.worker, which this one is not.
    from muster.worker import main as _main

    sys.exit(_main())

# SPDX-License-Identifier: Apache-2.0
"""What a restarted function may ask and say."""

from __future__ import annotations

import dataclasses
import importlib
import math
import threading
from typing import TYPE_CHECKING, Any, Callable, List, NoReturn, Optional, Type, Union

from ._c import enum_of, milliseconds, string_of, text_of
from ._errors import Invalid, Restart, Status, error_of
from ._job import Job
from ._muster import ffi, lib

if TYPE_CHECKING:
    import datetime

    from ._run import Run
    from ._types import FaultKind as FaultKind
else:
    FaultKind = enum_of("FaultKind", "enum muster_fault_kind", "How an attempt of a rank ended.")

OK, EFAILED, EINTERRUPTED = lib.MUSTER_OK, lib.MUSTER_EFAILED, lib.MUSTER_EINTERRUPTED
EUNHEALTHY, ECANCELLED = lib.MUSTER_EUNHEALTHY, lib.MUSTER_ECANCELLED

Duration = Union[None, float, "datetime.timedelta"]


def limit_of(duration: Any, what: str, zero: Optional[int] = None) -> int:
    """Milliseconds. `zero`: what stands for no time; None: it is refused."""
    seconds: float = duration.total_seconds() if hasattr(duration, "total_seconds") else float(duration)
    if seconds == 0 and zero is not None:
        return zero
    if not seconds > 0:
        raise Invalid(f"{what}: expected more than 0 seconds, not {duration}", Status.EINVAL)
    return milliseconds(seconds)


class GiveUp(BaseException):
    """Raised by the function it ends the run on all ranks, and is raised there by the call of the
    wrapped function. No Exception, so that `except Exception` does not stop it."""

    code = 1


class Done(BaseException):
    """Takes a status that was reported already out of the function."""


@dataclasses.dataclass(frozen=True)
class Fault:
    """Why an attempt ended. `rank`: in that attempt. `index`, `rank`: None where the ranks make no
    progress and the cause is unknown. `after`: seconds since the attempt's generation was sealed."""

    kind: Any
    index: Optional[int]
    rank: Optional[int]
    code: int
    text: str
    host: str
    pid: int
    after: float

    def __str__(self) -> str:
        who = "the ranks" if self.index is None else f"rank {self.rank} (#{self.index})"
        name = text_of(lib.muster_fault_kind_name(int(self.kind)))
        return f"{who}: {name}" + (f": {self.text}" if self.text else "")


def faults_of(restart: Any) -> List[Fault]:
    def known(number: int) -> Optional[int]:
        return None if number == lib.MUSTER_RANK_NONE else number

    out = ffi.new("struct muster_fault *")
    found: List[Fault] = []
    while lib.muster_restart_fault(restart, len(found), out):
        kind = FaultKind(out.kind) if out.kind in FaultKind.__members__.values() else out.kind
        text, host = text_of(out.text) or "", text_of(out.host) or ""
        index, rank = known(out.index), known(out.rank)
        found.append(Fault(kind, index, rank, out.code, text, host, out.pid, out.after_ms / 1000))
    return found


class _Atomic:
    def __init__(self, call: Call) -> None:
        self._call = call

    def __enter__(self) -> None:
        self._call._check(self._call._ask(lib.muster_restart_atomic_begin))

    def __exit__(self, kind: Optional[Type[BaseException]], *_: Any) -> None:
        status = self._call._ask(lib.muster_restart_atomic_end)
        if kind is None:
            self._call._check(status)


class _Section:
    def __init__(self, call: Call, name: str, limit: Duration) -> None:
        self._call = call
        self._name = string_of(name)
        self._limit = -1 if limit is None else limit_of(limit, "section: limit")

    def __enter__(self) -> None:
        status = self._call._ask(lib.muster_restart_section_begin, self._name, self._limit)
        if status == EINTERRUPTED:  # it has begun all the same
            self._call._ask(lib.muster_restart_section_end)
        self._call._check(status)

    def __exit__(self, kind: Optional[Type[BaseException]], *_: Any) -> None:
        status = self._call._ask(lib.muster_restart_section_end)
        if kind is None:
            self._call._check(status)


class Call:
    """One attempt of the function: passed to parameters that are annotated with it, else
    `muster.current()`. After its attempt all its methods raise Restart."""

    def __init__(self, run: Run, view: Any) -> None:
        self._run = run
        self.view = view

    def _c(self) -> Any:
        run = self._run
        if run.call is not self or not run.restart:
            raise Restart(f"attempt {self.view.iteration} is over")
        return run.restart

    def _ask(self, function: Callable[..., Any], *args: Any) -> Any:
        """function(restart, *args). What C has may be freed after the attempt, which waits for this."""
        run = self._run
        if threading.get_ident() in run.threads:
            return function(self._c(), *args)
        with run.gate:
            if not run.shared:
                raise Restart(f"attempt {self.view.iteration} is over")
            return function(self._c(), *args)

    def _check(self, status: int) -> None:
        if status == EINTERRUPTED:
            raise Restart("the job restarts")
        if status < 0:
            raise error_of(status)

    @property
    def iteration(self) -> int:
        """Counts from 0; the same on all ranks."""
        return int(self.view.iteration)

    @property
    def rank(self) -> int:
        """In this attempt, from 0."""
        return int(self.view.rank)

    @property
    def size(self) -> int:
        """How many ranks this attempt has."""
        return int(self.view.size)

    @property
    def index(self) -> int:
        """This place of the job; stays the same for a replacement."""
        return int(self.view.index)

    @property
    def generation(self) -> int:
        """The number of this membership, which only grows."""
        return int(self.view.generation)

    @property
    def spare(self) -> bool:
        """Whether this process waits as a spare: only seen by callbacks."""
        return bool(self.view.spare)

    @property
    def job(self) -> Job:
        """The job that is restarted; Invalid if restarts are disabled, and the Wrapper has none."""
        job = self._run.job or self._run.wrapper.job
        if job is None:
            raise Invalid("restarts are disabled: there is no job", Status.EINVAL)
        return job

    @property
    def hard_timeout(self) -> float:
        """Seconds without progress after which this process is ended, as they are in this run;
        math.inf: never. A time-out of the function that is longer never comes."""
        limit: int = self._ask(lib.muster_restart_hard_timeout_ms)
        return math.inf if limit < 0 else limit / 1000

    @property
    def faults(self) -> List[Fault]:
        """Why the attempt before this one ended, the first cause first: the same on all ranks. Empty
        in the first attempt."""
        return self._ask(faults_of)  # type: ignore[no-any-return]

    def check(self) -> None:
        """Raises Restart if the function is to begin again: the place where it is best raised."""
        self._check(self._ask(lib.muster_restart_check))

    def ping(self) -> None:
        """The same, and shows progress. After the first one only ping and step do."""
        self._check(self._ask(lib.muster_restart_ping))

    def step(self, number: int) -> None:
        """The same, with the step reached: `stalled_max` tells progress from repetition by it."""
        self._check(self._ask(lib.muster_restart_step, number))

    def atomic(self) -> _Atomic:
        """with call.atomic(): a short local write that is not interrupted. Raises Restart at its
        begin or its end."""
        return _Atomic(self)

    def section(self, name: str, limit: Duration = None) -> _Section:
        """with call.section("compile", 600): a long phase without progress. In it `limit` seconds
        replace soft_timeout; None: no limit."""
        return _Section(self, name, limit)

    def disable_hang_protection(self) -> _Section:
        """section() without a limit."""
        return _Section(self, "unprotected", None)

    def fail(self, text: str, code: int = 1) -> NoReturn:
        """Ends this attempt on all ranks, which begin again. `text` is in the record."""
        self._run.say(self._ask(lib.muster_restart_fail, code, string_of(text)), EFAILED, text)

    def again(self) -> NoReturn:
        """All ranks begin again, without a failure."""
        self._run.say(self._ask(lib.muster_restart_again), EINTERRUPTED)

    def leave(self) -> NoReturn:
        """Ends this rank; the others begin again without it."""
        self._run.say(self._ask(lib.muster_restart_leave), OK)

    def abort(self, text: str, code: int = 1) -> NoReturn:
        """Ends the run on all ranks: GiveUp with this text is raised there."""
        self._c()
        failure = GiveUp(text)
        failure.code = code
        raise failure

    def lost(self, index: int, timeout: Duration = None) -> NoReturn:
        """The connection to #index broke. Waits for the interruption that follows; after `timeout`
        seconds without one (None: 3/2 of the lease) it is a fault of #index."""
        limit = -1 if timeout is None else limit_of(timeout, "lost: timeout", zero=0)
        self._check(self._ask(lib.muster_restart_lost, index, limit))
        raise AssertionError("muster_restart_lost returned OK")

    def store(self, **options: Any) -> Any:
        """A torch.distributed.Store in the key space of this generation: muster.torch.Store."""
        return importlib.import_module("muster.torch").Store(self, **options)


local = threading.local()
running: List[Run] = []


def current() -> Call:
    """The Call of the function that runs on this thread; on another thread, that of the only one
    that runs in this process."""
    runs = getattr(local, "runs", None) or running
    call = runs[-1].call if runs else None
    if call is None:
        raise Invalid("muster.current: no restarted function runs here", Status.EINVAL)
    return call

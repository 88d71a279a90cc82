# SPDX-License-Identifier: Apache-2.0
"""The decorator of a function that runs again in the same processes."""

from __future__ import annotations

import functools
import math
import os
import warnings
from typing import Any, Callable, Dict, List, Optional, Sequence, Set, TypeVar, Union

from ._assignment import Steps, assignment_of
from ._c import string_of
from ._call import Call, Duration, limit_of
from ._errors import Invalid, Status, check
from ._job import Job
from ._muster import ffi, lib
from ._run import Run, abort_torch
from ._state import State

Result = TypeVar("Result")
Hook = Callable[[State], Any]
Hooks = Union[None, Hook, Sequence[Hook]]


def _listed(hooks: Hooks, what: str) -> List[Hook]:
    listed = [] if hooks is None else list(hooks) if isinstance(hooks, (list, tuple)) else [hooks]
    for hook in listed:
        if not callable(hook):
            raise TypeError(f"{what}: a function of the State is needed, not {type(hook).__name__}")
    return listed


_MEANINGLESS = {
    "store_factory": "muster's service keeps what a store is needed for",
    "store_kwargs": "muster's service keeps what a store is needed for",
    "monitor_thread_interval": "nothing is polled",
    "monitor_process_interval": "muster run, or the helper of a rank, watches the process",
    "heartbeat_interval": "the service's lease is used: MUSTER_LEASE, muster run --lease",
    "heartbeat_timeout": "the service's lease is used: MUSTER_LEASE, muster run --lease",
    "progress_watchdog_interval": "it is a quarter of a second",
    "monitor_process_logfile": "the log of muster run is used",
    "monitor_process_pidfile": "muster run, or the helper of a rank, watches the process",
}
_warned: Set[str] = set()


def _warn_of(given: Dict[str, Any]) -> None:
    for name, value in given.items():
        if name not in _MEANINGLESS:
            raise TypeError(f"muster.Wrapper has no parameter {name!r}")
        if value is not None and name not in _warned:
            _warned.add(name)
            text = f"muster.Wrapper: {name} means nothing here: {_MEANINGLESS[name]}"
            warnings.warn(text, DeprecationWarning, stacklevel=3)


class Wrapper:
    """Decorates the work of a rank; see docs/python/restart.md.

    Durations are seconds or a timedelta; None is MUSTER_<NAME> of the environment, else the default
    of C; math.inf is never. Callbacks are functions of the State, or lists of them in their order.
    The parameters are those of nvidia-resiliency-ext's Wrapper, and those of restart.h by name."""

    def __init__(
        self,
        *,
        initialize: Hooks = None,
        health_check: Hooks = None,
        restart_health_check: Hooks = None,
        abort: Hooks = abort_torch,
        finalize: Hooks = None,
        completion: Hooks = None,
        terminate: Hooks = None,
        precondition: Hooks = None,
        rank_assignment: Optional[Steps] = None,
        rank_filter: Optional[Steps] = None,
        soft_timeout: Duration = None,
        hard_timeout: Duration = None,
        barrier_timeout: Duration = None,
        completion_timeout: Duration = None,
        settle: Duration = None,
        last_call_wait: Duration = None,
        grace: Duration = None,
        termination_grace_time: Duration = None,
        replace_wait: Duration = None,
        iterations_max: Optional[int] = None,
        stalled_max: Optional[float] = None,
        faults_max: Optional[int] = None,
        min_size: Optional[int] = None,
        health_command: Optional[str] = None,
        health_timeout: Duration = None,
        health_folder: Union[None, str, os.PathLike[str]] = None,
        progress: str = "auto",
        gc: bool = False,
        export: bool = True,
        enabled: bool = True,
        job: Optional[Job] = None,
        interrupt: Union[bool, int] = True,
        **meaningless: Any,
    ) -> None:
        _warn_of(meaningless)
        if progress not in ("auto", "ping"):
            raise Invalid(f"progress: {progress!r} is neither 'auto' nor 'ping'", Status.EINVAL)
        self.hooks = {
            "precondition": _listed(precondition, "precondition"),
            "initialize": _listed(initialize, "initialize"),
            "health_check": _listed(health_check, "health_check"),
            "abort": _listed(abort, "abort"),
            "finalize": _listed(finalize, "finalize"),
            "completion": _listed(completion, "completion"),
            "terminate": _listed(terminate, "terminate"),
        }
        self.restart_health_check = (
            self.hooks["health_check"]
            if restart_health_check is None
            else _listed(restart_health_check, "restart_health_check")
        )
        if rank_filter is not None:
            rank_assignment = [*_parts(rank_assignment), *_parts(rank_filter)]
        self.assignment = assignment_of(rank_assignment)
        self.times = {
            "soft_timeout": soft_timeout,
            "hard_timeout": hard_timeout,
            "barrier_timeout": barrier_timeout,
            "completion_timeout": completion_timeout,
            "settle": last_call_wait if settle is None else settle,
            "grace": termination_grace_time if grace is None else grace,
            "replace_wait": replace_wait,
            "health_timeout": health_timeout,
        }
        self.limits = {
            "iterations_max": iterations_max,
            "stalled_max": -1 if stalled_max == math.inf else stalled_max,
            "faults_max": faults_max,
        }
        self.texts = {"health_command": health_command, "health_folder": health_folder}
        self.min_size = min_size
        self.progress = progress
        self.gc = gc
        self.export = export
        self.enabled = enabled
        self.job = job
        self.interrupt = interrupt
        if job is not None and min_size is not None:
            raise Invalid("min_size: the job is open already; give it to muster.open", Status.EINVAL)
        self._refuse()

    def _options(self, kept: List[Any]) -> Any:
        options = ffi.new("struct muster_restart_options *", lib.muster_restart_options_init())
        for name, duration in self.times.items():
            if duration is not None:
                zero = 0 if name == "settle" else -1 if name == "replace_wait" else None
                number = limit_of(duration, name, zero)
                if name == "completion_timeout":
                    number = max(number, 0)  # no limit is C's default, and no number
                setattr(options, name + "_ms", number)
        for name, limit in self.limits.items():
            if limit is not None:
                setattr(options, name, int(limit))
        for name, text in self.texts.items():
            if text is not None:
                kept.append(string_of(text))
                setattr(options, name, kept[-1])
        options.disabled = not self.enabled
        options.keep_environment = not self.export
        return options

    def _refuse(self) -> None:
        """What contradicts itself, by a run that does nothing."""
        kept: List[Any] = []
        options = self._options(kept)
        options.disabled = True
        err = ffi.new("struct muster_error *")
        nothing = lib.muster_python_nothing_address()
        check(lib.muster_restart_run(ffi.NULL, options, nothing, ffi.NULL, err), err)

    def __call__(self, function: Callable[..., Result]) -> Callable[..., Result]:
        places = _call_parameters(function)

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            return Run(self, function, places, args, kwargs).go()  # None on a spare

        return wrapped


def restart(function: Optional[Callable[..., Any]] = None, /, **options: Any) -> Any:
    """@muster.restart, or @muster.restart(soft_timeout=30): muster.Wrapper."""
    wrapper = Wrapper(**options)
    return wrapper if function is None else wrapper(function)


def _parts(steps: Any) -> List[Any]:
    return [] if steps is None else list(steps) if isinstance(steps, (list, tuple)) else [steps]


def _call_parameters(function: Callable[..., Any]) -> List[str]:
    """The parameters that are annotated with Call, or with an Optional of it."""
    import inspect
    import typing

    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(
            f"{function!r} is async: wrap a plain function that calls asyncio.run, so that each "
            "attempt has a loop of its own"
        )
    if inspect.isgeneratorfunction(function):
        raise TypeError(
            f"{function!r} is a generator, whose lines run when its call is over: wrap a function that "
            "goes through it"
        )
    names = {"Call", "muster.Call", "Optional[Call]", "Optional[muster.Call]"}
    names |= {"Call | None", "muster.Call | None"}
    try:
        hints: Dict[str, Any] = typing.get_type_hints(function)
    except Exception:  # no plain function, or a name in them is not known here
        hints = {}
    try:
        parameters = inspect.signature(function).parameters
    except ValueError:  # a builtin function has none
        return []
    places = {}
    for name, parameter in parameters.items():
        hint = hints.get(name, parameter.annotation)
        places[name] = hint in names if isinstance(hint, str) else Call in (hint, *typing.get_args(hint))
    return [name for name, wanted in places.items() if wanted]

# SPDX-License-Identifier: Apache-2.0
"""What is called: a function, its arguments and its options, as C takes them."""

import importlib
import operator
from typing import Any, Callable, Dict, List, Optional, Tuple

from .. import _pickled as pickled
from .._c import options_of, string_of
from .._muster import ffi, lib
from .._pickled import BUFFER, PICKLE, RAW, local
from ..worker import MARK, Function
from ._per_worker import PerWorkerValue

OPTIONS = (
    "idempotent", "once", "pure", "version", "group", "key", "start", "run", "total", "retries",
    "crash_retries", "exhausted_retries",
)  # fmt: skip
RETRIES = {"retries", "crash_retries", "exhausted_retries"}
SCALARS = (str, bytes, bytearray, memoryview, dict)  # what is iterable, and is one argument


class Target:
    """What C is told of a function: its name, its options, and how its arguments become parts."""

    __slots__ = ("name", "options", "kept", "raw", "code", "text")

    def __init__(self, name: str, version: int, raw: bool, code: Optional[bytes]) -> None:
        self.text = name
        self.name = string_of(name)
        self.raw = raw
        self.code = code
        self.kept: List[Any] = []
        self.options = ffi.NULL
        if version:
            self.options, self.kept = options_of(lib.muster_closure_options_init, {}, "schedule")
            self.options.version = version

    def value_of(self, args: Any, kwargs: Any) -> Tuple[Tuple[Any, ...], Dict[str, Any]]:
        given = () if args is None else tuple(args)
        named = {} if kwargs is None else kwargs
        return (given, named) if self.code is None else ((self.code, given, named), {})


def target_of(fn: Any, raw: bool, code: bool) -> Target:
    if isinstance(fn, str):
        return Target(fn, 0, raw, None)
    mark: Optional[Function] = getattr(fn, MARK, None)
    if mark is not None:
        return Target(mark.name, mark.version, mark.raw, None)
    if not callable(fn):
        raise TypeError(f"schedule: a function or the name of one is expected, not {fn!r}")
    name = getattr(fn, "__qualname__", repr(fn))
    if not code:
        raise pickled.invalid(
            f"schedule: {name} is not declared: decorate it with @muster.worker.function in a "
            "module that the workers load, or use Coordinator(code=True), Executor(code=True) to send it"
        )
    return Target(pickled.CALL, 0, False, code_of(fn, name))


def code_of(fn: Any, name: str) -> bytes:
    try:
        cloudpickle = importlib.import_module("cloudpickle")
    except ImportError as why:
        raise pickled.invalid(f"schedule: to send {name}, cloudpickle is needed: install it", why)
    try:
        return bytes(cloudpickle.dumps(fn, pickled.PROTOCOL))
    except Exception as why:
        raise TypeError(f"schedule: {name} cannot be sent: {why}") from why


def parts_of(target: Target, args: Any, kwargs: Any) -> Tuple[Any, List[Any], List[Any]]:
    """(the first part or None, what is beside it, per-worker values)"""
    if args is not None and (isinstance(args, SCALARS) or not hasattr(args, "__iter__")):
        raise TypeError(f"schedule: args of {target.text!r} is a tuple of arguments: args=({args!r:.80},)")
    if kwargs is not None and not hasattr(kwargs, "keys"):
        raise TypeError(f"schedule: kwargs of {target.text!r} is a dict of arguments by name, not {kwargs!r:.80}")
    if target.raw:
        return raw_parts(target, args, kwargs)
    needs: List[PerWorkerValue] = []
    local.needs = needs
    try:
        data, buffers = pickled.dumps(target.value_of(args, kwargs))
    except Exception as why:
        raise unpicklable(target, args, kwargs, why) from why
    finally:
        local.needs = None
    return data, buffers, needs


def raw_parts(target: Target, args: Any, kwargs: Any) -> Tuple[Any, List[Any], List[Any]]:
    given = list(args or ())
    if kwargs or not all(isinstance(one, (bytes, bytearray, memoryview)) for one in given):
        raise TypeError(f"schedule: {target.text!r} takes bytes, and no arguments by name")
    return (given[0] if given else None), given[1:], []


def unpicklable(target: Target, args: Any, kwargs: Any, why: BaseException) -> BaseException:
    """Which argument it is, in one line."""
    listed = [*enumerate(args or (), 1), *(kwargs or {}).items()]
    for place, value in listed:
        local.needs = []
        try:
            pickled.dumps(value)
        except Exception as failure:
            return TypeError(f"schedule: argument {place} of {target.text!r} cannot be pickled: {failure}")
        finally:
            local.needs = None
    return TypeError(f"schedule: the arguments of {target.text!r} cannot be pickled: {why}")


class Prepared:
    """A call that only needs to be admitted: call(timeout_ms), whose closure is in out[0]."""

    __slots__ = ("out", "err", "call", "_kept")

    def __init__(
        self, cluster: Any, target: Target, options: Any, kept: List[Any], data: Any, buffers: List[Any]
    ) -> None:
        out, err = ffi.new("muster_closure **"), ffi.new("struct muster_error *")
        self.out, self.err = out, err
        self._kept = [kept, data]
        if not buffers and data is not None:
            kind = RAW if target.raw else PICKLE
            self.call: Callable[[int], int] = lambda ms: lib.muster_python_schedule_one(
                cluster, target.name, options, data, len(data), kind, ms, out, err
            )
            return
        kinds = (RAW, RAW) if target.raw else (PICKLE, BUFFER)
        first = [] if data is None else [pickled.part_of(data, kinds[0])]
        made = [*first, *(pickled.part_of(one, kinds[1]) for one in buffers)]
        parts = ffi.new("struct muster_part[]", [part for part, _ in made])
        self._kept += [made, parts]
        self.call = lambda ms: lib.muster_cluster_schedule(
            cluster, target.name, parts, len(made), options, ms, out, err
        )


def options_for(target: Target, options: Dict[str, Any], needs: List[PerWorkerValue]) -> Tuple[Any, List[Any]]:
    unknown = options.keys() - OPTIONS
    if unknown:
        raise TypeError(f"schedule has no option {unknown.pop()!r}; it has {', '.join(OPTIONS)}")
    named = {name: _retries(name, one) if name in RETRIES else one for name, one in options.items()}
    if "retries" in named:
        named["error_retries"] = named.pop("retries")
    version = named.pop("version", None) or (target.options.version if target.options else 0)
    given, kept = options_of(lib.muster_closure_options_init, named, "schedule")
    given.version = version
    if needs:
        listed = ffi.new("muster_per_worker *[]", [value._value for value in needs])
        kept += [listed, needs]
        given.needs, given.need_count = listed, len(needs)
    return given, kept


def _retries(name: str, given: Any) -> Optional[int]:
    """As C has it, where 0 is the default and -1 none."""
    if given is None:
        return None
    if not hasattr(given, "__index__") or operator.index(given) < 0:
        raise pickled.invalid(f"schedule: {name}={given!r}: expected a number from 0, which is none")
    return operator.index(given) or -1

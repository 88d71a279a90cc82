# SPDX-License-Identifier: Apache-2.0
"""How arguments, results and exceptions travel between a coordinator and its workers in Python."""

import pickle
import threading
import traceback
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from ._errors import Error, Invalid, Status
from ._muster import ffi, lib

# Types of parts. RAW: bytes, of a function that takes and returns these. The three others begin a
# pickle; what builds a per-worker value keeps its result, or an iterator of it. BUFFER: out of band.
RAW, PICKLE, BUILD, ITERATE, BUFFER = range(5)
CALL = "muster.python.call"  # runs functions that come by cloudpickle
PROTOCOL = 5
IN_BAND_MAX = 4096  # a smaller buffer is copied faster than it is kept
EXCEPTION_MAX = 1 << 20  # a larger one stays at home
CHAIN_MAX = 8
TEXT_MAX = 1000


class Local(threading.local):
    needs: Optional[List[Any]] = None  # per-worker values of the arguments that are pickled now
    task: Any = None  # what this thread of a worker runs
    forked = False  # by that: this is a child of the worker


local = Local()
objects: Dict[int, Any] = {}  # the per-worker values of this worker


class RemoteError(Exception):
    """Stands for an exception of a worker that could not travel, or that this process cannot read."""

    __module__ = "muster.cluster"


class RemoteTraceback(Exception):
    """The traceback of the worker, as text: the last `__cause__` of what a closure has raised."""

    __module__ = "muster.cluster"

    def __str__(self) -> str:
        return f'\n"""\n{self.args[0]}"""'


def dumps(value: Any) -> Tuple[bytes, List[memoryview]]:
    """The pickle, and what is large beside it: where it is, not copied."""
    buffers: List[memoryview] = []

    def beside(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes < IN_BAND_MAX:
            return True
        buffers.append(raw)
        return False

    return pickle.dumps(value, PROTOCOL, buffer_callback=beside), buffers


def need(place: int) -> Any:
    """What a per-worker value in the arguments becomes on its worker."""
    return objects[lib.muster_python_object(local.task, place)]


def bytes_of_part(part: Any) -> bytes:
    return bytes(ffi.buffer(part.data, part.size)) if part.size else b""


def part_of(data: Any, kind: int) -> Tuple[Dict[str, Any], Any]:
    """(struct muster_part, what it borrows)"""
    kept = ffi.from_buffer(data)
    return {"data": kept, "size": len(kept), "type": kind}, kept


# ---- exceptions ----


def _line_of(failure: BaseException) -> str:
    return "".join(traceback.format_exception_only(type(failure), failure)).strip()


def line_of(failure: BaseException) -> str:
    """One line for people: what was raised, and where."""
    text = " ".join(_line_of(failure).split())
    frames = traceback.extract_tb(failure.__traceback__)
    where = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    return text[: TEXT_MAX - len(where)] + where


def _chain(failure: BaseException) -> List[Tuple[str, BaseException]]:
    chain: List[Tuple[str, BaseException]] = [("", failure)]
    while len(chain) < CHAIN_MAX:
        last = chain[-1][1]
        if last.__cause__ is not None:
            chain.append(("__cause__", last.__cause__))
        elif last.__context__ is not None and not last.__suppress_context__:
            chain.append(("__context__", last.__context__))
        else:
            break
    return chain


def forget_variables(failure: BaseException) -> None:
    for _, one in _chain(failure):
        traceback.clear_frames(one.__traceback__)


def _portable(failure: BaseException) -> Any:
    if isinstance(failure, Exception):  # SystemExit would end the coordinator
        return failure
    return RemoteError(_line_of(failure))


def _pickle_of(link: str, failure: BaseException) -> bytes:
    try:
        data = pickle.dumps((link, _portable(failure)), PROTOCOL)
        if len(data) <= EXCEPTION_MAX:
            return data
    except Exception:  # whatever its own reduction raises
        pass
    text = _line_of(failure)[:TEXT_MAX]  # also of one that cannot be printed
    return pickle.dumps((link, RemoteError(text)), PROTOCOL)


def parts_of_exception(failure: BaseException) -> List[bytes]:
    """The text of its traceback, then it and what it came from, each by itself."""
    lines = traceback.format_exception(type(failure), failure, failure.__traceback__)
    text = "".join(lines)[-(1 << 16) :].encode(errors="replace")
    return [text, *(_pickle_of(link, one) for link, one in _chain(failure))]


def exception_of_parts(parts: Sequence[bytes]) -> Optional[BaseException]:
    """None: these are no parts of an exception of Python."""
    chain: List[BaseException] = []
    for data in parts[1:]:
        try:
            link, failure = pickle.loads(data)
        except Exception as why:  # its class is not here, or cannot be made of its arguments
            link, failure = "__cause__", RemoteError(f"an exception that cannot be read here: {why!r}")
        if chain:
            setattr(chain[-1], link or "__cause__", failure)
        chain.append(failure)
    if not chain:
        return None
    chain[-1].__cause__ = RemoteTraceback(parts[0].decode(errors="replace"))
    return chain[0]


def invalid(text: str, why: Optional[BaseException] = None) -> Error:
    made = Invalid(text, Status.EINVAL)
    made.__cause__ = why
    return made


Decorated = Callable[..., Any]

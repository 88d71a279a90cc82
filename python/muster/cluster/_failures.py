# SPDX-License-Identifier: Apache-2.0
"""Why a closure has no value, and the exception that says so."""

import dataclasses
from typing import Any, Dict, Optional, Sequence, Type

from .. import _pickled as pickled
from .._c import text_of
from .._errors import Cancelled, Error, Failed, StateServer, Status, error_of
from .._muster import ffi, lib
from ._records import Origin


@dataclasses.dataclass(frozen=True)
class Failure:
    """Why a closure has no value: struct muster_failure."""

    origin: Any
    code: int
    worker: Optional[int]
    attempt: int
    incarnation: int
    closure: int
    text: str
    state_server: str
    cause: Optional["Failure"]


class ClosureError(Failed):
    """A closure has no value, and no exception of its function. `failure` says why."""

    failure: Optional[Failure] = None


class ClosureInputError(ClosureError):
    """A per-worker value that the closure needs could not be built: `original_exception` says why."""

    @property
    def original_exception(self) -> Optional[BaseException]:
        """What building the value raised."""
        return self.__cause__


class WorkerLostError(ClosureError):
    """Its worker ended, or was lost, and it must not run again (`once`), or has cost too many."""


class DeadlineError(ClosureError, TimeoutError):
    """One of its time limits is over."""


class ClosureAbortedError(Cancelled):
    """It was cancelled: by a call, or because another closure of its series failed."""

    failure: Optional[Failure] = None


class PSUnavailableError(StateServer):
    """A state server failed: `failure.state_server`."""

    failure: Optional[Failure] = None


CLASSES: Dict[int, Type[Error]] = {
    lib.MUSTER_ORIGIN_INPUT: ClosureInputError,
    lib.MUSTER_ORIGIN_STATE: PSUnavailableError,
    lib.MUSTER_ORIGIN_CANCELLED: ClosureAbortedError,
    lib.MUSTER_ORIGIN_DEADLINE: DeadlineError,
    lib.MUSTER_ORIGIN_CRASH: WorkerLostError,
    lib.MUSTER_ORIGIN_LOST: WorkerLostError,
    lib.MUSTER_ORIGIN_POISON: WorkerLostError,
}
OF_FUNCTION = (lib.MUSTER_ORIGIN_FUNCTION, lib.MUSTER_ORIGIN_RETRYABLE)


# C's advice on a function that no worker has, and Python's.
REGISTER = ": correct its name, or register it on a worker"
DECLARE = ": correct its name, or start the workers with the module that declares it"
SENT = "it is sent: start the workers with --code, or declare it in a module that they load"


def failure_of(struct: Any) -> Failure:
    known = struct.origin in Origin.__members__.values()
    return Failure(
        Origin(struct.origin) if known else struct.origin,
        struct.code,
        None if struct.worker == lib.MUSTER_WORKER_NONE else struct.worker,
        struct.attempt,
        struct.incarnation,
        struct.closure,
        text_of(struct.text) or "",
        text_of(struct.state_server) or "",
        failure_of(struct.cause) if struct.cause else None,
    )


def error_text(err: Any) -> str:
    return str(ffi.string(err.text).decode(errors="replace"))


def raised_of(status: int, text: str, failure: Optional[Failure], parts: Sequence[bytes]) -> BaseException:
    """What a closure that failed raises: what its function did, or an error of ours."""
    raised = pickled.exception_of_parts(parts)
    origin = lib.MUSTER_ORIGIN_NONE if failure is None else failure.origin
    if origin == lib.MUSTER_ORIGIN_UNKNOWN:
        text = text.replace(f"'{pickled.CALL}'{REGISTER}", SENT).replace(REGISTER, DECLARE)
    if raised is not None and origin in OF_FUNCTION:
        if hasattr(raised, "add_note"):
            raised.add_note(text)
        return raised
    other: Type[Error] = type(error_of(status))
    if status == lib.MUSTER_EFAILED:
        other = ClosureError
    kind = CLASSES.get(origin, other)
    made: BaseException = kind(text, Status(status))
    if failure is not None:
        setattr(made, "failure", failure)
    made.__cause__ = raised
    return made

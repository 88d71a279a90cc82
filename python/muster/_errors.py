# SPDX-License-Identifier: Apache-2.0
"""What became of a call that failed: one class per group of statuses, by what is lost."""

from __future__ import annotations

import enum

from ._muster import ffi, lib

TYPE_CHECKING = False  # what it guards is for type checkers; the module typing takes a while to import
if TYPE_CHECKING:
    from typing import Any, Dict, Optional, Tuple, Type, Union

    from ._call import Fault
    from ._types import Status as Status
    from ._types import Why

PREFIX = "MUSTER_"
NAMES = {name[len(PREFIX) :]: value for value, name in ffi.typeof("muster_status").elements.items()}
if not TYPE_CHECKING:
    Status = enum.IntEnum("Status", NAMES, module="muster")
    Status.__doc__ = "What a call came to, as in status.h: negative values are failures."


class Error(Exception):
    """`status` (muster.Status, or an int if it is newer than this module), `text` (one line: what
    was attempted, what happened, who, what to do) and `os_errno` (0: none). Of a restarted
    function: `why` (muster.Why), the rule that ended it, and `cause`, the last Fault, or None."""

    why: Union[Why, int, None] = None
    cause: Optional[Fault] = None

    if TYPE_CHECKING:
        result: Any  # of a failed round: a Result, or None

    def __init__(self, text: str, status: Union[Status, int], os_errno: int = 0) -> None:
        super().__init__(text)
        self.text = text
        self.status = status
        self.os_errno = os_errno

    def __str__(self) -> str:
        return self.text

    def __reduce__(self) -> Tuple[Any, ...]:
        return type(self), (self.text, self.status, self.os_errno)


class Restart(BaseException):
    """Raised in a restarted function when the job restarts: clean up and let it out. Raised by the
    function itself it makes all ranks begin again. No Exception, so that `except Exception` does
    not stop it."""


class CallError(Error):
    """The call failed; the job's handle is fine."""


class SessionError(Error):
    """The service was not reached, or did not speak our protocol."""


class MembershipError(Error):
    """A newer incarnation or generation goes on without this process."""


class Invalid(CallError, ValueError):
    """EINVAL: an argument, or a call that makes no sense now."""


class NoMemory(CallError, MemoryError):
    """ENOMEM"""


class Limit(CallError):
    """ELIMIT: a limit, which the text names."""


class Timeout(CallError, TimeoutError):
    """ETIMEDOUT"""


class Deadlock(CallError):
    """EDEADLK: it would wait for itself."""


class Exists(CallError):
    """EEXISTS"""


class NotFound(CallError, KeyError):
    """ENOTFOUND"""


class Conflict(CallError):
    """ECONFLICT: the key is not as expected."""


class Range(CallError, ArithmeticError):
    """ERANGE: beyond 64 bits, or not a number."""


class Stale(CallError):
    """ESTALE: it is over and no longer kept."""


class Cancelled(CallError):
    """ECANCELLED: the job was closed meanwhile."""


class Interrupted(CallError):
    """EINTERRUPTED: the job restarts. On the thread of a restarted function it is Restart."""


class Preempted(CallError):
    """EPREEMPTED: saved by all; end with muster.exit_code(this), which is 75."""


class Mismatch(CallError):
    """EMISMATCH: the contributions differ."""


class Lost(CallError):
    """ELOST: a participant was lost."""


class TooFew(CallError):
    """ETOOFEW: fewer than min_size are left."""


class Failed(CallError):
    """EFAILED"""


class Internal(CallError):
    """EINTERNAL: a bug of muster."""


class NoSpace(CallError):
    """ENOSPACE: the service's disk is full."""


class Unhealthy(CallError):
    """EUNHEALTHY"""


class StateServer(CallError):
    """ESTATE: a state server failed."""


class Unreachable(SessionError, ConnectionError):
    """EUNREACHABLE: the service cannot be reached."""


class Protocol(SessionError):
    """EPROTO"""


class Fenced(MembershipError):
    """EFENCED: this process was given up, and a newer one goes on."""


CLASSES: Dict[int, Type[Error]] = {
    Status[str(kind.__doc__).split(":")[0]]: kind
    for group in (CallError, SessionError, MembershipError)
    for kind in group.__subclasses__()
}


for group in (Error, Restart, CallError, SessionError, MembershipError, *CLASSES.values()):
    group.__module__ = "muster"


def error_of(status: int, text: str = "", os_errno: int = 0) -> Error:
    """The exception of a status; one that this module does not know is a failed call."""
    text = text or ffi.string(lib.muster_status_text(status)).decode()
    if status in CLASSES:
        return CLASSES[status](text, Status(status), os_errno)
    return CallError(text, status, os_errno)


def check(status: int, err: Any) -> None:
    """Raises what a call has returned and filled in, if it has failed."""
    if status >= 0:
        return
    if status == Status.EINTERRUPTED and lib.muster_python_told():
        raise Restart("the job restarts")
    if err is None:
        raise error_of(status)
    raise error_of(status, ffi.string(err.text).decode(errors="replace"), err.os_errno)


def exit_code(ended: Union[BaseException, int, None]) -> int:
    """The exit code a program should end with: 0 for None and Status.OK, 75 (saved, run me again)
    for Preempted, that of a SystemExit, 1 for every other exception or status."""
    if isinstance(ended, SystemExit):
        if ended.code is None or isinstance(ended.code, int):
            return ended.code or 0
        return 1
    if isinstance(ended, BaseException):
        return lib.muster_exit_code(ended.status) if isinstance(ended, Error) else 1
    return lib.muster_exit_code(ended or 0)

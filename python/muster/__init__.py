# SPDX-License-Identifier: Apache-2.0
"""muster keeps a distributed job alive: keys, rounds, and one step saved by all at a preemption.

    import muster

    with muster.open() as job:
        job.barrier("start")
        print(job.view.rank, job.keys["config"])

Every wait is done without the interpreter's lock, and Ctrl-C ends it. Timeouts are in seconds; None
waits without limit. docs/python.md is the guide."""

import importlib as _importlib

from ._batch import Batch
from ._c import (
    Cause,
    Grow,
    Leave,
    Member,
    MemberState,
    Notice,
    NoticeLevel,
    OnLoss,
    Reach,
    Reduce,
    Role,
    View,
)
from ._errors import (
    CallError,
    Cancelled,
    Conflict,
    Deadlock,
    Error,
    Exists,
    Failed,
    Fenced,
    Internal,
    Interrupted,
    Invalid,
    Limit,
    Lost,
    MembershipError,
    Mismatch,
    NoMemory,
    NoSpace,
    NotFound,
    Preempted,
    Protocol,
    Range,
    Restart,
    SessionError,
    Stale,
    StateServer,
    Status,
    Timeout,
    TooFew,
    Unhealthy,
    Unreachable,
    exit_code,
)
from ._heartbeat import Heartbeat
from ._job import Job, open
from ._keys import Keys, Value
from ._muster import ffi as _ffi, lib as _lib
from ._preempt import Preempt
from ._rounds import Result
from ._watch import Event, EventType, Watch, WatchKind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._assignment import (
        Assignment,
        FillGaps,
        Filter,
        Group,
        Layer,
        Max,
        Multiple,
        Place,
        Shift,
        Tree,
    )
    from ._call import Call, Fault, FaultKind, GiveUp, current
    from ._restart import Wrapper, restart
    from ._run import Why
    from ._state import Compose, Mode, State

# What a program without in-process restart does not pay for: it is imported with its first name.
_LATER = {
    "_assignment": ("Assignment", "FillGaps", "Filter", "Group", "Layer", "Max", "Multiple", "Place", "Shift", "Tree"),
    "_call": ("Call", "Fault", "FaultKind", "GiveUp", "current"),
    "_restart": ("Wrapper", "restart"),
    "_run": ("Why",),
    "_state": ("Compose", "Mode", "State"),
}
__version__ = _ffi.string(_lib.muster_version()).decode()
__all__ = [
    "Assignment",
    "Batch",
    "Call",
    "CallError",
    "Cancelled",
    "Cause",
    "Compose",
    "Conflict",
    "Deadlock",
    "Error",
    "Event",
    "EventType",
    "Exists",
    "Failed",
    "Fault",
    "FaultKind",
    "Fenced",
    "FillGaps",
    "Filter",
    "GiveUp",
    "Group",
    "Grow",
    "Heartbeat",
    "Internal",
    "Interrupted",
    "Invalid",
    "Job",
    "Keys",
    "Layer",
    "Leave",
    "Limit",
    "Lost",
    "Max",
    "Member",
    "MemberState",
    "MembershipError",
    "Mismatch",
    "Mode",
    "Multiple",
    "NoMemory",
    "NoSpace",
    "NotFound",
    "Notice",
    "NoticeLevel",
    "OnLoss",
    "Place",
    "Preempt",
    "Preempted",
    "Protocol",
    "Range",
    "Reach",
    "Reduce",
    "Restart",
    "Result",
    "Role",
    "SessionError",
    "Shift",
    "Stale",
    "State",
    "StateServer",
    "Status",
    "Timeout",
    "TooFew",
    "Tree",
    "Unhealthy",
    "Unreachable",
    "Value",
    "View",
    "Watch",
    "WatchKind",
    "Why",
    "Wrapper",
    "current",
    "exit_code",
    "open",
    "restart",
]

if not TYPE_CHECKING:  # a type checker would take any name for one of the package
    def __getattr__(name: str) -> object:
        for module, names in _LATER.items():
            if name in names:
                loaded = _importlib.import_module(f"{__name__}.{module}")
                globals().update({one: getattr(loaded, one) for one in names})
                return globals()[name]
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})

del TYPE_CHECKING

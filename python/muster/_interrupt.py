# SPDX-License-Identifier: Apache-2.0
"""The exception in the thread of a restarted function.

On the main thread it is raised by the handler of a signal, which C sends again and again until the
function has left: so each system call ends. On another thread the interpreter raises it between
two of its steps, and a system call goes on until it ends by itself."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from types import CodeType, FrameType
from typing import Any, Dict, List, Optional

from ._errors import Invalid, Restart, Status
from ._muster import lib
from ._wait import on_main_thread

STANDARD = signal.SIGRTMIN + 7
# Not again before that: what unwinds is to come to its end. C sends its signal every 50 ms.
FIRST_S, LAST_S = 1.0, 8.0
HEAD_START_S = 1.0  # of abort callbacks, as in C
POKE_S = 0.05
SETTING = "MUSTER_INTERRUPT_SIGNAL"


def importing(frame: Optional[FrameType], bottom: Optional[CodeType]) -> bool:
    """Whether the function imports: a module that is cut short stays half imported for good."""
    while frame is not None and frame.f_code is not bottom:
        if frame.f_globals.get("__name__") == "importlib._bootstrap":
            return True
        frame = frame.f_back
    return False


def unwinding(failure: Any) -> bool:
    """Whether an exception that is being handled comes from a Restart: a `finally` or an
    `__exit__` runs."""
    if isinstance(failure, tuple):  # of Python 3.11 and before
        failure = failure[1]
    seen = set()
    while failure is not None and id(failure) not in seen:
        if isinstance(failure, Restart):
            return True
        seen.add(id(failure))
        failure = failure.__context__
    return False


def _raise_in(thread: int, kind: Optional[type]) -> None:
    """At that thread's next step; None takes back what has not been raised. By ctypes, which keeps
    the interpreter's lock: the thread stands where it was when it was looked at."""
    import ctypes

    what = ctypes.py_object(kind) if kind else None
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), what)


class Interruption:
    """Of one run; made on the thread of its function. `bottom`: the code below the function."""

    def __init__(self, wanted: Any, bottom: CodeType) -> None:
        self.bottom = bottom
        self.main = on_main_thread()
        self.thread = threading.get_ident()
        self.number = self._number(wanted)
        self.lock = threading.Lock()
        self.inside = False
        self.raised = 0
        self.raised_at = 0.0
        self.before: Any = None

    @staticmethod
    def _number(wanted: Any) -> int:
        """The signal; 0: none is to be sent."""
        if wanted is False or wanted == 0:
            return 0
        if wanted is not True:
            return int(wanted)
        try:
            number = int(os.environ.get(SETTING, STANDARD))
        except ValueError:
            return STANDARD  # C refuses it with its text
        return STANDARD if number < 0 else number

    # --- the run ---

    def arm(self) -> None:
        if not self.main or self.number == 0:
            return
        before = signal.getsignal(self.number)
        if before not in (signal.SIG_DFL, signal.SIG_IGN, _on_signal):
            raise Invalid(
                f"run with interrupt signal {self.number}: the program has a handler for it; set "
                f"{SETTING} to an unused signal, or to 0 for none",
                Status.EINVAL,
            )
        _runs.append(self)
        self.before = before
        signal.signal(self.number, _on_signal)

    def disarm(self) -> None:
        if self.before is not None:
            _runs.remove(self)
            before, self.before = self.before, None
            signal.signal(self.number, before)

    def put_into(self, options: Any) -> None:
        """On another thread than the main one a signal would end no system call of Python, and C's
        handler of it would be in the way of one that the main thread needs."""
        if self.number == 0 or not self.main:
            options.interrupt_signal = -1
        else:
            options.interrupt_signal = self.number
            options.keep_handler = True

    # --- an attempt ---

    def begin(self) -> None:
        self.raised = 0
        self.inside = True

    def left(self) -> None:
        """The function has returned or raised: nothing is raised from here on. One that comes
        meanwhile is for whoever called this, and the next call succeeds."""
        lib.muster_python_left()
        if self.main:
            self.inside = False
            return
        with self.lock:
            self.inside = False
            _raise_in(self.thread, None)

    def note(self) -> None:
        """One is raised."""
        self.raised += 1
        self.raised_at = time.monotonic()

    def due(self, frame: Optional[FrameType], handled: Any) -> bool:
        """Whether one may be raised there now. `handled`: the exception that is being handled."""
        pause = LAST_S
        if not unwinding(handled):
            pause = min(FIRST_S * 2 ** (self.raised - 1), LAST_S) if self.raised > 0 else 0
        elif self.raised == 0:  # by a call of muster
            self.note()
        if pause > 0 and time.monotonic() - self.raised_at < pause:
            return False
        return not importing(frame, self.bottom)

    # --- a function on a thread of its own ---

    def poke(self, aborted: threading.Event, told: Any) -> None:
        """On a thread beside it, until it has left. `told`: whether it is to be interrupted."""
        aborted.wait(HEAD_START_S)
        while self.inside:
            frame = sys._current_frames().get(self.thread)
            exceptions: Dict[int, Any] = getattr(sys, "_current_exceptions", dict)()
            current = exceptions.get(self.thread)
            if self.due(frame, current):
                with self.lock:
                    if self.inside and told():
                        self.note()
                        _raise_in(self.thread, Restart)
            del frame, current  # they would keep what the function holds
            time.sleep(POKE_S)


_runs: List[Interruption] = []  # of the main thread, the innermost last


def _on_signal(_number: int, frame: Optional[FrameType]) -> None:
    """Between two steps of the interpreter, or out of a system call. It is asked now whether the
    function is to leave: the signal may be an old one."""
    if not lib.muster_python_told() or not _runs:
        return
    interruption = _runs[-1]
    if interruption.due(frame, sys.exc_info()[1]):
        interruption.note()
        raise Restart("the job restarts")

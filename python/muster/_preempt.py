# SPDX-License-Identifier: Apache-2.0
"""One notice on any member, and all save the same step before the deadline."""

from __future__ import annotations

import contextlib

from ._c import Reach, milliseconds, notice_of, options_of, string_of
from ._checkpoint import steps
from ._errors import Invalid, Stale, Status, check
from ._muster import ffi, lib
from ._wait import on_main_thread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Iterator, Optional, Tuple, TypeVar

    from ._c import Notice
    from ._wait import Beside, Handle

    _T = TypeVar("_T")

REACHES = {int(reach): reach for reach in Reach}


class Preempt:
    """This process's part in it. It takes part from open() on, else from its first use."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._preempt: Any = None
        self._notice = ffi.new("struct muster_notice *")  # of reached()
        self._left: Dict[Tuple[str, int], Beside] = {}  # {question: what was left early while it was waited for}

    def open(self, **options: Any) -> Preempt:
        """Takes part from now on. Options are those of struct muster_preempt_options, each from its
        MUSTER_PREEMPT_ variable if it is not given: signals ("TERM,USR1"; "": none), window,
        agree_timeout, grace (in seconds), leave ("all", "noticed"). A handler of Python's own for
        one of the signals is called as well, if it was installed before this."""
        given, _kept = options_of(lib.muster_preempt_options_init, options, "preempt.open")
        err = ffi.new("struct muster_error *")
        out = ffi.new("muster_preempt **")
        with self._handle.lock:
            client = self._handle.get()
            if self._preempt is not None:
                raise Invalid("preempt.open: it is open already", Status.EINVAL)
            check(lib.muster_preempt_open(out, client, given, err), err)
            self._preempt = out[0]
        return self

    def _get(self) -> Any:
        with self._handle.lock:
            self._handle.get()
            if self._preempt is None:
                self.open()
            return self._preempt

    def _close(self) -> None:
        preempt, self._preempt = self._preempt, None
        lib.muster_preempt_close(preempt or ffi.NULL)

    def _ask(self, question: Tuple[str, int], function: Callable[[], _T]) -> _T:
        """function(), which blocks, where Ctrl-C reaches who waits for it. One that was left early
        is waited for again by who asks the same."""
        if not on_main_thread():
            with self._handle:
                return function()
        asked = self._left.setdefault(question, self._handle.ask(lambda _: function()))
        try:
            answer: _T = asked.wait()
            return answer
        finally:
            if asked.taken:
                del self._left[question]

    def reached(self, step: int) -> Reach:
        """To be asked before each step, which count up. Reach.GO_ON: compute it. SAVE_NOW: save it
        first, then call saved(step). STOP: this process was given up. While the members agree on the
        step to save, it waits."""
        with self._handle:
            preempt = self._preempt or self._get()
            notice = self._notice
            waits = lib.muster_preempt_notice(preempt, notice) and notice.agreed_step < 0
            if not waits and not self._left:
                # Should a notice come right now, the answer takes agree_timeout at the longest.
                return REACHES[lib.muster_preempt_reached(preempt, step)]
        for question in [left for left in self._left if left[0] == "reached"]:
            self._left[question].finish()  # one at a time, and of an old answer nobody knows
            del self._left[question]
        answer = self._ask(("reached", step), lambda: lib.muster_preempt_reached(preempt, step))
        return REACHES[answer]

    def saved(self, step: int, timeout: Optional[float] = None) -> bool:
        """Reports that this process has saved `step`, and waits for the others' saves. Raises
        Preempted: saved by all, end now with muster.exit_code. True: saved by all, and this process
        goes on, others leave. False: not this step, the notice was withdrawn or the step is agreed
        on anew; go on, and ask reached(). Raises Mismatch, Lost, Timeout or Failed, which say who."""
        preempt = self._get()
        limit = milliseconds(timeout)

        def save() -> None:
            err = ffi.new("struct muster_error *")
            check(lib.muster_preempt_saved(preempt, step, limit, err), err)

        try:
            self._ask(("saved", step), save)
        except Stale:
            return False
        return True

    def checkpointing(
        self,
        save: Callable[[int], object],
        load: Optional[Callable[[], Optional[int]]] = None,
        *,
        every: Optional[int] = None,
        last: Optional[int] = None,
        commit: Optional[Callable[[int], object]] = None,
        exit: bool = True,
    ) -> Iterator[int]:
        """for step in job.preempt.checkpointing(save, load, every=100, last=10000): train(step)

        Counts the steps from load() (None: 0) up to `last`. save(step) is called before `step`: each
        `every` steps, and when a notice has come, for the step that all ranks agree on. A save counts
        when all ranks have saved; then commit(step) is called. After the save for a notice the process
        exits with 75 if it is to leave, or with exit=False raises Preempted."""
        return steps(self, save, load, every, last, commit, exit)

    @property
    def notice(self) -> Optional[Notice]:
        """The Notice with the first deadline, or None. Costs no round trip."""
        out = ffi.new("struct muster_notice *")
        preempt = self._get()
        with self._handle:
            return notice_of(out) if lib.muster_preempt_notice(preempt, out) else None

    @property
    def sources(self) -> Tuple[str, ...]:
        """Who gives notices for this process: ("signals", "slurm"); nobody: only `muster preempt`
        and announce() can."""
        preempt = self._get()
        with self._handle:
            names = ffi.string(lib.muster_preempt_sources(preempt)).decode()
        return tuple(names.split(",")) if names else ()

    @contextlib.contextmanager
    def hold(self, limit: float) -> Iterator[None]:
        """with job.preempt.hold(30): "cannot save now". An agreement is postponed until the end, at
        most for `limit` seconds. Regions nest."""
        preempt = self._get()
        with self._handle:
            check(lib.muster_preempt_hold_begin(preempt, max(milliseconds(limit), 1)), None)
        try:
            yield
        finally:
            with self._handle.lock:
                if self._preempt is not None:
                    lib.muster_preempt_hold_end(preempt)

    def announce(
        self, left: Optional[float] = None, *, index: Optional[int] = None, reason: Optional[str] = None
    ) -> None:
        """Gives notice by hand: the member `index` (None: the whole job) ends in `left` seconds
        (None: not known). An earlier notice that is still to be acted upon stays as it is."""
        line = ffi.NULL if reason is None else string_of(reason)
        limit = milliseconds(left)
        place = lib.MUSTER_INDEX_ALL if index is None else index

        def announce(client: Any) -> None:
            err = ffi.new("struct muster_error *")
            check(lib.muster_preempt_announce(client, place, limit, line, err), err)

        self._handle.beside(announce)

    def withdraw(self, index: Optional[int] = None) -> None:
        """Takes a notice back; before all have saved for it, they go on instead."""
        place = lib.MUSTER_INDEX_ALL if index is None else index

        def withdraw(client: Any) -> None:
            err = ffi.new("struct muster_error *")
            check(lib.muster_preempt_withdraw(client, place, err), err)

        self._handle.beside(withdraw)

    def wait_exit(self, timeout: Optional[float] = None) -> None:
        """Waits until every member that was noticed, but this one, is lost or has left, or the
        service went away; at once when there is no notice."""
        preempt = self._get()
        limit = milliseconds(timeout)

        def wait_exit(_: Any) -> None:
            err = ffi.new("struct muster_error *")
            check(lib.muster_preempt_wait_exit(preempt, limit, err), err)

        self._handle.beside(wait_exit)

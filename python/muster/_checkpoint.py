# SPDX-License-Identifier: Apache-2.0
"""The steps of a training that saves: every so often, and the step that all agree on at a notice."""

from __future__ import annotations

import itertools
import sys

from ._c import Reach, name_of
from ._errors import Interrupted, Preempted, Status, exit_code
from ._muster import lib, make

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Iterator, Optional

    from ._preempt import Preempt

    Save = Callable[[int], object]

SAVED = name_of("muster/checkpoint")  # the barrier after a periodic save


class Checkpoints:
    def __init__(self, preempt: Preempt, save: Save, commit: Optional[Save], ends: bool) -> None:
        self.preempt = preempt
        self.save = save
        self.commit = commit
        self.ends = ends
        self.last: Optional[int] = None  # that was saved

    def kept(self, step: int) -> None:
        self.last = step
        if self.commit is not None:
            self.commit(step)

    def periodic(self, step: int) -> None:
        """It counts when all ranks have it."""
        self.save(step)
        make(self.preempt._handle.address, lib.MUSTER_PYTHON_BARRIER, SAVED, b"", 0, 0, False, None)
        self.kept(step)

    def agreed(self, step: int) -> None:
        """Saves if all are to save `step`; the end if this process is to leave after it."""
        while True:
            reach = self.preempt.reached(step)
            if reach == Reach.GO_ON:
                return
            if reach == Reach.STOP:
                raise Interrupted(
                    "checkpointing: the job restarts, or goes on without this process: return",
                    Status.EINTERRUPTED,
                )
            self.save(step)
            try:
                if self.preempt.saved(step):
                    self.kept(step)
            except Preempted as ended:
                self.kept(step)
                if self.ends:
                    sys.exit(exit_code(ended))
                raise


def steps(
    preempt: Preempt,
    save: Save,
    load: Optional[Callable[[], Optional[int]]],
    every: Optional[int],
    last: Optional[int],
    commit: Optional[Save],
    ends: bool,
) -> Iterator[int]:
    checkpoints = Checkpoints(preempt, save, commit, ends)
    first = (load() if load is not None else None) or 0
    for step in itertools.count(first):
        if last is not None and step >= last:
            return
        checkpoints.agreed(step)
        if every and step % every == 0 and step > first and checkpoints.last != step:
            checkpoints.periodic(step)
        yield step

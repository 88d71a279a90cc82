# SPDX-License-Identifier: Apache-2.0
"""Preemption for the Trainer of Hugging Face Transformers: one line in the list of callbacks.

    trainer = Trainer(..., callbacks=[muster.transformers.Checkpointing(job)])

It imports Transformers, which `import muster` does not."""

from __future__ import annotations

import sys
from typing import Any, Optional

from transformers import TrainerCallback

from ._c import Reach
from ._errors import Interrupted, Preempted, Status, exit_code
from ._job import Job


class Checkpointing(TrainerCallback):  # type: ignore[misc]
    """When any rank gets a notice, the Trainer of each saves a checkpoint at one step, where it saves
    its others. Then a process that is to leave exits with 75 at the end of train(), or with
    exit=False train() raises Preempted. Continue with trainer.train(resume_from_checkpoint=True)."""

    def __init__(self, job: Job, *, exit: bool = True) -> None:
        self.job = job
        self.exit = exit
        self.due: Optional[int] = None  # the step that the Trainer is to save
        self.ended: Optional[Preempted] = None

    def on_step_end(self, _args: Any, state: Any, control: Any, **_: Any) -> None:
        step = int(state.global_step)
        reach = self.job.preempt.reached(step)
        if reach == Reach.STOP:
            raise Interrupted(
                "train: the job restarts, or goes on without this process", Status.EINTERRUPTED
            )
        if reach == Reach.SAVE_NOW:
            self.due = step
            control.should_save = True

    def on_save(self, _args: Any, _state: Any, control: Any, **_: Any) -> None:
        step, self.due = self.due, None
        if step is None:
            return
        try:
            self.job.preempt.saved(step)
        except Preempted as ended:
            self.ended = ended
            control.should_training_stop = True

    def on_train_end(self, *_: Any, **__: Any) -> None:
        if self.ended is not None:
            if self.exit:
                sys.exit(exit_code(self.ended))
            raise self.ended

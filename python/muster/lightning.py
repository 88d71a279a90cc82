# SPDX-License-Identifier: Apache-2.0
"""Preemption for PyTorch Lightning: one line in the list of callbacks.

    trainer = Trainer(callbacks=[muster.lightning.Checkpointing(job, "preempted.ckpt")])

It imports Lightning, which `import muster` does not."""

from __future__ import annotations

import os
import sys
from typing import Any, Union

from lightning.pytorch.callbacks import Callback

from ._c import Reach
from ._errors import Interrupted, Preempted, Status, exit_code
from ._job import Job


class Checkpointing(Callback):  # type: ignore[misc]
    """When any rank gets a notice, all ranks save a checkpoint at one step, to `path`. Then a process
    that is to leave exits with 75, or with exit=False its fit() raises Preempted. Continue with
    trainer.fit(model, ckpt_path=path)."""

    def __init__(self, job: Job, path: Union[str, os.PathLike[str]], *, exit: bool = True) -> None:
        super().__init__()
        self.job = job
        self.path = path
        self.exit = exit

    def on_train_batch_start(self, trainer: Any, *_: Any) -> None:
        preempt, step = self.job.preempt, int(trainer.global_step)
        while (reach := preempt.reached(step)) != Reach.GO_ON:
            if reach == Reach.STOP:
                raise Interrupted(
                    "fit: the job restarts, or goes on without this process", Status.EINTERRUPTED
                )
            trainer.save_checkpoint(self.path)
            try:
                preempt.saved(step)
            except Preempted as ended:
                if self.exit:
                    sys.exit(exit_code(ended))
                raise

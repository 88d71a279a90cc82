# SPDX-License-Identifier: Apache-2.0
"""A rank that trains by the trainer of another project, each on its own: its first argument says
which, the second is a folder. Rank 1 gives notice after its fifth step."""

import os
import sys

import muster

kind, folder = sys.argv[1:]
# The trainers are alone in their processes: only the notice is of the job.
job = muster.open(log=False)
me = job.view.rank
for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR",
             "MASTER_PORT", "TORCHELASTIC_RUN_ID"):
    os.environ.pop(name, None)

import torch  # noqa: E402 (after the variables)


def step_done(step):
    """All ranks are at one step, as those of a real job are."""
    if step == 5 and me == 1:
        job.preempt.announce(600, reason="a test")
    job.round("step", str(step), reduce="equal")


def lightning():
    from lightning.pytorch import LightningModule, Trainer

    import muster.lightning

    class Model(LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4, 1)

        def training_step(self, batch, _number):
            return self.layer(batch).sum()

        def on_train_batch_end(self, *_):
            step_done(self.trainer.global_step)

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.01)

    path = f"{folder}/rank-{me}.ckpt"
    Trainer(
        accelerator="cpu", devices=1, max_epochs=100, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False, default_root_dir=folder,
        callbacks=[muster.lightning.Checkpointing(job, path)],
    ).fit(Model(), torch.utils.data.DataLoader(torch.ones(64, 4)))


def transformers():
    from transformers import Trainer, TrainerCallback, TrainingArguments

    import muster.transformers

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4, 1)

        def forward(self, x):
            return {"loss": self.layer(x).sum()}

    class Paced(TrainerCallback):
        def on_step_begin(self, _args, state, _control, **_):
            step_done(state.global_step)

    arguments = TrainingArguments(
        output_dir=f"{folder}/rank-{me}", max_steps=1000, per_device_train_batch_size=1,
        save_strategy="no", report_to=[], use_cpu=True, disable_tqdm=True,
    )
    data = [{"x": torch.ones(4)} for _ in range(64)]
    Trainer(
        model=Model(), args=arguments, train_dataset=data,
        callbacks=[Paced(), muster.transformers.Checkpointing(job)],
    ).train()


try:
    {"lightning": lightning, "transformers": transformers}[kind]()
finally:
    job.close()

# SPDX-License-Identifier: Apache-2.0
"""The callbacks for PyTorch Lightning and for the Trainer of Hugging Face Transformers, with the real
packages.

behaviour: python / Preemption
"""

import os
import pathlib
import re
import subprocess

import pytest

from conftest import BUILD
from pytorch import TESTS, install, torch  # noqa: F401 (a fixture)
from running import Run
from saving import PATIENT

RANK = pathlib.Path(__file__).parent / "trainer_rank.py"
IMPORTS_S = 300
PACKAGES = (*TESTS, "lightning", "transformers", "accelerate")


@pytest.fixture
def trainers(torch):  # noqa: F811 (a fixture)
    why = install(torch.parent, PACKAGES)
    if why is not None:
        pytest.skip(why)
    return torch


def saved_step(trainers, folder, kind, rank):
    """The step of what the trainer itself reads from the rank's checkpoint."""
    if kind == "transformers":
        (folder_of_step,) = (folder / f"rank-{rank}").iterdir()
        return int(folder_of_step.name.removeprefix("checkpoint-"))
    read = "import sys, torch; print(torch.load(sys.argv[1], weights_only=False)['global_step'])"
    path = folder / f"rank-{rank}.ckpt"
    done = subprocess.run(
        [trainers / "python", "-c", read, path], capture_output=True, text=True, check=True
    )
    return int(done.stdout)


@pytest.mark.parametrize("kind", ["lightning", "transformers"])
def test_a_trainer_of_others_saves_the_agreed_step(spawn, muster, env, trainers, tmp_path, kind):
    """Two ranks train by PyTorch Lightning, or by the Trainer of Transformers, with muster's callback;
    one gives notice. Both write the checkpoint of the same step, and the run ends with 75."""
    surely = {**env, **PATIENT, "PYTHONPATH": str(BUILD / "python"), "HOME": os.fspath(tmp_path)}
    rank = (trainers / "python", "-W", "ignore", RANK, kind, tmp_path)
    job = Run(spawn, muster, 2, rank=rank, env=surely)
    job.log.wait_for("muster run: preempted", patience_s=IMPORTS_S)
    assert job.run.wait() == 75, "\n".join(job.out.lines + job.log.lines)
    told = re.search(r"step (\d+) is saved by all 2 ranks", "\n".join(job.log.lines))
    assert told and int(told[1]) >= 5
    steps = {saved_step(trainers, tmp_path, kind, rank) for rank in range(2)}
    assert steps == {int(told[1])}

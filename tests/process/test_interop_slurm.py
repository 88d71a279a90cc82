# SPDX-License-Identifier: Apache-2.0
"""Unmodified processes of JAX under the real srun, beside a `muster agent --front`: the batch script of
docs/interop.md, on one node. The program is tests/interop/jax_job.py.

behaviour: fronts / muster agent --front
"""

import re
import shlex
import socket

import pytest

import slurm
from conftest import BUILD, ROOT, free_port
from discovering import marked
from interop import JOBS, client
from running import until

REASON = slurm.reason_not_to_run()

pytestmark = pytest.mark.skipif(REASON is not None, reason=str(REASON))

JAX_S = 180  # to import it, twice, on a busy machine


@pytest.fixture
def cluster():
    cluster = slurm.Cluster([socket.gethostname()])
    yield cluster
    cluster.stop()


def recipe(size, program):
    """The script of the page, for one node, of this build, with ports that are free."""
    (script,) = re.findall(r"^```sh\n#!/bin/bash\n(.*?)^```", (ROOT / "docs/interop.md").read_text(), re.M | re.S)
    for written, here in {"--nodes=4 --ntasks-per-node=8": f"--nodes=1 --ntasks-per-node={size}", "--size 32": f"--size {size}", "4700": str(free_port()),
                          "7777": str(free_port()), "--ntasks-per-node=8": f"--ntasks-per-node={size}",
                          "python train.py": shlex.join(map(str, program))}.items():
        assert written in script, written
        script = script.replace(written, here)
    return script.replace("muster ", f"{BUILD}/bin/muster ")


def test_the_batch_script_of_the_page(cluster, env, tmp_path):
    """The batch script of docs/interop.md starts the service, the agent and two processes of JAX by srun. They
    find their places by srun's variables, and the agent by one of theirs; all end by themselves."""
    secret = tmp_path / "muster.secret"
    secret.write_text("5" * 64)
    secret.chmod(0o400)
    program = [client("jax") / "python", JOBS / "jax_job.py", "psum", "barrier=one"]
    said, code = cluster.batch(recipe(2, program), timeout=JAX_S,
                               env={"MUSTER_RUNTIME_DIR": env["MUSTER_RUNTIME_DIR"], "HOME": str(tmp_path)})
    assert code == 0, said
    for index in range(2):
        assert f"{index} sum 3" in said, said
    assert said.count("barrier one passed") == 2
    until(lambda: not list(marked(env["MUSTER_RUNTIME_DIR"])))

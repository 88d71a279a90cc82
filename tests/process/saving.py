# SPDX-License-Identifier: Apache-2.0
"""A run of ranks/save: what its ranks save when they are preempted."""

import json
import re

import pytest

from conftest import BUILD
from running import Run, until

LOOP = BUILD / "tests" / "process" / "ranks" / "save"
# On a busy machine who is not frozen is not to be left out of the step that is agreed.
PATIENT = {"MUSTER_PREEMPT_AGREE_TIMEOUT": "20s"}


def noting(path):
    """What to run a program with so that `path` has the order in which it syncs and renames."""
    return {"LD_PRELOAD": str(BUILD / "tests" / "process" / "libcount_syncs.so"),
            "COUNT_SYNCS_FILE": str(path)}


def on_disk_first(notes, written):
    """Whether a file was synced before it was renamed, by such notes."""
    said = notes.read_text()
    return f"({written})" in said and f"[{written}]" in said[:said.index(f"({written})")]


class Loop(Run):
    """`muster run` of ranks/save. What ranks save lies in `dir`, one file for each index."""

    def __init__(self, spawn, muster, env, directory, size, *flags, **settings):
        self.dir = directory
        own = {**env, **PATIENT, "LOOP_DIR": str(directory), **{k: str(v) for k, v in settings.items()}}
        super().__init__(spawn, muster, size, *flags, rank=(LOOP,), env=own)

    def trains(self, size=None):
        """Every rank of this node has taken a step."""
        self.out.wait_for("]: step ", count=self.size if size is None else size)
        return self

    def saved(self):
        """{index: the step that it saved}"""
        files = [path for path in self.dir.iterdir() if path.name.isdigit()]
        return {int(path.name): int(path.read_text()) for path in files}

    def saved_by_all(self, size=None):
        """The one step that all have saved."""
        saved = self.saved()
        assert sorted(saved) == list(range(self.size if size is None else size))
        assert len(set(saved.values())) == 1, saved
        return saved[0]

    def preemption(self):
        done = self.muster("status", "-j", self.job, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)["preemption"]

    def agreed(self):
        """What `muster status` says once a step is agreed."""
        return until(lambda: (now := self.preemption())["agreed_step"] is not None and now)

    def began_at(self):
        """{index: the step it began with}"""
        begins = [re.match(r"\[(\d+)\]: begins at=(\d+)", line)
                  for line in self.out.having("]: begins ")]
        return {int(found[1]): int(found[2]) for found in begins}


@pytest.fixture
def loop(spawn, muster, env, tmp_path):
    directory = tmp_path / "saved"
    directory.mkdir()

    def start(size, *flags, **settings):
        return Loop(spawn, muster, env, directory, size, *flags, **settings)

    return start

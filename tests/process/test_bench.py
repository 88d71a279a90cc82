# SPDX-License-Identifier: Apache-2.0
"""The benchmark measures: small, so that its figures say nothing, but every part of it runs."""

import json
import os
import pathlib
import subprocess

import pytest
from conftest import sanitized

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("MUSTER_BUILD", ROOT / "build" / "dev"))


def bench(env, *words):
    return subprocess.run(
        [ROOT / "tools" / "bench", "--bin", BUILD / "bin", "--pairs", "1", "--kills", "1",
         "--ranks", "4", "--puts", "200", *words], env=env, capture_output=True, text=True, timeout=200)


@pytest.mark.skipif(sanitized(), reason="a sanitizer's shadow of 1 GiB measures nothing")
def test_every_measure_gives_a_figure(env):
    done = bench(env, "--json")
    assert done.stdout, done.stderr
    said = json.loads(done.stdout)
    names = [measure["name"] for measure in said["measures"]]
    assert sum(name.startswith(("put, ", "get, ")) for name in names) == 4
    assert sum(name.startswith("TLS, ") for name in names) == 4
    assert sum(name.startswith("synced put, ") for name in names) == 4
    assert sum(name.startswith("SIGKILL at ") for name in names) == 6
    assert all(us > 0 for measure in said["measures"] for us in measure["subject_us"])
    slow = not 6 <= min(said["ping_pong_us"]) <= max(said["ping_pong_us"]) <= 10
    assert (said["void"] is not None) == slow
    assert done.returncode in (0, 1)  # 1: a bar was missed, which a test does not judge


def test_the_anchor_refuses_what_it_does_not_know():
    for words in ([], ["nothing"], ["death", "pidfd", "many"], ["-p", "here", "rtt", "tcp"]):
        done = subprocess.run([BUILD / "bin" / "anchor", *words], capture_output=True, text=True,
                              timeout=30)
        assert done.returncode == 2
        assert done.stderr.startswith("usage: anchor")

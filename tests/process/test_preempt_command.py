# SPDX-License-Identifier: Apache-2.0
"""`muster preempt`: a notice by hand, for one rank or the whole job, and back again.

behaviour: program / muster preempt
"""

import json
import os

import pytest

from running import Run
from saving import Loop
from wire import OK, Wire


@pytest.fixture
def job(spawn, muster, env, tmp_path):
    directory = tmp_path / "saved"
    directory.mkdir()
    return Loop(spawn, muster, env, directory, 3).trains()


def ask(job, *args):
    return job.muster("preempt", "-j", job.job, *args)


def test_a_notice_for_one_rank(job):
    """`muster preempt` gives notice to one index, or to the whole job. All save one step and end
    with 75."""
    done = ask(job, 1, "--in", "60s", "--reason", "maintenance of b3")
    assert (done.returncode, done.stdout) == (0, f"#1 of job '{job.job}' is told: it ends in 60.0 s\n")
    assert job.run.wait() == 75, job.log.lines
    job.saved_by_all()


def test_a_notice_for_the_whole_job(job):
    """`muster preempt` gives notice to one index, or to the whole job. All save one step and end
    with 75."""
    done = ask(job, "--in", "60s")
    assert (done.returncode, done.stdout) == (0, f"job '{job.job}' is told: it ends in 60.0 s\n")
    assert job.run.wait() == 75, job.log.lines
    job.saved_by_all()


def test_status_tells_who_has_notice(job):
    """`muster status` says for which ranks the notices are, by which source, from which host,
    why, and what is left; in JSON too."""
    assert ask(job, 1, "--in", "10h", "--reason", "a visit\n of the king").returncode == 0
    assert ask(job, "--in", "20h", "--advisory").returncode == 0
    (all_of_it, one) = sorted(job.preemption()["notices"], key=lambda notice: notice["index"] or -1)
    assert 35990000 < one.pop("left_ms") <= 36000000
    assert one == {"index": 1, "level": "certain", "assumed": False, "source": "hand",
                   "host": os.uname().nodename, "reason": one["reason"]}
    assert "king" in one["reason"] and "\n" not in one["reason"]
    assert (all_of_it["index"], all_of_it["level"]) == (None, "advisory")
    lines = job.muster("status", "-j", job.job).stdout.splitlines()
    assert any(line.startswith("notice for #1: a visit") and "(hand, " in line and " s are left" in line
               for line in lines), lines
    assert any(line.startswith("advisory notice for the whole job: muster preempt") for line in lines)
    assert job.preemption()["state"] == "none"


def test_an_earlier_notice_counts_and_a_later_one_changes_nothing(job):
    """There is a notice already. An earlier one takes its place, a later one changes nothing and
    its sender learns that."""
    assert ask(job, 0, "--in", "10h").returncode == 0
    done = ask(job, 0, "--in", "11h")
    assert done.returncode == 0
    assert done.stdout == f"#0 of job '{job.job}' has a notice already that is not later; nothing is changed\n"
    assert ask(job, 0, "--in", "9h").stdout == f"#0 of job '{job.job}' is told: it ends in 32400.0 s\n"
    (notice,) = job.preemption()["notices"]
    assert 8.9 * 3600000 < notice["left_ms"] <= 9 * 3600000


def test_a_notice_is_taken_back(job):
    """`muster preempt --withdraw` takes the notice back; if there was none it says so."""
    assert ask(job, 0, "--in", "10h").returncode == 0
    done = ask(job, 0, "--withdraw")
    assert (done.returncode, done.stdout) == (0, f"the notice for #0 of job '{job.job}' is taken back\n")
    assert job.preemption()["notices"] == []
    done = ask(job, "--withdraw", "--json")
    assert json.loads(done.stdout) == {"job": job.job, "index": None, "withdrawn": False}


def test_as_json(job):
    """`muster preempt --json` prints one document; without `--in` it says that the time is
    assumed."""
    done = ask(job, 2, "--in", "10h", "--reason", "x", "--json")
    assert json.loads(done.stdout) == {"job": job.job, "index": 2, "given": True, "in_ms": 36000000,
                                       "assumed": False, "heard": True, "reason": "x"}
    done = ask(job, 1, "--advisory", "--json")
    told = json.loads(done.stdout)
    assert (told["in_ms"], told["assumed"]) == (30000, True)


def test_no_such_index_lists_those_that_there_are(job):
    """No member has the index. `muster preempt` prints one line that lists those that there are,
    and writes nothing."""
    done = ask(job, 7, "--in", "60s")
    assert done.returncode == 1
    assert done.stderr == f"muster preempt: no rank of job '{job.job}' has index 7; its indices: 0, 1, 2\n"
    assert job.preemption()["notices"] == []


@pytest.mark.parametrize("args, said", [
    (["x"], "'x' is no index"),
    (["-1"], None),
    (["0", "1"], "unexpected argument '1'"),
    (["--in", "soon"], "no duration"),
    (["--withdraw", "--in", "60s"], "--withdraw takes the notice back as it is"),
])
def test_wrong_usage(muster, args, said):
    """`muster preempt` is misspelled. That is wrong usage: 2."""
    done = muster("preempt", *args)
    assert done.returncode == 2
    assert said is None or said in done.stderr


def test_nobody_is_there_to_be_told(muster):
    """No service runs. `muster preempt` prints one line."""
    done = muster("preempt", "-j", "nobody", "--in", "60s")
    assert done.returncode == 1
    assert done.stderr.startswith("muster preempt: no service") and done.stderr.count("\n") == 1


def jobs_of(muster, service):
    done = muster("status", "--addr", service.address, "-j", "train", "--json")
    return [job["job"] for job in json.loads(done.stdout)["jobs"]]


def test_a_job_that_was_mistyped_is_refused_and_not_made(service, muster):
    """The job of `muster preempt` is misspelled: it has no members. One line lists the jobs there
    are, it ends with 1, and no such job is made."""
    rank = Wire(service.address)
    assert rank.open_rank(0, 2, job="train").status == OK
    place = ("--addr", service.address, "-j", "trian")
    for words in (["--in", "60s"], ["1", "--in", "60s"]):
        done = muster("preempt", *words, *place)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr == ("muster preempt: job 'trian' has no members (-j selects another; jobs at "
                               f"{service.address}: default, train)\n".replace("default, ", ""))
    assert muster("preempt", "--withdraw", *place).stdout == "there is no notice for job 'trian'\n"
    assert jobs_of(muster, service) == ["train"]


READS = [
    ("status",), ("key", "get", "k"), ("key", "ls"), ("key", "wait", "k", "--timeout", "50ms"),
    ("key", "watch", "--timeout", "50ms"), ("key", "del", "k"), ("key", "cas", "k", "7", "v"),
    ("chaos", "kill", "0"), ("chaos", "random", "--count", "1"), ("preempt", "--in", "60s"),
    ("preempt", "--withdraw"),
]


def test_no_command_that_writes_no_key_makes_the_job_that_it_names(service, muster):
    """A command names a job that is not there. Only writing a key makes it. [muster key]"""
    rank = Wire(service.address)
    assert rank.open_rank(0, 2, job="train").status == OK
    for number, words in enumerate(READS):
        muster(*words, "--addr", service.address, "-j", f"typo{number}")
        assert jobs_of(muster, service) == ["train"], words
    for number, words in enumerate([("key", "put", "k", "v"), ("key", "add", "n")]):
        assert muster(*words, "--addr", service.address, "-j", f"new{number}").returncode == 0
    assert sorted(jobs_of(muster, service)) == ["new0", "new1", "train"]


def test_a_notice_that_no_rank_listens_for_is_given_with_a_warning(spawn, muster, tmp_path):
    """No rank of the job has opened preempt. The notice is given, for one may yet open it; a
    warning says that nothing is saved until then, `--json` says in `heard` whether one
    listens, and a notice of a source of `muster run` warns alike."""
    stop, ready = tmp_path / "stop", tmp_path / "ready"
    job = Run(spawn, muster, 2, "--preempt-sources", f"file={stop}")
    ranks = job.entered()
    done = muster("preempt", "-j", job.job, "--in", "10h")
    assert (done.returncode, done.stdout) == (0, f"job '{job.job}' is told: it ends in 36000.0 s\n")
    assert done.stderr == (f"muster preempt: warning: no rank of job '{job.job}' listens for notices yet "
                           "(muster_preempt_open): until one does, nothing is saved\n")
    done = muster("preempt", "-j", job.job, 1, "--in", "9h", "--json")
    assert json.loads(done.stdout)["heard"] is False and done.stderr.count("\n") == 1
    ready.write_text("60s the rack is drained\n")
    ready.rename(stop)
    line = job.log.wait_for("a notice of 'file' for this node: the rack is drained; ")
    assert line.endswith(" s are left; no rank of this node listens for notices yet (muster_preempt_open)")
    job.all_well(ranks)


def test_no_warning_where_a_rank_listens(job):
    """A rank has opened preempt. `muster preempt` gives no warning."""
    done = ask(job, "--in", "10h")
    assert (done.returncode, done.stderr) == (0, "")

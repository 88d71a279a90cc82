# SPDX-License-Identifier: Apache-2.0
"""`muster run --log-dir`: what ranks write, in files of their own; and what becomes of it where
there is no room.

behaviour: run / Output in files
"""

import os
import re
import signal
import stat
import subprocess

import pytest

from nodes import missing
from running import RANK, Run, until
from test_journal import small_disk  # noqa: F401
from test_nodes import Nodes, cluster  # noqa: F401
from test_tiers import ONE_ATTEMPT

WHY_NOT = missing()
several_nodes = pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))

BOTH = ("sh", "-c", 'echo "out $MUSTER_INDEX"; echo "err $MUSTER_INDEX" >&2')


class Logs:
    """The files of one job under --log-dir."""

    def __init__(self, folder, job):
        self.folder = folder / job

    def text(self, index, attempt, name="stdout.log"):
        return (self.folder / str(index) / str(attempt) / name).read_bytes().decode()

    def attempts(self, index):
        return sorted(int(path.name) for path in (self.folder / str(index)).iterdir())

    def indices(self):
        return sorted(int(path.name) for path in self.folder.iterdir())


@pytest.fixture
def run(spawn, muster, env):
    def start(size, *flags, variables=None, **options):
        return Run(spawn, muster, size, *flags, env={**env, **(variables or {})}, **options)

    return start


def entered(logs, index, attempt):
    """The generations that a process was in, as it said."""
    return re.findall(r"entered generation=(\d+)", logs.text(index, attempt))


def test_each_process_has_its_files(muster, tmp_path):
    """Ranks write with `--log-dir`, and nothing was there before. The folders are made; the
    terminal has the lines of `muster run` only, the first of which says where the files are."""
    done = muster("run", "-n", 2, "-j", "both", "--log-dir", tmp_path / "not/there/yet", "--", *BOTH)
    assert done.returncode == 0, done.stderr
    logs = Logs(tmp_path / "not/there/yet", "both")
    for index in (0, 1):
        assert logs.text(index, 0) == f"out {index}\n"
        assert logs.text(index, 0, "stderr.log") == f"err {index}\n"
    assert done.stdout == ""
    assert re.findall(r"^(?!muster run: ).*", done.stderr.strip(), re.M) == []
    assert f"the ranks' output is in {logs.folder}/INDEX/ATTEMPT/stdout.log" in done.stderr


def test_bytes_are_kept_as_they_are(muster, tmp_path):
    """The output is no text, ends without newline, or is one very long line. The file has the
    bytes as they are."""
    done = muster("run", "-j", "raw", "--log-dir", tmp_path, "--", "printf", r"a\0b\r\377\nno end")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "raw/0/0/stdout.log").read_bytes() == b"a\0b\r\xff\nno end"
    assert (tmp_path / "raw/0/0/stderr.log").read_bytes() == b""


def test_what_is_written_can_be_followed(run, tmp_path):
    """A reader follows a file of a rank that runs. It has all that was written so far: nothing
    waits for the rank's end."""
    job = run(1, "--log-dir", tmp_path, "--tee")
    ranks = job.entered()  # as the terminal has it, so has the file: that is written first
    assert entered(Logs(tmp_path, job.job), 0, 0) == ["1"]
    job.all_well(ranks)


def test_with_tee_it_is_on_the_terminal_too(muster, tmp_path):
    """`--tee` puts the output on the terminal too, as without files: labelled, unless
    `--no-label`."""
    done = muster("run", "-n", 2, "-j", "tee", "--log-dir", tmp_path, "--tee", "--", *BOTH)
    assert done.returncode == 0
    assert sorted(done.stdout.splitlines()) == ["[0]: out 0", "[1]: out 1"]
    assert {"[0]: err 0", "[1]: err 1"} <= set(done.stderr.splitlines())
    assert Logs(tmp_path, "tee").text(1, 0) == "out 1\n"
    done = muster("run", "-j", "tee", "--log-dir", tmp_path, "--tee", "--no-label", "--", *BOTH)
    assert done.stdout == "out 0\n"


def test_tee_needs_a_folder(muster):
    """`--tee` is given without a folder. That is wrong usage: 2."""
    done = muster("run", "--tee", "--", "true")
    assert done.returncode == 2
    assert done.stderr == "muster run: --tee: the folder for the output is missing, as in --log-dir FOLDER\n"


def test_a_replacement_has_files_of_its_own(run, tmp_path):
    """A rank is replaced, or all are started anew. The new process writes into the next number;
    nothing is overwritten."""
    job = run(2, "--log-dir", tmp_path, "--tee")
    logs = Logs(tmp_path, job.job)
    os.kill(job.entered()[1]["pid"], signal.SIGKILL)
    ranks = job.entered(2)
    job.all_well(ranks)
    assert (logs.attempts(0), logs.attempts(1)) == ([0], [0, 1])
    assert entered(logs, 1, 0) == ["1"]
    assert entered(logs, 1, 1)[-1] == str(ranks[1]["generation"])
    assert set(entered(logs, 0, 0)) >= {"1", str(ranks[0]["generation"])}


def test_a_group_that_begins_anew_has_files_of_its_own(run, tmp_path):
    """A rank is replaced, or all are started anew. The new process writes into the next number;
    nothing is overwritten."""
    job = run(2, "--max-restarts", 1, "--log-dir", tmp_path, "--tee", variables=ONE_ATTEMPT)
    logs = Logs(tmp_path, job.job)
    job.entered()
    job.order(1, 1, "fail 7 no such file")
    job.all_well(job.entered(2))
    for index in (0, 1):
        assert logs.attempts(index) == [0, 1]
        assert len(entered(logs, index, 0)) == len(entered(logs, index, 1)) == 1


def test_a_later_run_of_the_job_overwrites_nothing(muster, tmp_path):
    """The same job is run again with the same folder. Its processes write into the next numbers;
    nothing is overwritten."""
    for attempt in range(3):
        done = muster("run", "-j", "again", "--log-dir", tmp_path, "--", "echo", attempt)
        assert done.returncode == 0, done.stderr
    logs = Logs(tmp_path, "again")
    assert [logs.text(0, attempt) for attempt in logs.attempts(0)] == ["0\n", "1\n", "2\n"]


def test_workers_of_torchrun_leave_their_error_beside_their_output(muster, tmp_path):
    """A worker uses torchrun's `@record`. Its `error.json` lies beside its output."""
    script = ("sh", "-c", 'echo "$TORCHELASTIC_ERROR_FILE"')
    done = muster("run", "-j", "torch", "--log-dir", tmp_path, "--", *script)
    assert done.returncode == 0
    assert Logs(tmp_path, "torch").text(0, 0) == f"{tmp_path}/torch/0/0/error.json\n"


def test_the_first_cause_is_told_with_its_file(run, tmp_path):
    """A rank fails. The last line has its last words as ever, and the line before names its file."""
    job = run(2, "--max-restarts", 0, "--log-dir", tmp_path, "--tee")
    pid = job.entered()[1]["pid"]
    job.order(1, 1, "exit 5")
    assert job.run.wait() == 5
    assert job.last_line().endswith('its last line on stderr: "order: exit 5"')
    path = f"{tmp_path}/{job.job}/1/0/stderr.log"
    assert job.log.lines[-2] == f"muster run: what #1 (pid {pid}) said on stderr: {path}"
    assert Logs(tmp_path, job.job).text(1, 0, "stderr.log") == "order: exit 5\n"


def test_without_tee_the_last_words_are_told_all_the_same(muster, tmp_path):
    """A rank fails. The last line has its last words as ever, and the line before names its file."""
    done = muster("run", "--log-dir", tmp_path, "--", "sh", "-c", "echo why >&2; exit 3")
    assert done.returncode == 3
    assert 'its last line on stderr: "why"; ' in done.stderr.splitlines()[-1]
    assert "why\n" not in done.stderr.splitlines(keepends=True)


def test_what_was_said_until_it_was_stopped_is_kept(run, tmp_path):
    """The run is stopped by Ctrl-C. The files have all that was written until then."""
    job = run(2, "--log-dir", tmp_path, "--tee", "--grace", "10s")
    job.entered()
    job.run.signal(signal.SIGINT)
    assert job.run.wait() == 128 + signal.SIGINT
    for index in (0, 1):
        assert entered(Logs(tmp_path, job.job), index, 0) == ["1"]


@pytest.mark.parametrize("what", ["a file", "below a file", "no folder at all"])
def test_an_unusable_folder_is_refused_before_anything_starts(what, muster, tmp_path):
    """The folder is none, or may not be written. The run prints one line and ends with 125,
    before anything starts."""
    (tmp_path / "file").touch()
    path = {"a file": tmp_path / "file", "below a file": tmp_path / "file/logs",
            "no folder at all": "/proc/none/here"}[what]
    why = "No such file or directory" if what == "no folder at all" else "Not a directory"
    done = muster("run", "--log-dir", path, "--", "touch", tmp_path / "started")
    assert done.returncode == 125
    assert done.stderr == (f"muster run: --log-dir {path}: {why}; name a folder in which this user "
                           "can write\n")
    assert not (tmp_path / "started").exists()


def test_a_folder_of_somebody_else_is_refused(muster, tmp_path, small_disk):  # noqa: F811
    """The folder is none, or may not be written. The run prints one line and ends with 125,
    before anything starts."""
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    done = muster("run", "--log-dir", small_disk, "--", "touch", tmp_path / "started")
    assert done.returncode == 125
    assert "Read-only file system; name a folder in which this user can write" in done.stderr
    assert not (tmp_path / "started").exists()


def test_a_program_that_cannot_be_started_leaves_no_files(muster, tmp_path):
    """The program cannot be started. The run prints one line, and no file has anything in it."""
    broken = tmp_path / "broken"
    broken.write_bytes(b"\0\0\0\0")
    broken.chmod(0o755)
    done = muster("run", "-j", "broken", "--log-dir", tmp_path / "logs", "--", broken)
    assert done.returncode == 126
    assert not [path for path in (tmp_path / "logs").rglob("*") if path.is_file()
                and path.stat().st_size > 0]


def fill_up(disk):
    with open(disk / "filler", "wb", buffering=0) as file, pytest.raises(OSError):
        while True:
            file.write(b"f" * 4096)


def test_a_full_disk_costs_no_rank_its_life(run, tmp_path, small_disk):  # noqa: F811
    """The disk gets full. One line says so; output that has no room comes to the terminal, no
    line is lost or printed twice, and the ranks and their replacements go on."""
    job = run(2, "--log-dir", small_disk)
    logs = Logs(small_disk, job.job)

    def whole(generation):
        """{index: its rank} of a generation, this or a later one, by the files and the terminal."""
        lines = [line for path in logs.folder.rglob("stdout.log") if path.exists()
                 for line in path.read_text().splitlines()]
        found = {}
        for line in lines + job.out.having("entered generation="):
            values = {key: int(value) for key, value in re.findall(r"(\w+)=(\d+)", line)}
            found.setdefault(values["generation"], {})[values["index"]] = values
        return [ranks for number, ranks in found.items() if number >= generation and len(ranks) == 2]

    before = until(lambda: whole(1))[0]
    fill_up(small_disk)
    os.kill(before[1]["pid"], signal.SIGKILL)
    after = until(lambda: whole(2))[-1]
    assert after[0]["pid"] == before[0]["pid"] and after[1]["pid"] != before[1]["pid"]
    job.out.wait_for("[1]: entered generation=")
    job.all_well(after)
    assert job.log.having("No space left on device") == [
        f"muster run: the logs in {logs.folder}: No space left on device; what they do not take "
        "comes here"]


def test_a_folder_that_is_gone_costs_no_rank_its_life(run, tmp_path):
    """The folder is taken away while the run goes on. One line says so; the output of processes
    that are started after that comes to the terminal."""
    job = run(2, "--log-dir", tmp_path / "logs", "--tee")
    victim = job.entered()[1]["pid"]
    (tmp_path / "logs").rename(tmp_path / "moved")
    os.kill(victim, signal.SIGKILL)
    job.log.wait_for(f"muster run: the logs in {tmp_path}/logs/{job.job}: No such file or directory")
    job.all_well(job.entered(2))


def test_files_are_what_the_user_lets_others_read(muster, tmp_path):
    """The user's umask decides whether others may read the files."""
    before = os.umask(0o027)
    try:
        done = muster("run", "-j", "mode", "--log-dir", tmp_path / "logs", "--", "true")
    finally:
        os.umask(before)
    assert done.returncode == 0
    path = tmp_path / "logs/mode/0/0"
    assert stat.S_IMODE(path.stat().st_mode) == 0o750
    assert stat.S_IMODE((path / "stdout.log").stat().st_mode) == 0o640


@several_nodes
def test_nodes_share_a_folder(cluster, tmp_path):  # noqa: F811
    """Several nodes write into one folder. Each index is there once."""
    logs = Logs(tmp_path, "over-all")
    nodes = Nodes(cluster, [RANK], "--log-dir", tmp_path, "--tee",
                  others=("--log-dir", tmp_path, "--tee"))
    ranks = nodes.entered(6)
    nodes.end(ranks)
    assert nodes.codes() == [0, 0, 0], nodes.told()
    assert logs.indices() == list(range(6))
    for index in range(6):
        assert logs.attempts(index) == [0]
        assert f"index={index} pid={ranks[index]['pid']}" in logs.text(index, 0)

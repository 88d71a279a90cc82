# SPDX-License-Identifier: Apache-2.0
"""What users of torchrun, mpirun and srun type: `muster run` does it, or says with which flag it does.

behaviour: run / Flags of other launchers
"""

import os
import re

import pytest

from conftest import ROOT

TABLE = ROOT / "src" / "cli" / "synonyms.def"
ROW = re.compile(r'^X\("([\w ]+)", ([01]), (\w+), "(.*)"\)$', re.M)
ROWS = [(name, int(takes), meaning, text)
        for names, takes, meaning, text in ROW.findall(TABLE.read_text()) for name in names.split()]
SYNONYMS = {"--" + name.replace("_", "-") for name, *_ in ROWS}
VALUES = {"EXPORT": "A=1", "STREAMS": "3", "SAME": "1"}


def typed(name):
    return ("-" if len(name) == 1 else "--") + name.replace("_", "-")


def ranks(done):
    """How many ranks said 'up'."""
    assert done.returncode == 0, done.stderr
    return len([line for line in done.stdout.splitlines() if line.endswith("]: up")])


@pytest.mark.parametrize("flags, count", [
    (["-np", 3], 3), (["--np=3"], 3), (["--ntasks-per-node", 2], 2), (["-ppn", 2], 2),
    (["--standalone", "--nproc-per-node", 2], 2), (["--standalone", "--nproc_per_node=2"], 2),
    (["--nodes=1", "-n2"], 2), (["--no-python", "--start-method", "fork", "--monitor-interval=0.1"], 1),
    (["--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0", "--rdzv-conf", "timeout=3"], 1),
    (["--master-addr", "127.0.0.1", "--master-port=29500", "--node-rank=0", "--nnodes=1"], 1),
    (["--tee", 3], 1), (["-t", 3, "--tee=0"], 1), (["--allow-run-as-root", "--oversubscribe", "--tag-output"], 1),
])
def test_flags_of_other_launchers_are_accepted(muster, flags, count):
    """Flags of torchrun, mpirun and srun are typed that mean what `muster run` does. They are accepted."""
    assert ranks(muster("run", *flags, "--", "sh", "-c", "echo up")) == count


def test_the_name_of_the_run_is_the_job(muster):
    """`--rdzv-id` and srun's `--job-name` name the job, `--role` is ROLE_NAME."""
    script = ("sh", "-c", "echo $MUSTER_JOB $ROLE_NAME")
    assert muster("run", "--rdzv-id", "a", "--role=worker", "--", *script).stdout == "[0]: a worker\n"
    assert muster("run", "-J", "b", "--", *script).stdout == "[0]: b default\n"


@pytest.mark.parametrize("name, takes, meaning, text", [row for row in ROWS if row[2] in ("ANSWER", "ALONE")])
def test_what_is_done_otherwise_is_answered(muster, name, takes, meaning, text):
    """A flag of another launcher is typed that does something else here, or nothing on several nodes. The answer
    is one line, which names what does it, and exit code 2."""
    several = ["--nnodes", 2] if meaning == "ALONE" else []
    done = muster("run", *several, typed(name), *["x"] * takes, "--", "true")
    assert done.returncode == 2
    assert done.stderr == f"muster run: {typed(name)}: {text}\n"


@pytest.mark.parametrize("name, takes, meaning, text", [row for row in ROWS if row[2] not in ("ANSWER", "ALONE")])
def test_every_row_of_the_table_is_taken(muster, tmp_path, name, takes, meaning, text):
    """Each flag of the table is accepted, with its value behind it or behind a "="; without its value it is one
    line."""
    hosts = tmp_path / "hosts"
    hosts.write_text("localhost\n")
    value = hosts if text == "hostfile" else VALUES.get(meaning, "x")
    ends = ("--log-dir", tmp_path, "--", "true")
    assert muster("run", typed(name), *[value] * takes, *ends).returncode == 0
    if takes:
        assert muster("run", f"{typed(name)}={value}", *ends).returncode == 0
        done = muster("run", typed(name))
        assert done.returncode == 2
        assert done.stderr.count("\n") == 1


def test_a_variable_of_the_ranks_is_set(muster, env):
    """mpirun's `-x` sets variables of the ranks, or names one that they inherit. One that is not set is warned of;
    what is no name is refused."""
    env["INHERITED"] = "i"
    done = muster("run", "-x", "A=1", "-x", "B=two words", "-x", "INHERITED", "--", "sh", "-c",
                  'echo "$A,$B,$INHERITED"')
    assert (done.stdout, done.stderr) == ("[0]: 1,two words,i\n", "")
    done = muster("run", "-x", "NOT_SET", "--", "true")
    assert (done.returncode, done.stderr) == (0, "muster run: -x NOT_SET: no such variable is set\n")
    done = muster("run", "-x", "1A=2", "--", "true")
    assert (done.returncode, done.stderr) == (2, "muster run: -x 1A=2: NAME or NAME=VALUE is expected\n")


def test_streams_go_where_torchrun_sends_them(muster, tmp_path):
    """torchrun's `--redirects 3` writes the output to the files of `--log-dir`, and `--tee 3` also to the terminal. A
    single stream, or one of some ranks, is answered; so is a missing folder."""
    script = ("--", "sh", "-c", "echo out; echo err >&2")
    log = tmp_path / "one" / "0" / "0"
    done = muster("run", "-j", "one", "--log-dir", tmp_path, "--redirects", 3, *script)
    assert done.stdout == "" and (log / "stdout.log").read_text() == "out\n"
    done = muster("run", "-j", "two", "--log-dir", tmp_path, "-r", 3, "-t", 3, *script)
    assert done.stdout == "[0]: out\n" and "[0]: err" in done.stderr.splitlines()
    for flags, words in ((["--redirects", 3], "--redirects: the folder"), (["--tee", 1], "--tee 1: both streams"),
                         (["--tee=0:1,1:3"], "--tee 0:1,1:3: both streams"), (["-t", "all"], "-t all: 3 is")):
        done = muster("run", *flags, *script)
        assert done.returncode == 2 and done.stderr.startswith(f"muster run: {words}"), done.stderr
    done = muster("run", "--tee", *script)  # of ours, as ever
    assert done.returncode == 2 and "--log-dir FOLDER" in done.stderr


def test_a_rank_for_each_processor(muster, env):
    """`--nproc-per-node cpu` starts a rank for each CPU that the run may use, `auto` one for each GPU or else for each
    CPU; `gpu` without a GPU, and other words, are one line. PET_NPROC_PER_NODE is read alike."""
    script = ("--", "sh", "-c", "echo up")
    one = {min(os.sched_getaffinity(0))}
    done = muster("run", "--nproc-per-node", "cpu", *script, preexec_fn=lambda: os.sched_setaffinity(0, one))
    assert ranks(done) == 1
    assert ranks(muster("run", "--nproc-per-node", "cpu", *script)) == len(os.sched_getaffinity(0))
    env["CUDA_VISIBLE_DEVICES"] = env["ROCR_VISIBLE_DEVICES"] = ""  # on a machine that has some
    assert ranks(muster("run", "--nproc-per-node=auto", *script)) == len(os.sched_getaffinity(0))
    done = muster("run", "--nproc-per-node", "gpu", *script)
    assert done.returncode == 2 and "there is no GPU here" in done.stderr and done.stderr.count("\n") == 1
    for wrong in ("many", "0", "65537", "2x", "-1"):
        done = muster("run", f"--nproc-per-node={wrong}", *script)
        assert done.returncode == 2 and done.stderr.count("\n") == 1, wrong
        assert "expected a number from 1 to 65536, cpu, gpu or auto" in done.stderr
    env["PET_NPROC_PER_NODE"] = "cpu"
    assert ranks(muster("run", *script)) == len(os.sched_getaffinity(0))


def test_a_script_needs_no_interpreter(muster, tmp_path, monkeypatch):
    """A Python script is named without its interpreter, or a module with `-m`. python3 runs it, unbuffered; the job is
    called after the script. A script that names its interpreter and is executable is run by that."""
    (tmp_path / "train.py").write_text("import os, sys\nprint(sys.argv, __name__, sys.stdout.write_through, "
                                       "os.environ['MUSTER_JOB'])\n")
    own = tmp_path / "own.py"
    own.write_text("#!/bin/sh\necho shell $1\n")
    own.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    done = muster("run", "train.py", "--steps", 3)
    assert re.fullmatch(r"\[0\]: \['train.py', '--steps', '3'\] __main__ True train-py-\d+\n", done.stdout), done.stdout
    done = muster("run", "-m", "train", "x")
    assert re.fullmatch(rf"\[0\]: \['{re.escape(str(tmp_path))}/train.py', 'x'\] __main__ True train-\d+\n", done.stdout)
    assert muster("run", "--", "./own.py", "y").stdout == "[0]: shell y\n"
    done = muster("run", "no.py")
    assert (done.returncode, done.stderr) == (127, "muster run: 'no.py' is not found in PATH\n")


def test_the_interpreter_is_the_one_of_torchrun(muster, env, tmp_path):
    """PYTHON_EXEC names another interpreter, as for torchrun. Where there is none at all, one line says so."""
    script = tmp_path / "a.py"
    script.write_text("")
    env["PYTHON_EXEC"] = "echo"
    assert muster("run", "--", script, "b").stdout == f"[0]: -u {script} b\n"
    del env["PYTHON_EXEC"]
    env["PATH"] = str(tmp_path)
    done = muster("run", "--", script)
    assert (done.returncode, done.stderr) == (127, f"muster run: '{script}' is Python, and python3 is not found in PATH\n")


def test_the_page_has_every_flag():
    """docs/coming-from.md is read by a user of another launcher. It has every flag that is accepted or answered."""
    page = (ROOT / "docs" / "coming-from.md").read_text()
    missing = [typed(name) for name, *_ in ROWS if f"`{typed(name)}" not in page]
    assert missing == []

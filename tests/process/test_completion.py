# SPDX-License-Identifier: Apache-2.0
"""What the shells offer when Tab is pressed: real ones, with what `muster completion` prints for them.

behaviour: install / Completion
"""

import os
import pty
import re
import select
import shutil
import signal
import subprocess
import time

import pytest

from conftest import MUSTER, WAIT_S
from wire import Wire

needs_fish = pytest.mark.skipif(
    not shutil.which("fish"), reason="fish is not installed: tools/deps --test"
)
needs_zsh = pytest.mark.skipif(
    not shutil.which("zsh"), reason="zsh is not installed: tools/deps --test"
)


def takes_its_time():
    """A machine that is busy is no service that does not answer: what is started has no limit."""
    signal.signal(signal.SIGALRM, signal.SIG_IGN)


@pytest.fixture
def path(env):
    """The program is in the PATH, as for who types `muster`."""
    return {**env, "PATH": f"{MUSTER.parent}:{env['PATH']}"}


@pytest.fixture
def offered(muster):
    """offered(words...): what can stand in the place of the last one."""

    def ask(*words, shell="bash", **options):
        done = muster("completion", shell, *words, preexec_fn=takes_its_time, **options)
        assert done.returncode == 0 and done.stderr == ""
        return done.stdout.splitlines()

    return ask


def flags_of(muster, command):
    said = muster(command, "--help").stdout
    flags = re.findall(r"^  (?:-\w,|   ) (--[\w-]+)", said, re.M)
    # In the help a line may be broken behind the dashes.
    return set(flags) | {f"--no-{one}" for one in re.findall(r"--no-([\w-]+)", said)}


def commands_of(muster):
    return re.findall(r"^  (\w+)  ", muster("--help").stdout, re.M)


def test_commands_and_flags_are_those_of_the_help(muster, offered):
    """Completion offers commands and flags. They are those of the help."""
    names = commands_of(muster)
    assert offered("") == names
    assert offered("sta") == ["status"] and offered("nothing-begins-so") == []
    assert offered("-") == ["--help", "--version"]
    for name in names:
        assert set(offered(name, "-")) == flags_of(muster, name)
        assert {line.split("\t")[0] for line in offered(name, "--", shell="fish")} == flags_of(
            muster, name
        )


def test_values(offered):
    """Completion offers the value of a flag: the words of a choice; a file or a folder where it
    is one; else nothing."""
    assert offered("run", "--grow", "") == ["check", "fault", "off"]
    assert offered("run", "--grow=f") == ["--grow=fault"]
    assert offered("run", "--secret-file", "/etc/") == [":files"]
    assert offered("serve", "--journal", "") == [":folders"]
    # A number, a text: nothing that could be offered.
    assert offered("run", "-n", "") == [] and offered("run", "--max-restarts", "") == []
    # Behind the value it is a flag's turn again.
    assert "--spares" in offered("run", "-n", "4", "--s") and "--json" in offered("status", "")


def test_arguments_are_those_of_the_usage_line(offered):
    """Completion offers arguments as the command's usage line has them; behind the program of
    `muster run` nothing is a flag of muster."""
    assert offered("completion", "") == ["bash", "zsh", "fish"]
    assert "kill" in offered("chaos", "")
    assert {"get", "put", "watch"} <= set(offered("key", "")) and offered("key", "ap") == ["append"]
    assert offered("run", "") == [":commands"] and offered("run", "-n", "2", "--", "") == [":commands"]
    # The program's own words are no flags of ours.
    assert offered("run", "--", "prog", "--spa") == [":files"]
    assert offered("run", "prog", "--spa") == [":files"]
    # Behind two dashes nothing is a flag.
    assert "--raw" in offered("key", "put", "-") and offered("key", "--", "put", "-") == []
    assert offered("no-such", "") == []


def test_what_runs_here_is_offered(serve, muster, offered):
    """A job runs here. Its name, its keys and the indices of its living ranks are offered; a key
    whose name a shell would read otherwise than it stands is not."""
    service = serve("--job", "training")
    serve("--job", "other")
    for key in ("phase", "a/b:c", "$(touch x)", "with blank"):
        assert muster("key", "put", key, "1", "-j", "training").returncode == 0
    assert offered("key", "-j", "tr") == ["training"]
    assert offered("status", "--job", "") == ["other", "training"]
    # A word that a shell would not take as it stands is not offered.
    assert offered("key", "-j", "training", "get", "") == ["a/b:c", "phase"]
    assert offered("key", "-j", "training", "del", "phase", "a") == ["a/b:c"]
    # Where nothing can be said of an argument, flags can still come.
    assert set(offered("key", "-j", "training", "put", "phase", "")) == flags_of(muster, "key")
    wire = Wire(service.address)
    wire.open_rank(3, 4, job="training")
    assert offered("chaos", "-j", "training", "kill", "") == ["3"]
    assert "--job" in offered("chaos", "kill", "")  # which of the two is not said
    wire.close()


def test_a_service_that_does_not_answer_costs_a_second(serve, muster):
    """The service of a job does not answer a completion. Nothing is offered, after a second."""
    service = serve()
    service.signal(signal.SIGSTOP)
    done = muster("completion", "bash", "key", "get", "")
    assert done.stdout == "" and done.stderr == ""
    assert done.returncode == -signal.SIGALRM  # and not of its own, later
    service.signal(signal.SIGCONT)


def test_wrong_words(muster):
    """`muster completion` names a shell that is none of the three. It prints one line and ends
    with 2."""
    for words in ([], ["tcsh"]):
        done = muster("completion", *words)
        assert done.returncode == 2 and done.stdout == ""
        assert done.stderr == (
            "muster completion: a shell is missing; usage: muster completion bash|zsh|fish\n"
        )


class Terminal:
    """A shell at a terminal of its own."""

    def __init__(self, argv, env):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            takes_its_time()
            os.execvpe(argv[0], argv, {**env, "TERM": "dumb", "PS1": "READY> ", "PROMPT": "READY> "})
        self.wait_for("READY> ")

    def wait_for(self, text):
        said, deadline = "", time.monotonic() + WAIT_S
        while text not in said:
            ready = select.select([self.fd], [], [], max(0, deadline - time.monotonic()))[0]
            assert ready, f"no {text!r} in {said!r}"
            said += os.read(self.fd, 4096).decode(errors="replace").replace("\a", "")
        return said

    def types(self, keys, text):
        os.write(self.fd, keys.encode())
        return self.wait_for(text)

    def runs(self, command):
        """To its end: the word is typed otherwise than it is said."""
        self.types(f'{command}; echo "DO"NE\r', "DONE\r\n")

    def close(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.fd)


CLEAR = "\x15"  # Ctrl-U


def presses_tab(terminal, folder, serve, muster):
    serve("--job", "training")
    assert muster("key", "put", "a/b:c", "1").returncode == 0
    (folder / "the-secret").touch()
    terminal.types("muster sta\t", "muster status ")
    terminal.types(CLEAR + "muster run --sp\t", "muster run --spares ")
    terminal.types(CLEAR + "muster run --grow=f\t", "--grow=fault ")
    terminal.types(CLEAR + "muster status -j tr\t", "training ")
    terminal.types(CLEAR + "muster key get a/b:\t", "a/b:c ")
    terminal.types(CLEAR + f"muster run --secret-file {folder}/the-\t", "the-secret ")
    terminal.types(CLEAR + f"muster run --secret-file={folder}/the-\t", "the-secret ")
    terminal.types(CLEAR + "muster run -n 2 -- mkfif\t", "mkfifo ")


def test_bash(path, tmp_path, serve, muster):
    """Tab is pressed in bash, zsh or fish. Commands, flags, their values, files, jobs and keys
    are completed, also behind `=` and `:`."""
    terminal = Terminal(["bash", "--norc", "--noprofile", "-i"], path)
    try:
        terminal.runs("source <(muster completion bash)")
        presses_tab(terminal, tmp_path, serve, muster)
    finally:
        terminal.close()


@needs_zsh
def test_zsh(path, tmp_path, serve, muster):
    """Tab is pressed in bash, zsh or fish. Commands, flags, their values, files, jobs and keys
    are completed, also behind `=` and `:`."""
    terminal = Terminal(["zsh", "-f", "-i"], path)
    try:
        terminal.runs(f"autoload -Uz compinit; compinit -u -d {tmp_path}/dump")
        terminal.runs("source <(muster completion zsh)")
        presses_tab(terminal, tmp_path, serve, muster)
    finally:
        terminal.close()


@needs_zsh
def test_zsh_finds_the_file_by_its_name(path, tmp_path, muster):
    """The shells' completion files are installed where they look. They are what `muster
    completion` prints, and zsh takes its one by name."""
    (tmp_path / "_muster").write_text(muster("completion", "zsh").stdout)
    terminal = Terminal(["zsh", "-f", "-i"], path)
    try:
        terminal.runs(f"fpath+=({tmp_path}); autoload -Uz compinit; compinit -u -d {tmp_path}/dump")
        terminal.types("muster sta\t", "muster status ")
    finally:
        terminal.close()


@needs_fish
def test_fish(path, tmp_path, serve, muster):
    """Tab is pressed in bash, zsh or fish. Commands, flags, their values, files, jobs and keys
    are completed, also behind `=` and `:`."""
    serve("--job", "training")
    assert muster("key", "put", "a/b:c", "1").returncode == 0
    (tmp_path / "the-secret").touch()
    (tmp_path / "the-folder").mkdir()
    (tmp_path / "muster.fish").write_text(muster("completion", "fish").stdout)

    def offered(line):
        done = subprocess.run(
            ["fish", "-N", "-c", f"source {tmp_path}/muster.fish; complete -C {line!r}"],
            env={**path, "HOME": str(tmp_path)}, capture_output=True, text=True,
            preexec_fn=takes_its_time,
        )
        assert done.returncode == 0 and done.stderr == ""
        return [one.split("\t")[0] for one in done.stdout.splitlines()]

    assert offered("muster sta") == ["status"]
    assert offered("muster run --sp") == ["--spares"]
    assert offered("muster run --grow=f") == ["--grow=fault"]
    assert offered("muster run --grow ") == ["check", "fault", "off"]
    assert offered("muster status -j ") == ["training"]
    assert offered("muster key get ") == ["a/b:c"]
    assert offered(f"muster run --secret-file {tmp_path}/the-s") == [f"{tmp_path}/the-secret"]
    assert offered(f"muster run --secret-file={tmp_path}/the-s") == [
        f"--secret-file={tmp_path}/the-secret"
    ]
    assert offered(f"muster serve --journal {tmp_path}/the-") == [f"{tmp_path}/the-folder/"]
    assert "env" in offered("muster run -n 2 -- env")

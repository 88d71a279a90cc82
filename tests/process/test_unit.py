# SPDX-License-Identifier: Apache-2.0
"""The service under a service manager: what it reports to one's socket, its credentials, and the unit file.

behaviour: service / Under a service manager
"""

import contextlib
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess

import pytest

from conftest import MUSTER, ROOT, WAIT_S, sanitized
from wire import OK

UNIT = ROOT / "packaging/systemd/muster.service"


@contextlib.contextmanager
def manager(address):
    """The socket of a service manager, bound to a path, or with @ to a name."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(address.replace("@", "\0", 1))
        sock.settimeout(WAIT_S)
        yield sock


def reported(sock):
    return dict(line.split("=", 1) for line in sock.recv(4096).decode().splitlines())


@pytest.mark.parametrize("kind", ["path", "name"])
def test_a_service_manager_is_told_begin_and_end(serve, env, tmp_path, kind):
    """A service manager starts the service, with its socket in `NOTIFY_SOCKET`, a path or an abstract name. The
    service reports that it is ready when clients can connect, with its address, and that it stops, with why."""
    address = str(tmp_path / "notify") if kind == "path" else f"@muster-test-{os.getpid()}"
    with manager(address) as sock:
        service = serve(env={**env, "NOTIFY_SOCKET": address})
        said = reported(sock)
        assert said["READY"] == "1"
        assert said["STATUS"].startswith("serving on unix:/")
        assert service.wire().put("k", b"v").status == OK
        service.signal(signal.SIGTERM)
        assert reported(sock) == {"STOPPING": "1", "STATUS": "stopping: SIGTERM"}
        service.wait()


def test_ready_comes_after_the_recovery(serve, env, tmp_path):
    """The service has a journal to recover. It reports that it is ready when it has."""
    address, journal = str(tmp_path / "notify"), str(tmp_path / "journal")
    first = serve("--journal", journal)
    assert first.wire().put("k", b"kept").status == OK
    first.kill()
    with manager(address) as sock:
        second = serve("--journal", journal, env={**env, "NOTIFY_SOCKET": address})
        assert reported(sock)["READY"] == "1"
        second.log.wait_for("journal-recovered")
        assert second.wire().get("k").value == b"kept"


def test_a_manager_that_does_not_listen_is_logged(serve, env, tmp_path):
    """`NOTIFY_SOCKET` names a socket that is not there, or no socket at all. The service serves, and one line of
    its log names it and the reason."""
    service = serve(env={**env, "NOTIFY_SOCKET": str(tmp_path / "none")})
    service.log.wait_for("notify-failed", f"socket={tmp_path}/none", 'reason="No such file or directory"')
    assert service.wire().put("k", b"v").status == OK
    service = serve("--job", "other", env={**env, "NOTIFY_SOCKET": "vsock:1:2"})
    service.log.wait_for("notify-failed", "socket=vsock:1:2", 'reason="Invalid argument"')


def test_the_service_of_a_run_reports_nothing(env, tmp_path, spawn):
    """A service manager starts `muster run`, which starts a service. That one is not what the manager waits for:
    it reports nothing."""
    with manager(str(tmp_path / "notify")) as sock:
        run = spawn("run", "-n", "1", "--", "true", env={**env, "NOTIFY_SOCKET": str(tmp_path / "notify")})
        assert run.wait() == 0
        sock.setblocking(False)
        with pytest.raises(BlockingIOError):
            sock.recv(4096)


def settings():
    """[(name, value)] of the unit."""
    return re.findall(r"^(\w+)=(.*)$", UNIT.read_text(), re.M)


def test_the_unit_starts_the_service(spawn, env, tmp_path):
    """The unit's command line is run with the folders that systemd gives it, as systemd takes it apart: the
    service takes the secret from the credentials, reports that it is ready, and keeps its journal in the state
    folder."""
    folders = {"CREDENTIALS_DIRECTORY": tmp_path / "credentials", "STATE_DIRECTORY": tmp_path / "state"}
    for folder in folders.values():
        folder.mkdir()
    secret = folders["CREDENTIALS_DIRECTORY"] / "secret"
    secret.write_text("5" * 64)
    secret.chmod(0o400)
    (line,) = [value for name, value in settings() if name == "ExecStart"]
    for name, folder in folders.items():
        line = line.replace(f"${{{name}}}", str(folder))
    words = shlex.split(re.sub(r":77(77|80)\b", ":0", line.replace("0.0.0.0", "127.0.0.1")))
    assert words[0] == "/usr/bin/muster"
    with manager(str(tmp_path / "notify")) as sock:
        service = spawn(*words[1:],
                        env={**env, "NOTIFY_SOCKET": str(tmp_path / "notify"), **{k: str(v) for k, v in folders.items()}})
        said = reported(sock)
        assert said["READY"] == "1" and said["STATUS"].startswith("serving on 127.0.0.1:")
        status = subprocess.run(
            [MUSTER, "status", "--addr", said["STATUS"].split()[-1], "--secret-file", secret],
            env=env, capture_output=True, text=True, timeout=WAIT_S)
        assert status.returncode == 0, status.stderr
        assert list((folders["STATE_DIRECTORY"] / "journal").iterdir())
        service.signal(signal.SIGTERM)
        assert service.wait() == 0


def test_systemd_takes_the_unit(tmp_path):
    """The unit is read by `systemd-analyze`. Nothing in it is unknown, and its exposure is low."""
    if not shutil.which("systemd-analyze"):
        pytest.skip("systemd-analyze is not installed")
    there = tmp_path / "muster.service"
    text = UNIT.read_text().replace("/usr/bin/muster", str(MUSTER))
    there.write_text(re.sub(r"^Documentation=.*\n", "", text, flags=re.M))
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", there], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    done = subprocess.run(["systemd-analyze", "security", "--offline=true", "--threshold=15", "--no-pager", there],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-300:]


# A machine that boots has nothing but /usr of this one. What it would do about its network and its disks is left out.
BOOT = ("systemd-nspawn", "--quiet", "--directory=/", "--volatile=yes", "--private-network", "--register=no",
        "--keep-unit", "--console=read-only", "--boot")
LEFT_OUT = ("nftables", "systemd-networkd", "systemd-networkd-wait-online")
WORDS = ["systemd.unit=story.service", "systemd.firstboot=off", *(f"systemd.mask={unit}.service" for unit in LEFT_OUT)]

STORY = """[Service]
Type=oneshot
ExecStart=/bin/sh -c "/bin/sh /story/told >/story/said 2>&1"
ExecStopPost=/bin/systemctl poweroff --force
"""
TOLD = """
export MUSTER_ADDR=127.0.0.1:7777 MUSTER_SECRET_FILE=/etc/muster/secret
shows() { systemctl show muster --property "$1"; }
touch /story/booted
systemctl start muster || journalctl --unit muster --no-pager
shows StatusText
pid=$(systemctl show muster --property MainPID --value)
grep -e CapEff -e NoNewPrivs "/proc/$pid/status"
/opt/muster key put k kept --job j
kill -9 "$pid"
/opt/muster key get k --job j
shows NRestarts
systemctl stop muster
shows Result
"""


def test_systemd_starts_the_unit_and_starts_it_again(tmp_path):
    """A real systemd starts the unit, in a container. The service reports what it serves, and has no capability. It is
    killed: systemd starts it again, and what was written is there. It is stopped, and ends well."""
    if not shutil.which(BOOT[0]) or os.geteuid() != 0 or sanitized():
        pytest.skip("systemd-nspawn (tools/deps --test) boots for root, and the unit's sandbox is for no sanitizer")
    story, unit, secret = tmp_path / "story", tmp_path / "muster.service", tmp_path / "secret"
    story.mkdir()
    (story / "told").write_text(TOLD)
    (tmp_path / "story.service").write_text(STORY)
    unit.write_text(UNIT.read_text().replace("/usr/bin/muster", "/opt/muster"))
    secret.write_text("5" * 64)
    secret.chmod(0o400)
    there = {MUSTER: "/opt/muster", secret: "/etc/muster/secret", unit: "/etc/systemd/system/muster.service",
             tmp_path / "story.service": "/etc/systemd/system/story.service"}
    done = subprocess.run(
        [*BOOT, f"--bind={story}:/story", *(f"--bind-ro={here}:{at}" for here, at in there.items()),
         *WORDS],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
        timeout=2 * WAIT_S, check=False)
    if not (story / "booted").exists():
        pytest.skip(f"systemd does not boot here: {done.stdout.strip()[-200:]}")
    assert (story / "said").read_text().splitlines() == [
        "StatusText=serving on 0.0.0.0:7777", "CapEff:\t0000000000000000", "NoNewPrivs:\t1", "kept", "NRestarts=1",
        "Result=success"]

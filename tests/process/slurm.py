# SPDX-License-Identifier: Apache-2.0
"""A cluster of Slurm in one directory: munged, slurmctld and several slurmd of this machine, which
take themselves for nodes. Nothing of the system's own configuration is read or changed."""

import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import time

from conftest import NO_LEAKS, free_port

WAIT_S = 60
PATH = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"

CONFIG = """\
ClusterName=muster
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ctld_port}
AuthType=auth/munge
AuthInfo=socket={dir}/munge.sock{auth}
CredType=cred/munge
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
SlurmUser=root
SlurmdUser=root
ReturnToService=2
KillWait=30
StateSaveLocation={dir}/state
SlurmdSpoolDir={dir}/spool-%n
SlurmctldPidFile={dir}/slurmctld.pid
SlurmdPidFile={dir}/slurmd-%n.pid
SlurmctldLogFile={dir}/slurmctld.log
SlurmdLogFile={dir}/slurmd-%n.log
{nodes}
{partitions}
"""
ONE_PARTITION = "PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=YES"


def program(name):
    return shutil.which(name, path=PATH)


def reason_not_to_run():
    """Why there can be no cluster here; None: there can."""
    if os.geteuid() != 0:
        return "slurmd runs as root only"
    for name in ("munged", "slurmctld", "slurmd", "srun", "sbatch", "scontrol"):
        if not program(name):
            return f"{name} is not installed"
    if not os.path.ismount("/sys/fs/cgroup"):
        return "slurmd wants control groups, and none are mounted at /sys/fs/cgroup"
    return None


class Cluster:
    def __init__(self, names, cpus=8, partitions=ONE_PARTITION, auth=""):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="mst-slurm-", dir="/tmp"))
        self.names = names
        self.processes = []
        os.chmod(self.dir, 0o755)
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("MUSTER_", "SLURM"))}
        # Whoever gets a signal of Slurm gets SIGCONT as well.
        self.env.update(NO_LEAKS, PATH=PATH, SLURM_CONF=str(self.dir / "slurm.conf"))
        try:
            self._configure(cpus, partitions, auth)
            self._start()
        except BaseException:
            self.stop()
            raise

    def _configure(self, cpus, partitions, auth):
        ports = set()
        while len(ports) <= len(self.names):
            ports.add(free_port())
        ports = list(ports)
        nodes = "\n".join(
            f"NodeName={name} NodeHostname={socket.gethostname()} NodeAddr=127.0.0.1 Port={port} "
            f"CPUs={cpus} State=UNKNOWN"
            for name, port in zip(self.names, ports[1:])
        )
        (self.dir / "state").mkdir()
        (self.dir / "slurm.conf").write_text(
            CONFIG.format(
                host=socket.gethostname(), ctld_port=ports[0], dir=self.dir, nodes=nodes,
                partitions=partitions, auth=auth,
            )
        )
        key = self.dir / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)

    def _daemon(self, name, *args):
        log = open(self.dir / f"{name}.out", "ab")
        process = subprocess.Popen(
            [program(name), *map(str, args)],
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        log.close()
        self.processes.append(process)
        return process

    def _wait(self, ready, what):
        deadline = time.monotonic() + WAIT_S
        while not ready():
            ended = [p.args[0] for p in self.processes if p.poll() is not None]
            assert not ended, f"{ended} ended while waiting for {what}:\n{self.logs()}"
            assert time.monotonic() < deadline, f"no {what}:\n{self.logs()}"
            self.rest()

    def rest(self):
        """A moment: Slurm has to be asked again and again."""
        try:
            self.processes[-1].wait(0.05)
        except subprocess.TimeoutExpired:
            pass

    def _start(self):
        own = self.dir
        self._daemon(
            "munged", "-F", "--force", f"--key-file={own}/munge.key", f"--socket={own}/munge.sock",
            f"--pid-file={own}/munged.pid", f"--log-file={own}/munged.log",
            f"--seed-file={own}/munged.seed",
        )
        self._wait((own / "munge.sock").exists, "munge.sock")
        self._daemon("slurmctld", "-D", "-c", "-f", own / "slurm.conf")
        for name in self.names:
            self._daemon("slurmd", "-D", "-N", name, "-f", own / "slurm.conf")
        self._wait(self._idle, "idle node")

    def _idle(self):
        done = subprocess.run(
            [program("sinfo"), "-h", "-N", "-o", "%N %T"], env=self.env, capture_output=True, text=True
        )
        # Each node once for each of its partitions.
        return set(done.stdout.splitlines()) == {f"{name} idle" for name in self.names}

    def run(self, *args, env=None, timeout=WAIT_S):
        """srun, with what it says."""
        return subprocess.run(
            [program("srun"), *map(str, args)],
            env={**self.env, **(env or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
        )

    def srun(self, *args):
        """The words of a step that is started beside the test."""
        return [program("srun"), *map(str, args)]

    def steps(self):
        """The ids of all that runs, as scancel takes them."""
        done = subprocess.run(
            [program("squeue"), "-h", "-s", "-o", "%i"], env=self.env, capture_output=True,
            text=True, check=True
        )  # fmt: skip
        return [step for step in done.stdout.split() if not step.endswith((".batch", ".extern"))]

    def cancel(self, step):
        subprocess.run([program("scancel"), step], env=self.env, check=True)

    def batch(self, script, *args, env=None, timeout=WAIT_S):
        """sbatch of a script's text, until it has ended; what it said, and its exit code."""
        path = self.dir / "script.sh"
        path.write_text("#!/bin/bash\n" + script)
        out = self.dir / "script.out"
        done = subprocess.run(
            [program("sbatch"), "--wait", "-o", str(out), *map(str, args), str(path)],
            env={**self.env, **(env or {})},
            capture_output=True,
            text=True,
            timeout=timeout,
        )
        return out.read_text() if out.exists() else done.stderr, done.returncode

    def job(self, number):
        """What scontrol says of a job: {name: value}."""
        done = subprocess.run(
            [program("scontrol"), "-o", "show", "job", number], env=self.env, capture_output=True,
            text=True,
        )
        return dict(word.split("=", 1) for word in done.stdout.split() if "=" in word)

    def logs(self):
        text = ""
        for path in sorted(self.dir.glob("*.log")) + sorted(self.dir.glob("*.out")):
            lines = path.read_text(errors="replace").splitlines()[-15:]
            text += f"--- {path.name}\n" + "\n".join(lines) + "\n"
        return text

    def stop(self):
        for process in reversed(self.processes):
            if process.poll() is None:
                process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        shutil.rmtree(self.dir, ignore_errors=True)

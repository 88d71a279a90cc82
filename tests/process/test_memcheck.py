# SPDX-License-Identifier: Apache-2.0
"""A whole job under valgrind: nothing is read that was not written, and what a process had it gives
back. Only the preset `valgrind` runs this.

behaviour: fuzzing / Fuzzing, races, leaks
"""

import pathlib
import re
import subprocess

from conftest import BUILD, MUSTER, ROOT

RANKS = 3
ENTER_S = 120  # several processes of an instruction-by-instruction machine share the CPUs
RESPAWN = BUILD / "bin" / "restart_respawn"


class Checked:
    """A process under valgrind, and what that says about it and about those that it starts."""

    def __init__(self, folder, env, name, *command):
        self.logs = folder
        self.name = name
        self.process = subprocess.Popen(
            [ROOT / "tools" / "memcheck", "--trace-children=yes", "--leak-check=full",
             f"--log-file={folder}/{name}.%p", *map(str, command)],
            env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )

    def end(self):
        said, _ = self.process.communicate(timeout=ENTER_S)
        return self.process.returncode, said

    def findings(self):
        """Errors and lost memory of the process and of all that it started."""
        return {
            path.name: path.read_text()
            for path in pathlib.Path(self.logs).glob(f"{self.name}.*")
            if re.search(r"definitely lost|indirectly lost in|Invalid |uninitialised|Syscall param",
                         path.read_text())
        }

    def opened(self):
        """The descriptors that the process itself opened and did not close."""
        text = (pathlib.Path(self.logs) / f"{self.name}.{self.process.pid}").read_text()
        found = re.findall(r"Open (?:file descriptor|AF_\w+ socket) \d+:.*\n==\d+== +(\S.*)", text)
        return [where for where in found if "inherited" not in where]


def test_a_restart_leaves_no_memory_and_no_descriptor(env, tmp_path):
    """A whole job runs and restarts under valgrind: the service, three ranks and their helpers;
    one rank is killed and starts again. There is no wrong access, no lost memory, no
    descriptor left, in the service and in the ranks."""
    env["MUSTER_PROGRAM"] = str(MUSTER)
    address = f"unix:{env['MUSTER_RUNTIME_DIR']}/checked"
    # Here all takes long.
    service = Checked(tmp_path, env, "serve", MUSTER, "serve", "--addr", address, "--lease", "60s")
    assert service.process.stdout.readline().startswith("muster: serving on ")
    env.update(MUSTER_ADDR=address, MUSTER_SIZE=str(RANKS))
    started = [
        Checked(tmp_path, {**env, "MUSTER_INDEX": str(index)}, f"rank{index}", RESPAWN)
        for index in range(RANKS)
    ]
    code, _ = started[2].end()
    assert code == -9
    started[2] = Checked(tmp_path, {**env, "MUSTER_INDEX": "2"}, "again2", RESPAWN)
    for rank in started:
        code, said = rank.end()
        assert code == 0, said
        assert rank.findings() == {}
        assert rank.opened() == []
    service.process.terminate()
    code, said = service.end()
    assert code == 0, said
    assert service.findings() == {}
    assert service.opened() == []

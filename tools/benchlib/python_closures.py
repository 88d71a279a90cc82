# SPDX-License-Identifier: Apache-2.0
"""Closures in Python beside tasks of Dask and closures of TensorFlow's ClusterCoordinator: how many per
second, how long one takes, and how soon another worker has that of a killed one."""
import os
import pathlib
import subprocess

from .closures import DASK_PATIENCE_S, WORKERS
from .figures import Bar, Measure, Pair
from .programs import measure, only
from .run import Skipped

HERE = pathlib.Path(__file__).parent
PYTHON = "/usr/bin/python3"  # Debian's has Dask, and the package was built for it
BAR = Bar(">= 100 x", lambda pair: pair.ratio >= 100)
TENSORFLOW_PATIENCE_S = 300


def closures(run, what, count, *flags):
    package = run.bin.parent / "python"
    if not (package / "muster").is_dir():
        raise Skipped("the Python package was not built: tools/deps")
    environment = {**os.environ, "PYTHONPATH": str(package), "PYTHONDONTWRITEBYTECODE": "1"}
    return only(measure(
        run.bin / "muster", "run", "--no-label", *flags, "-n", 1, "--", PYTHON,
        HERE / "python_coordinator.py", what, WORKERS, count, ":", "-n", WORKERS, "--", PYTHON, "-m",
        "muster.worker", HERE / "python_steps.py", stderr=subprocess.DEVNULL, env=environment))


def rate_beside_dask(run):
    """Scheduled, run, and fetched."""
    count = run.arguments.closures // 2
    measures = [Measure(f"empty closures in Python, fetched, {WORKERS} workers", "Dask", BAR, "/s")]
    if subprocess.run([PYTHON, "-c", "import distributed"], stderr=subprocess.DEVNULL).returncode != 0:
        raise Skipped("Dask is not installed: tools/deps --bench")

    def pair():
        run.pinned_ping_pong()
        beside = only(measure(PYTHON, HERE / "dask_rate.py", WORKERS, max(count // 50, 1),
                              stderr=subprocess.DEVNULL, timeout=DASK_PATIENCE_S))
        return [Pair(closures(run, "rate", count)["per_second"], beside["per_second"])]

    return run.pairs(measures, pair)


def beside_tensorflow(run):
    """Scheduled and joined, as there; then one at a time."""
    count = run.arguments.closures // 2
    measures = [Measure(f"empty closures in Python, joined, {WORKERS} workers", "ClusterCoordinator",
                        BAR, "/s"),
                Measure("an empty closure in Python, there and back", "ClusterCoordinator")]
    if not run.arguments.tensorflow:
        raise Skipped("ClusterCoordinator: give a virtual environment that has tensorflow-cpu (2 GB) "
                      "by --tensorflow FOLDER or TEST_TENSORFLOW")

    def pair():
        run.pinned_ping_pong()
        beside = measure(run.arguments.tensorflow / "bin" / "python", HERE / "tensorflow_rate.py",
                         WORKERS, max(count // 100, 1), max(count // 500, 1),
                         stderr=subprocess.DEVNULL, timeout=TENSORFLOW_PATIENCE_S)
        rtt = closures(run, "rtt", max(count // 20, 1))
        return [Pair(closures(run, "joined", count)["per_second"], beside["rate"]["per_second"]),
                Pair.of_p50(rtt, beside["rtt"])]

    return run.pairs(measures, pair)


def takeover(run):
    measures = [Measure("SIGKILL of a Python worker -> its closure runs on another one",
                        bar=Bar.below_us(10_000))]

    def pair():
        run.pinned_ping_pong()
        kills = run.arguments.kills
        return [Pair.of_p50(closures(run, "takeover", kills, "--max-restarts", 2 * kills))]

    return run.pairs(measures, pair)

# SPDX-License-Identifier: Apache-2.0
"""Whole runs that are preempted by their cloud, from its fake on loopback, or by Kubernetes, from a fake
of its kubelet; started as docs/preemption.md says.

behaviour: sources / Whole runs
"""

import pathlib
import re
import shlex
import signal
import subprocess

import pytest

import metadata_fake as fakes
from clouding import FAKES, announce
from conftest import BUILD, MUSTER, ROOT, WAIT_S, Process
from running import until
from saving import PATIENT

RANK = BUILD / "tests" / "process" / "ranks" / "train"
PAGE = (ROOT / "docs" / "preemption.md").read_text()
VARIABLES = {"google": ("GCE_METADATA_HOST", "address"),
             "amazon": ("AWS_EC2_METADATA_SERVICE_ENDPOINT", "url")}


def section(title):
    return re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S)[1]


def recipe(cloud):
    """The command of the page, word by word; its program is the test's."""
    words = shlex.split(re.search(r"^```sh\n(.*?)^```", section(cloud.capitalize()), re.M | re.S)[1])
    assert words[0] == "muster" and words[-1] == "./train", words
    return words[1:-1]


@pytest.fixture
def train(env, started, tmp_path):
    """train(words) runs `muster` so, with the test's ranks as its program."""

    def start(words, *, prefix=(), steps=(), **more):
        process = Process([*prefix, MUSTER, *words, RANK, tmp_path, *steps],
                          {**env, **PATIENT, **more})
        started.append(process)
        return process

    return start


def begins(process, step=0, ranks=4):
    for _ in range(ranks):
        process.out.wait_for(f"begins at step {step}", count=ranks)


def trains(process, ranks=4):
    """They have begun, and each has taken a step."""
    begins(process)
    process.out.wait_for("has taken step 0", count=ranks)


def saved(folder, ranks=4):
    """The one step that all have saved."""
    steps = {int((folder / str(rank)).read_text()) for rank in range(ranks)}
    assert len(steps) == 1, steps
    return steps.pop()


@pytest.mark.parametrize("cloud", FAKES)
def test_a_recipe_of_the_page_saves_and_goes_on(train, tmp_path, cloud):
    """A run is started as docs/preemption.md says, and its cloud announces the end. All ranks
    save one step, the run ends with 75; the next one goes on there."""
    with FAKES[cloud]() as fake:
        variable, what = VARIABLES.get(cloud, ("NO_SUCH", "url"))
        words = [word if cloud in VARIABLES else word.replace(cloud, f"{cloud}={fake.url}")
                 for word in recipe(cloud)]
        process = train(words, **{variable: getattr(fake, what)})
        trains(process)
        announce(fake)
        assert process.wait() == 75
        process.out.wait_for(f"source={cloud}", "saves step", count=4)
    step = saved(tmp_path)
    assert step > 0
    with FAKES[cloud]() as fake:  # on another machine
        words = [word if cloud in VARIABLES else re.sub(rf"{cloud}$", f"{cloud}={fake.url}", word)
                 for word in recipe(cloud)]
        process = train(words, steps=[str(step + 3)], **{variable: getattr(fake, what)})
        begins(process, step)
        assert process.wait() == 0


def test_advice_stops_nothing(train, tmp_path):
    """A cloud only gives advice. The ranks train to their end."""
    end = tmp_path / "end"
    with fakes.Amazon() as fake:
        fake.set(fake.REBALANCE, '{"noticeTime":"2027-03-01T03:50:00Z"}')
        process = train(["run", "-n", "4", "--preempt-sources", f"amazon={fake.url}", "--"],
                        steps=["20"], TRAIN_END=str(end))
        process.log.wait_for("rebalance")
        end.touch()
        assert process.wait() == 0
        assert not process.out.having("saves step")


@pytest.mark.parametrize("cloud", FAKES)
def test_a_service_that_hangs_keeps_no_job_waiting(train, tmp_path, cloud):
    """The cloud's metadata service hangs, and variables name proxies. The job neither starts nor
    ends later for it."""
    end = tmp_path / "end"
    with FAKES[cloud]() as fake:
        fake.change(trouble=fakes.no_answer)
        process = train(["run", "-n", "4", "--preempt-sources", f"{cloud}={fake.url}", "--"],
                        steps=["3"], http_proxy=fake.url, all_proxy=fake.url, TRAIN_END=str(end))
        begins(process)
        fake.wait_for("/")
        end.touch()
        assert process.wait() == 0


# ---- Kubernetes ----

def manifest():
    yaml = pytest.importorskip("yaml")
    return yaml.safe_load(re.search(r"^```yaml\n(.*?)^```", section("Kubernetes"), re.M | re.S)[1])


def child_of(pid):
    """Process 1 of the pod, by the number that it has out here."""
    text = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(text[0]) if text else None


def names_itself(pid, name):
    return pathlib.Path(f"/proc/{pid}/comm").read_text().strip() == name


class Kubelet:
    """Starts a container as kubelet does, and ends it: TERM to its process 1, a grace time, KILL."""

    def __init__(self, train, words, environment, **options):
        if subprocess.run(["unshare", "--fork", "--pid", "--mount-proc", "true"],
                          capture_output=True).returncode != 0:
            pytest.skip("unshare --pid is not permitted here")
        self.process = train(words, prefix=["unshare", "--fork", "--pid", "--mount-proc",
                                            "--kill-child"], **environment, **options)

    def evict(self, grace_s):
        """The exit code of the container; 137: it was still there when the time was over."""
        first = until(lambda: child_of(self.process.pid))
        until(lambda: names_itself(first, "muster"))
        subprocess.run(["kill", "-TERM", str(first)], check=True)
        try:
            self.process.process.wait(grace_s)
        except subprocess.TimeoutExpired:
            subprocess.run(["kill", "-KILL", str(first)], check=True)
        return self.process.wait()


def container():
    """Of the page's manifest: the command, its variables, its time."""
    pod = manifest()["spec"]["template"]["spec"]
    one = pod["containers"][0]
    environment = {entry["name"]: entry["value"] for entry in one["env"]}
    assert one["command"][0] == "muster" and one["command"][-1] == "./train"
    return one["command"][1:-1], environment, pod["terminationGracePeriodSeconds"]


def test_a_pod_that_is_evicted_saves_and_goes_on_elsewhere(train, tmp_path):
    """Kubernetes evicts a pod: SIGTERM to process 1, a grace time, SIGKILL. Process 1 is `muster
    run`: all ranks save one step and the container ends with 75; another pod goes on there."""
    words, environment, grace_s = container()
    kubelet = Kubelet(train, words, environment)
    trains(kubelet.process)
    assert kubelet.evict(min(grace_s, WAIT_S)) == 75
    step = saved(tmp_path)
    assert step > 0
    again = Kubelet(train, words, environment, steps=[str(step + 3)])
    begins(again.process, step)
    assert again.process.wait() == 0


def test_a_shell_as_process_1_swallows_the_signal(train, tmp_path):
    """Process 1 of the pod is a shell. It swallows the signal, no rank is notified, and the time
    is over without a save: the page warns of it."""
    words, environment, _ = container()
    kubelet_of_a_shell = ["unshare", "--fork", "--pid", "--mount-proc", "--kill-child", "sh", "-c",
                          '"$0" "$@"; exit $?']
    if subprocess.run([*kubelet_of_a_shell, "true"], capture_output=True).returncode != 0:
        pytest.skip("unshare --pid is not permitted here")
    process = train(words, prefix=kubelet_of_a_shell, **environment)
    begins(process)
    first = until(lambda: child_of(process.pid))
    subprocess.run(["kill", "-TERM", str(first)], check=True)
    with pytest.raises(subprocess.TimeoutExpired):
        process.process.wait(SWALLOWED_S)
    assert not list(tmp_path.iterdir())
    process.process.send_signal(signal.SIGKILL)
    process.wait()


SWALLOWED_S = 2  # only time can show that nothing comes


def test_the_manifest_gives_the_job_less_than_the_pod_has():
    """The page's manifest is applied. The job has less time than the pod; an eviction is no
    failure."""
    _, environment, grace_s = container()
    given = environment["MUSTER_PREEMPT_GRACE"]
    assert given.endswith("s") and int(given[:-1]) < grace_s
    policy = manifest()["spec"]["podFailurePolicy"]["rules"]
    assert {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]} in policy
    assert [rule["onExitCodes"]["values"] for rule in policy if "onExitCodes" in rule] == [[75]]

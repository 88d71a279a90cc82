# SPDX-License-Identifier: Apache-2.0
"""What the pages tell people to type, apply and open: names that must agree, and things that exist.

behaviour: program / The documentation
"""

import pathlib
import re
import subprocess

import pytest

from conftest import MUSTER, ROOT
from test_launchers import SYNONYMS

yaml = pytest.importorskip("yaml")

GUIDES = ["docs/slurm.md", "docs/kubernetes.md"]
PAGES = sorted(
    str(path.relative_to(ROOT))
    for path in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("**/*.md")]
)

# Flags and variables in the pages that belong to somebody else, or to no command of muster.
OF_OTHERS = {"--version", "--mpi", "--kill-on-bad-exit", "--no-kill", "--requeue", "--from-file", "--pty",
             "--code", "--slots", "--cluster", "--define-prefix", "--http-put-response-hop-limit", "--instance-id"}
OF_THE_BUILD = {"MUSTER_RAFT", "MUSTER_REPLICA_SIM_SEEDS", "MUSTER_SIM_PLANT", "MUSTER_SIM_SEEDS"}


def text_of(page):
    return (ROOT / page).read_text()


def blocks(page, kind):
    return re.findall(rf"^```{kind}\n(.*?)^```", text_of(page), re.M | re.S)


def code(page):
    """What stands in a page's code, inline or in blocks that are no C, a line each."""
    lines = []
    for kind, block in re.findall(r"^```(\w*).*?\n(.*?)^```", text_of(page), re.M | re.S):
        if kind != "c":
            lines += re.sub(r"\\\n\s*", "", block).splitlines()
    prose = re.sub(r"^```.*?^```", "", text_of(page), flags=re.M | re.S)
    return lines + [re.sub(r"\s+", " ", one) for one in re.findall(r"`([^`]+)`", prose)]


def manifests():
    return [
        document
        for block in blocks("docs/kubernetes.md", "yaml")
        for document in yaml.safe_load_all(block)
    ]


def of_kind(kind):
    return {one["metadata"]["name"]: one for one in manifests() if one["kind"] == kind}


def workloads():
    return [*of_kind("StatefulSet").values(), *of_kind("Job").values()]


def containers(workload):
    return workload["spec"]["template"]["spec"]["containers"]


def variables(container):
    return {one["name"]: one["value"] for one in container.get("env", []) if "value" in one}


def flag(container, name):
    text = " ".join(container.get("args", []))
    return re.findall(rf"--{name}[= ](\S+)", text)


@pytest.fixture(scope="module")
def commands():
    """The commands of this build, each with its flags: one per line of its help."""
    program = str(MUSTER)
    said = subprocess.run([program, "--help"], capture_output=True, text=True, check=True).stdout
    found = {}
    for name in re.findall(r"^  (\w+)  ", said, re.M):
        said = subprocess.run(
            [program, name, "--help"], capture_output=True, text=True, check=True
        ).stdout
        flags = re.findall(r"^  (?:(-\w),|   ) (--[\w-]+)", said, re.M)
        found[name] = {flag for pair in flags for flag in pair if flag}
        found[name] |= {f"--no-{flag}" for flag in re.findall(r"--no-([\w-]+)", said)}
    assert {"run", "serve", "status", "key", "barrier", "chaos", "env"} <= set(found)
    return found


def typed(page):
    """(command, its flags) of each muster command line in a page, up to the program it runs."""
    for line in code(page):
        for command, rest in re.findall(r"(?:^|[ /(])(?<!from )muster ([a-z]\w*)(?! 1\.3)((?: .*)?)$", line):
            rest = re.split(r" -- | #|; ", rest)[0]
            yield command, re.findall(r"(?<=[ \[|])(--?[a-zA-Z][\w-]*)", rest)
    for workload in workloads() if "kubernetes" in page else []:
        for container in containers(workload):
            if container["command"][0] == "muster":
                yield container["command"][1], [one.split("=")[0] for one in container["args"]]


@pytest.mark.parametrize("page", PAGES)
def test_every_flag_exists(page, commands):
    """A documentation page names a command, a flag or a variable. muster has it."""
    for command, flags in typed(page):
        assert command in commands, f"{page}: there is no muster {command}"
        missing = {flag for flag in flags if not flag.startswith("--no-")} - commands[command]
        assert missing == set(), f"{page}: muster {command} has no {missing}"
    all_flags = set().union(*commands.values(), OF_OTHERS, SYNONYMS)
    for line in code(page):
        flag = re.match(r"(--[a-z][\w-]*)", line)
        if flag:
            assert flag[1] in all_flags, f"{page}: nothing has {flag[1]}"


def test_guides_start_something(commands):
    """A documentation page names a command, a flag or a variable. muster has it."""
    for guide in GUIDES:
        assert "run" in {command for command, _ in typed(guide)}


@pytest.mark.parametrize("page", PAGES)
def test_every_variable_is_read(page, muster, env):
    """A documentation page names a command, a flag or a variable. muster has it."""
    headers = "".join(path.read_text() for path in (ROOT / "include/muster").glob("*.h"))
    names = set(re.findall(r"\bMUSTER_[A-Z_]+[A-Z]", text_of(page)))
    names -= set(re.findall(r"\bMUSTER_[A-Z_]+", headers)) | OF_THE_BUILD
    done = muster("env", "--help", env={**env, **{name: "0" for name in names - {"MUSTER_UNKNOWN"}}})
    assert "which have no effect" not in done.stderr, f"{page}: {done.stderr}"


def anchors(path):
    """Of the headings of a page, as they are made from their text."""
    for heading in re.findall(r"^#+ (.*)$", path.read_text(), re.M):
        yield re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_somewhere(page):
    """A documentation page names a file, a target of `make`, or another page. It is there."""
    for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`]*`", "", text_of(page))):
        if target.startswith("http"):
            continue
        name, _, anchor = target.partition("#")
        path = (ROOT / page).parent / name if name else ROOT / page
        assert path.exists(), f"{page}: {target} is not there"
        assert not anchor or anchor in anchors(path), f"{page}: {target} is no heading"


@pytest.mark.parametrize("page", PAGES)
def test_every_file_and_target_is_there(page):
    """A documentation page names a file, a target of `make`, or another page. It is there."""
    targets = set(re.findall(r"^([a-z]+):", text_of("Makefile"), re.M))
    for line in code(page):
        name = re.match(r"(?:src|tests|tools|docs|examples|include|proto|bench)/[\w./-]*$", line)
        if name:
            pattern = name[0] + ("*" if name[0].endswith("_") else "")
            # proto is a folder at the root, and one of the products' in src.
            assert any(ROOT.glob(pattern)) or any(ROOT.glob(f"src/{pattern}")), f"{page}: no {name[0]}"
        made = re.match(r"make ([a-z]+)", line)
        if made:
            assert made[1] in targets, f"{page}: no target {made[1]}"


def test_the_night_runs_all_that_tests_take_a_sample_of():
    """A test tries a sample of its cases. `make nightly` has a part whose variable makes it try
    all of them."""
    sampled = {variable for path in (ROOT / "tests" / "process").glob("*.py")
               for variable in re.findall(r'environ\.get\("(MUSTER_TEST_\w+)"\)', path.read_text())}
    recipes = ""
    for part in re.findall(r'^    "(.*)"$', text_of("tools/nightly"), re.M):
        done = subprocess.run(["make", "-n", *part.split()], cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        recipes += done.stdout
    assert sampled
    assert all(f"{variable}=1" in recipes for variable in sampled), sampled


def numbers_of(test):
    """A test's name says at its end which scenarios it shows."""
    return {int(number) for number in re.search(r"(?:_\d+)*$", test)[0].split("_") if number}


def scenarios():
    """The rows of the list by number: [number, what it shows, test] each; a number may have several."""
    page = text_of("docs/behaviour/restart.md").split("\n## The scenarios of a restart", 1)[1]
    return [re.split(r"\s*\|\s*", row)[1:-1] for row in re.findall(r"^\| \d.*\|$", page, re.M)]


def test_every_scenario_of_a_restart_is_listed():
    """A scenario of a restart has a number. docs/behaviour/restart.md lists it with a test whose
    name ends with that number, or says why it is not offered."""
    assert sorted({int(row[0]) for row in scenarios()}) == list(range(1, 88))
    for number, said, shown in scenarios():
        assert said
        tests = re.findall(r"`tests/[\w./-]+::(\w+)`", shown)
        if shown == "not offered":
            assert " Not offered: " in said, f"{number} has no reason"
        else:
            assert tests, f"{number} has no test"
            for test in tests:
                assert int(number) in numbers_of(test), f"{test} does not say that it shows {number}"


def test_every_test_of_a_scenario_is_in_its_row():
    """A test of the pages on restart and on agents has a scenario's number at the end of its name.
    That scenario's row names it."""
    rows = {}
    for number, _, shown in scenarios():
        rows[int(number)] = rows.get(int(number), "") + shown
    for page in ("restart", "agent"):
        for test in re.findall(r"`(tests/[\w./-]+::\w+)`", text_of(f"docs/behaviour/{page}.md")):
            for number in numbers_of(test):
                assert f"`{test}`" in rows[number], f"{number} does not name {test}"


def test_labels_and_names_agree():
    """The manifests for Kubernetes are parsed. Their names, labels, ports, sizes and mounts agree
    with each other."""
    services = of_kind("Service")
    for workload in workloads():
        template = workload["spec"]["template"]
        if "selector" in workload["spec"]:
            assert workload["spec"]["selector"]["matchLabels"] == template["metadata"]["labels"]
        subdomain = workload["spec"].get("serviceName") or template["spec"].get("subdomain")
        if subdomain:
            service = services[subdomain]
            assert service["spec"]["selector"] == template["metadata"]["labels"]
            assert service["spec"]["clusterIP"] == "None"


def test_ports_agree():
    """The manifests for Kubernetes are parsed. Their names, labels, ports, sizes and mounts agree
    with each other."""
    services = of_kind("Service")
    for stateful in of_kind("StatefulSet").values():
        (serve,) = containers(stateful)
        ports = {one["name"]: one["containerPort"] for one in serve["ports"]}
        assert flag(serve, "addr") == [f"0.0.0.0:{ports['muster']}"]
        assert flag(serve, "http") == [f"0.0.0.0:{ports['http']}"]
        service = services[stateful["spec"]["serviceName"]]
        assert {one["name"]: one["port"] for one in service["spec"]["ports"]} == ports
        for probe, path in (("livenessProbe", "/livez"), ("readinessProbe", "/readyz")):
            assert serve[probe]["httpGet"] == {"path": path, "port": "http"}
    for workload in workloads():
        for container in containers(workload):
            for address in [variables(container).get("MUSTER_ADDR"), *flag(container, "join")]:
                if address:
                    host, port = address.rsplit(":", 1)
                    service = services[host.split(".")[-1]]
                    assert int(port) in [one["port"] for one in service["spec"]["ports"]]


def test_probes_are_those_of_the_operations_page():
    """The manifests' probes are those of the operations page."""
    (said,) = [yaml.safe_load(block) for block in blocks("docs/operations.md", "yaml") if "livenessProbe" in block]
    for stateful in of_kind("StatefulSet").values():
        (serve,) = containers(stateful)
        (number,) = [one["containerPort"] for one in serve["ports"] if one["name"] == "http"]
        for probe in ("livenessProbe", "readinessProbe"):
            there = {**serve[probe], "httpGet": {**serve[probe]["httpGet"], "port": number}}
            assert said[probe] == there


def test_replicas_agree():
    """The manifest of three replicas is parsed. The list names each of its pods, all begin at once,
    each says which it is, and no two are on one node or are taken away together."""
    stateful = of_kind("StatefulSet")["muster-three"]
    spec, name = stateful["spec"], stateful["metadata"]["name"]
    (serve,) = containers(stateful)
    (port,) = [one["containerPort"] for one in serve["ports"] if one["name"] == "muster"]
    (listed,) = flag(serve, "replica")
    assert listed.split(",") == [f"{name}-{number}.{spec['serviceName']}:{port}"
                                 for number in range(spec["replicas"])]
    assert spec["podManagementPolicy"] == "Parallel"
    (pod,) = serve["env"]
    assert pod["valueFrom"] == {"fieldRef": {"fieldPath": "metadata.name"}}
    assert flag(serve, "advertise") == [f"$({pod['name']}).{spec['serviceName']}:{port}"]
    labels = spec["template"]["metadata"]["labels"]
    (apart,) = spec["template"]["spec"]["affinity"]["podAntiAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"]
    assert apart["labelSelector"]["matchLabels"] == labels
    budget = of_kind("PodDisruptionBudget")[name]["spec"]
    assert budget["selector"]["matchLabels"] == labels and budget["maxUnavailable"] == 1


def test_the_program_of_the_readme_is_the_example():
    """The README shows a program. It is the example that is built."""
    (program,) = blocks("README.md", "c")
    assert (ROOT / "examples/hello.c").read_text().split("\n", 1)[1] == program


def test_the_secret_is_where_it_is_looked_for():
    """The manifests put the secret where it is looked for."""
    (secret,) = of_kind("Secret").values()
    (key,) = secret["stringData"]
    assert 16 <= len(secret["stringData"][key]) <= 64
    for workload in workloads():
        spec = workload["spec"]["template"]["spec"]
        (volume,) = [one for one in spec["volumes"] if "secret" in one]
        assert volume["secret"]["secretName"] == secret["metadata"]["name"]
        assert volume["secret"]["defaultMode"] == 0o400
        for container in containers(workload):
            (mount,) = [m for m in container["volumeMounts"] if m["name"] == volume["name"]]
            path = f"{mount['mountPath']}/{key}"
            given = flag(container, "secret-file") or [variables(container)["MUSTER_SECRET_FILE"]]
            assert set(given) == {path}
            # Neither in an argument nor in a variable.
            assert secret["stringData"][key] not in str(container)


def test_sizes_agree():
    """The manifests for Kubernetes are parsed. Their names, labels, ports, sizes and mounts agree
    with each other."""
    jobs = of_kind("Job")
    for job in jobs.values():
        assert job["spec"]["completionMode"] == "Indexed"
        assert job["spec"]["completions"] == job["spec"]["parallelism"]
        (container,) = containers(job)
        size = variables(container).get("MUSTER_SIZE") or flag(container, "nnodes")[0]
        assert int(size) == job["spec"]["completions"]
    for address in flag(containers(jobs["group"])[0], "join"):
        pod, subdomain = address.split(":")[0].split(".")
        assert pod == "group-0"
        assert subdomain == jobs["group"]["spec"]["template"]["spec"]["subdomain"]


def test_shell_and_yaml_blocks_parse():
    """A documentation page has a line to type or a manifest to apply. A shell, or a YAML parser,
    can read it."""
    for page in PAGES:
        for block in blocks(page, "sh"):
            done = subprocess.run(["bash", "-n"], input=block, text=True, capture_output=True)
            assert done.returncode == 0, f"{page}: {done.stderr}"
        for block in blocks(page, "yaml"):
            assert list(yaml.safe_load_all(block)), page

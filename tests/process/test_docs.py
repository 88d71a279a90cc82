# SPDX-License-Identifier: Apache-2.0
"""What the guides tell people to type and apply: names that must agree, and flags that exist."""

import re
import subprocess

import pytest

from conftest import ROOT

yaml = pytest.importorskip("yaml")

GUIDES = ["docs/slurm.md", "docs/kubernetes.md"]


def blocks(guide, kind):
    text = (ROOT / guide).read_text()
    return re.findall(rf"^```{kind}\n(.*?)^```", text, re.M | re.S)


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
    return {one["name"]: one["value"] for one in container.get("env", [])}


def flag(container, name):
    text = " ".join(container.get("args", []))
    return re.findall(rf"--{name}[= ](\S+)", text)


def flags_of(command, muster):
    """The flags a command has, one per line of its help."""
    done = muster(command, "--help")
    assert done.returncode == 0
    return set(re.findall(r"^ +(?:-\w, )?(--[\w-]+)", done.stdout, re.M)) | set(
        re.findall(r"^ +(-\w), ", done.stdout, re.M)
    )


def commands(guide):
    """(command, its flags) of each muster command line, up to the program it runs."""
    text = "\n".join(blocks(guide, "sh") + blocks(guide, "yaml")).replace("\\\n", " ")
    text = re.sub(r"`(muster [^`]+)`", r"\n\1\n", text)
    for line in text.splitlines():
        found = re.search(r"\bmuster (\w+)((?: .*)?)$", line)
        if found:
            rest = found.group(2).split(" -- ")[0]
            yield found.group(1), re.findall(r"(?<=\s)(--?[a-zA-Z][\w-]*)", rest)
    for workload in workloads() if "kubernetes" in guide else []:
        for container in containers(workload):
            if container["command"][0] == "muster":
                yield container["command"][1], [one.split("=")[0] for one in container["args"]]


@pytest.mark.parametrize("guide", GUIDES)
def test_every_flag_exists(guide, muster):
    found = list(commands(guide))
    assert {command for command, _ in found} >= {"run"}
    for command, flags in found:
        missing = set(flags) - flags_of(command, muster)
        assert missing == set(), f"{guide}: muster {command} has no {missing}"


@pytest.mark.parametrize("guide", GUIDES)
def test_every_variable_is_read(guide, muster, env):
    names = set(re.findall(r"\bMUSTER_[A-Z_]+", (ROOT / guide).read_text()))
    assert "MUSTER_ADDR" in names
    for name in names:
        done = muster("env", "--help", env={**env, name: "0"})
        assert "nobody reads" not in done.stderr, f"{guide}: nobody reads {name}"


def test_labels_and_names_agree():
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
    services = of_kind("Service")
    (stateful,) = of_kind("StatefulSet").values()
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


def test_the_secret_is_where_it_is_looked_for():
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


def test_shell_blocks_parse():
    for guide in GUIDES:
        for block in blocks(guide, "sh"):
            done = subprocess.run(["bash", "-n"], input=block, text=True, capture_output=True)
            assert done.returncode == 0, f"{guide}: {done.stderr}"

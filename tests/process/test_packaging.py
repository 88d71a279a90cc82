# SPDX-License-Identifier: Apache-2.0
"""The files for operators in packaging/: alerts, a dashboard and a collector's configuration agree with what a
service really exports.

behaviour: install / Files for operators
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import urllib.request

import pytest

from conftest import BUILD, ROOT, WAIT_S
from exposition import parse

yaml = pytest.importorskip("yaml")

PACKAGING = ROOT / "packaging"
RULES = PACKAGING / "prometheus/muster.rules.yml"
SCRAPED = {"instance", "job", "exported_job", "le"}


def promtool(*args, **options):
    if not shutil.which("promtool"):
        pytest.skip("promtool is not installed: tools/deps --test")
    return subprocess.run(["promtool", *args], capture_output=True, text=True, check=False, **options)


@pytest.fixture(scope="module")
def exported():
    """{metric: its labels}, as the table of the service's metrics has them."""
    table = (ROOT / "src/service/metrics/metrics.def").read_text()
    return {name: set(filter(None, labels.split(",")))
            for name, labels in re.findall(r'^X\(\w+, (\w+), "\w*", "([\w,]*)"', table, re.M)}


@pytest.fixture
def scraped(serve):
    """The text that a scraper gets from a service with a job."""
    service = serve("--http", "127.0.0.1:0")
    url = service.out.wait_for("muster: health and metrics on ").split(" on ", 1)[1]
    rank = service.wire("train")
    assert rank.put("k", b"v").status == 0
    text = urllib.request.urlopen(url + "/metrics", timeout=WAIT_S).read().decode()
    rank.close()
    assert 'job="train"' in text
    return text


def rules():
    return {rule["alert"]: rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]}


def dashboard():
    return json.loads((PACKAGING / "grafana/muster.json").read_text())


def asked():
    """Each expression of the rules and of the dashboard, with the dashboard's variables filled in."""
    found = [rule["expr"] for rule in rules().values()]
    for panel in dashboard()["panels"]:
        for target in panel["targets"]:
            expression = re.sub(r"\$__(rate_interval|range)\b", "5m", target["expr"])
            found.append(re.sub(r"\$(instance|job)\b", ".*", expression))
    return found


def test_a_scrape_is_as_prometheus_wants_it(scraped):
    """A service with a job is scraped. `promtool check metrics` finds nothing to say about the text."""
    done = promtool("check", "metrics", input=scraped)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_every_alert_fires_on_what_it_is_for():
    """The alerts are tried by `promtool test rules`: each fires on what it is for, and none for a job that is
    well."""
    done = promtool("check", "rules", RULES)
    assert done.returncode == 0, done.stderr
    done = promtool("test", "rules", "muster.test.yml", cwd=RULES.parent)
    assert done.returncode == 0, done.stdout + done.stderr
    tried = (RULES.parent / "muster.test.yml").read_text()
    expected = set(re.findall(r'alertname="(\w+)"', tried)) | set(re.findall(r"alertname: (\w+)$", tried, re.M))
    assert expected == set(rules())


def test_alerts_and_dashboard_use_what_is_exported(scraped, exported):
    """An alert or a panel asks for a metric by some labels. A real service exports it, with these labels."""
    there = parse(scraped).families
    assert set(there) == set(exported)
    used = set()
    for expression in asked():
        for name, labels in re.findall(r"\b((?:muster|process)_\w+)(?:\{([^}]*)\})?", expression):
            base = name if name in there else re.sub(r"_(bucket|count|sum)$", "", name)
            assert base in there and (base == name or there[base].type == "histogram"), name
            asked_for = set(re.findall(r"(\w+)=", labels))
            assert asked_for <= exported[base] | SCRAPED, expression
            assert "exported_job" not in asked_for or "job" in exported[base], expression
            used.add(base)
        of_all = set().union(*(exported[name] for name in there if name in expression), SCRAPED)
        for labels in re.findall(r"\b(?:by|on) \(([^)]*)\)", expression):
            assert set(re.split(r", ?", labels)) <= of_all, expression
    assert len(used) > 20


def test_the_dashboard_can_be_imported(tmp_path):
    """The dashboard is imported. Its panels have numbers and places of their own, a name of a variable that it
    has, and expressions that Prometheus can read."""
    board = dashboard()
    panels = board["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {(x, y) for x in range(place["x"], place["x"] + place["w"])
                 for y in range(place["y"], place["y"] + place["h"])}
        assert place["x"] + place["w"] <= 24 and not cells & taken, panel["title"]
        taken |= cells
    variables = {one["name"] for one in board["templating"]["list"]}
    text = json.dumps(board)
    assert set(re.findall(r"\$\{?(?!__)(\w+)", text)) == variables
    rules_of_it = tmp_path / "rules.yml"
    rules_of_it.write_text(yaml.safe_dump({"groups": [{"name": "asked", "rules": [
        {"record": f"asked:{number}", "expr": expression} for number, expression in enumerate(asked())]}]}))
    done = promtool("check", "rules", rules_of_it)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_page_lists_the_alerts():
    """The operations page lists the alerts. They are those of the rules."""
    page = (ROOT / "docs/operations.md").read_text()
    assert re.findall(r"^\| `(Muster\w+)` \|", page, re.M) == list(rules())


def test_the_collector_scrapes_the_same_job():
    """The configuration of OpenTelemetry's collector is read. Its pipelines use what it defines, and it scrapes
    the services as the alerts want it."""
    config = yaml.safe_load((PACKAGING / "opentelemetry/collector.yaml").read_text())
    for pipeline in config["service"]["pipelines"].values():
        for kind in ("receivers", "processors", "exporters"):
            assert set(pipeline[kind]) <= set(config[kind])
    (scrape,) = config["receivers"]["prometheus"]["config"]["scrape_configs"]
    assert scrape["job_name"] == "muster"
    page = [block for block in re.findall(r"^```yaml\n(.*?)^```", (ROOT / "docs/operations.md").read_text(), re.M | re.S)
            if "scrape_configs" in block]
    assert yaml.safe_load(page[0])["scrape_configs"][0]["static_configs"] == scrape["static_configs"]


KUBERNETES = PACKAGING / "kubernetes"
OF_NO_PACKAGE = {"libasan.so.8", "libubsan.so.1", "libtsan.so.2", "libraft.so.0"}  # of other builds than the image's
OF_TESTS = {"git", "libcmocka-dev", "openssl", "curl", "python3-pytest", "procps"}


def test_the_manifests_of_the_page_are_those_of_kustomize():
    """docs/kubernetes.md shows manifests, each with the file of packaging/kubernetes that it is. They are the same,
    and no file is left out."""
    page = (ROOT / "docs/kubernetes.md").read_text()
    shown = dict(re.findall(r"^<!-- (packaging/kubernetes/\S+) -->\n```yaml\n(.*?)^```", page, re.M | re.S))
    assert len(shown) == len(re.findall("^```yaml$", page, re.M))
    there = {str(path.relative_to(ROOT)): path.read_text() for path in KUBERNETES.glob("*/*.yaml")
             if path.name != "kustomization.yaml"}
    assert shown == there


def test_each_folder_of_kustomize_is_whole():
    """A folder of packaging/kubernetes lists all its files, and other folders that are there. `kubectl kustomize`
    builds each, with the secret and what the job needs."""
    built = {}
    for path in sorted(KUBERNETES.glob("*/kustomization.yaml")):
        resources = yaml.safe_load(path.read_text())["resources"]
        own = {one.name for one in path.parent.glob("*.yaml")} - {"kustomization.yaml"}
        assert {name for name in resources if not name.startswith("../")} == own
        assert all((path.parent / name / "kustomization.yaml").is_file() for name in resources if name.startswith("../"))
        if shutil.which("kubectl"):
            done = subprocess.run(["kubectl", "kustomize", path.parent], capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            built[path.parent.name] = sorted(one["kind"] for one in yaml.safe_load_all(done.stdout))
    if not built:
        pytest.skip("the folders are whole; kubectl is not installed, which builds them")
    assert built["train"] == ["Job", "Secret", "Service", "StatefulSet"]
    assert built["group"] == ["Job", "Secret", "Service"]


def test_the_image_is_built_from_what_the_build_needs():
    """The image's first stage installs what `tools/deps` lists for a build, but for tools of tests. Its last one runs
    as another user than root."""
    stages = (PACKAGING / "container/Dockerfile").read_text().split("\nFROM ")[1:]
    (needed,) = re.findall(r'^packages="(.*?)"', (ROOT / "tools/deps").read_text(), re.M | re.S)
    for package in set(needed.split()) - OF_TESTS:
        assert re.search(rf"\s{re.escape(package)}\s", stages[0]), package
    assert re.findall(r"^USER (\S+)$", stages[-1], re.M) == ["65532:65532"]


def installed(stage):
    """The packages that a stage of the image installs."""
    (words,) = re.findall(r"apt-get install (.*?)(?:&&|$(?<!\\))", stage, re.M | re.S)
    found = {word for word in words.replace("\\", " ").split() if not word.startswith("-")}
    assert found
    return found


def comes_with(packages):
    """What Debian installs with them."""
    done = subprocess.run(["apt-cache", "depends", "--important", *sorted(packages)], capture_output=True, text=True)
    return set(re.findall(r"^ *(?:Pre)?Depends: ([a-z0-9][a-z0-9+.-]*)$", done.stdout, re.M))


def test_each_command_of_the_image_is_of_what_there_is():
    """The image's commands are read. What they copy and the preset that they build exist; each package of the first
    stage is one of `tools/deps`, and each of the last comes with one of them; the program finds all its libraries in
    the last stage."""
    text = (PACKAGING / "container/Dockerfile").read_text()
    build, last = re.split(r"^FROM .*$", text, flags=re.M)[1:]
    (needed,) = re.findall(r'^packages="(.*?)"', (ROOT / "tools/deps").read_text(), re.M | re.S)
    assert installed(build) <= set(needed.split())
    for source in re.findall(r"^COPY (?!--from)(\S+) ", text, re.M):
        assert (ROOT / source).exists(), source
    presets = {one["name"] for one in json.loads((ROOT / "CMakePresets.json").read_text())["configurePresets"]}
    assert set(re.findall(r"--preset (\S+)", text)) <= presets
    (prefix,) = re.findall(r"-DCMAKE_INSTALL_PREFIX=(\S+)", build)
    (stage,) = re.findall(r"DESTDIR=(\S+)", build)
    assert re.findall(r"^COPY --from=build (\S+) (\S+)$", last, re.M) == [(stage + prefix, prefix)]
    for ignored in (ROOT / ".dockerignore").read_text().split():
        assert not (ROOT / ignored / "CMakeLists.txt").exists(), ignored
    if not shutil.which("apt-cache") or "bookworm" not in pathlib.Path("/etc/os-release").read_text():
        pytest.skip("this is no Debian 12, as the image is: what its packages need is not looked at")
    assert installed(last) <= comes_with(installed(build))
    needs = re.findall(r"NEEDED +(\S+)", subprocess.run(["objdump", "-p", BUILD / "bin" / "muster"], capture_output=True,
                                                        text=True, check=True).stdout)
    for library in set(needs) - OF_NO_PACKAGE:
        owners = subprocess.run(["dpkg", "-S", library], capture_output=True, text=True, check=True).stdout
        assert set(re.findall(r"^([^:]+):", owners, re.M)) & (installed(last) | {"libc6"}), library


def test_the_debian_packages_are_of_this_version():
    """The Debian packages are of the version that CMake says, and need for their build what `tools/deps` lists, but for
    tools of tests."""
    (version,) = re.findall(r"project\(muster VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text())
    debian = PACKAGING / "debian"
    assert (debian / "changelog").read_text().startswith(f"muster ({version}) ")
    control = (debian / "control").read_text()
    (build,) = re.findall(r"^Build-Depends: (.*(?:\n .*)*)", control, re.M)
    (needed,) = re.findall(r'^packages="(.*?)"', (ROOT / "tools/deps").read_text(), re.M | re.S)
    needed = set(needed.split()) - OF_TESTS - {"gcc", "g++", "make"}  # every build has these
    assert needed <= set(re.findall(r"[a-z0-9+.-]{2,}", build))
    packages = re.findall(r"^Package: (.*)$", control, re.M)
    assert packages == ["libmuster0", "libmuster-dev", "muster", "python3-muster"]
    assert all((debian / f"{package}.install").is_file() for package in packages)

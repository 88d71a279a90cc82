# SPDX-License-Identifier: Apache-2.0
"""A strict reader of the metrics formats: Prometheus text 0.0.4 and OpenMetrics 1.0. What a scraper
may refuse is refused here."""

import re

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(,|\})')
NUMBER = re.compile(r"[+-]?(\d+(\.\d+)?([eE][+-]?\d+)?|Inf)$|NaN$")
SUFFIXES = {"gauge": [""], "counter": ["_total"], "histogram": ["_bucket", "_sum", "_count"]}


class Sample:
    def __init__(self, name, labels, value):
        self.name, self.labels, self.value = name, labels, value


class Family:
    def __init__(self, name):
        self.name = name
        self.type = self.help = self.unit = None
        self.samples = []


class Metrics:
    def __init__(self, families):
        self.families = families

    def value(self, name, **labels):
        found = [
            sample.value
            for family in self.families.values()
            for sample in family.samples
            if sample.name == name and sample.labels == labels
        ]
        return found[0] if found else 0


def unescape(text):
    return re.sub(r"\\(.)", lambda match: "\n" if match.group(1) == "n" else match.group(1), text)


def parse_labels(text):
    labels = {}
    at = 0
    while True:
        match = LABEL.match(text, at)
        assert match, f"labels: {text[at:]!r}"
        assert match.group(1) not in labels, f"twice: {match.group(1)}"
        labels[match.group(1)] = unescape(match.group(2))
        at = match.end()
        if match.group(3) == "}":
            return labels, text[at:]


def parse_sample(line):
    match = re.match(NAME, line)
    assert match, f"no name: {line!r}"
    rest = line[match.end() :]
    labels = {}
    if rest.startswith("{"):
        labels, rest = parse_labels(rest[1:])
    assert rest.startswith(" ") and NUMBER.match(rest[1:]), f"no number: {line!r}"
    return Sample(match.group(), labels, float(rest[1:]))


def check_histogram(family):
    series = {}
    for sample in family.samples:
        key = tuple(sorted((k, v) for k, v in sample.labels.items() if k != "le"))
        series.setdefault(key, []).append(sample)
    for samples in series.values():
        buckets = [sample for sample in samples if sample.name.endswith("_bucket")]
        bounds = [float(sample.labels["le"]) for sample in buckets]
        counts = [sample.value for sample in buckets]
        assert bounds == sorted(set(bounds)) and bounds[-1] == float("inf")
        assert counts == sorted(counts), f"not cumulative: {family.name}"
        (total,) = [sample.value for sample in samples if sample.name.endswith("_count")]
        (_,) = [sample.value for sample in samples if sample.name.endswith("_sum")]
        assert counts[-1] == total


def check_family(family, open_metrics):
    assert family.type in SUFFIXES, f"{family.name} has no type"
    assert family.help, f"{family.name} has no help"
    assert family.name.endswith("_total") == (family.type == "counter" and not open_metrics)
    if open_metrics and family.unit:
        assert family.name.endswith("_" + family.unit)
    suffixes = SUFFIXES[family.type]
    if family.type == "counter" and not open_metrics:
        suffixes = [""]
    seen = set()
    for sample in family.samples:
        assert sample.name in {family.name + suffix for suffix in suffixes}, sample.name
        assert ("le" in sample.labels) == sample.name.endswith("_bucket")
        key = (sample.name, *sorted(sample.labels.items()))
        assert key not in seen, f"twice: {key}"
        seen.add(key)
        assert family.type == "gauge" or sample.value >= 0
    if family.type == "histogram":
        check_histogram(family)


def parse(text, open_metrics=False):
    """The families by name, in their order. Families are in one piece, with HELP and TYPE first."""
    assert text.endswith("\n")
    lines = text[:-1].split("\n")
    if open_metrics:
        assert lines.pop() == "# EOF"
    families = {}
    current = None
    for line in lines:
        match = re.match(rf"# (HELP|TYPE|UNIT) ({NAME}) (.+)$", line)
        if match:
            what, name, rest = match.groups()
            if current is None or current.name != name:
                assert name not in families, f"{name} is in two pieces"
                current = families[name] = Family(name)
            assert not current.samples and getattr(current, what.lower()) is None, line
            setattr(current, what.lower(), unescape(rest) if what == "HELP" else rest)
            assert what != "UNIT" or open_metrics
        else:
            assert current, f"a sample before any family: {line!r}"
            current.samples.append(parse_sample(line))
    for family in families.values():
        check_family(family, open_metrics)
    return Metrics(families)

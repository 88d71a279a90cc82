# SPDX-License-Identifier: Apache-2.0
"""A measure, its pairs of subject and anchor, and whether its bar holds."""
import statistics


class Pair:
    """What one pair gave: the subject's figure, and the anchor's if there is one beside it."""

    def __init__(self, subject, anchor=None, p90=None):
        self.subject, self.anchor, self.p90 = subject, anchor, p90

    @property
    def ratio(self):
        return self.subject / self.anchor

    @classmethod
    def of_p50(cls, subject, anchor=None):
        """From the reports of two programs."""
        return cls(subject["p50_us"], anchor and anchor["p50_us"], subject["p90_us"])


class Bar:
    """Holds or not for one pair; it is met when it holds in four of five."""

    def __init__(self, text, holds):
        self.text, self.holds = text, holds

    @classmethod
    def at_most(cls, ratio):
        return cls(f"<= {ratio:g} x", lambda pair: pair.ratio <= ratio)

    @classmethod
    def at_least(cls, ratio):
        return cls(f">= {ratio:g} x", lambda pair: pair.ratio >= ratio)

    @classmethod
    def below_us(cls, p50, p90=None, text=None):
        text = text or f"p50 <= {p50 / 1000:g} ms" + (f", p90 <= {p90 / 1000:g} ms" if p90 else "")
        return cls(text, lambda pair: pair.subject <= p50 and (p90 is None or pair.p90 <= p90))


def middle(reports):
    """Of several runs of one program: for each name the line whose median is the middle one."""
    return {name: sorted((report[name] for report in reports),
                         key=lambda line: line["p50_us"])[len(reports) // 2]
            for name in reports[0]}


class Measure:
    """`us`: a time, `/s`: a rate, `KiB` and `B`: memory; `beside` says what the anchor is."""

    def __init__(self, name, beside="", bar=None, unit="us"):
        self.name, self.beside, self.bar, self.unit = name, beside, bar, unit
        self.pairs = []
        self.phases = []  # what it consists of, each a measure of its own
        self.disturbed = 0  # pairs that were taken although others were busy

    def subjects(self):
        return [pair.subject for pair in self.pairs]

    def anchors(self):
        return [pair.anchor for pair in self.pairs if pair.anchor is not None]

    def ratios(self):
        return [pair.ratio for pair in self.pairs if pair.anchor is not None]

    def held(self):
        return sum(self.bar.holds(pair) for pair in self.pairs)

    def met(self):
        return self.bar is None or 5 * self.held() >= 4 * len(self.pairs)

    def row(self):
        p90s = [pair.p90 for pair in self.pairs if pair.p90 is not None]
        ratio = beside = verdict = ""
        if self.anchors():
            ratios = self.ratios()
            ratio = f"{statistics.median(ratios):.3g} ({min(ratios):.3g} - {max(ratios):.3g})"
            beside = f"{self.beside} {pretty(statistics.median(self.anchors()), self.unit)}"
        if self.bar:
            verdict = (f"{self.bar.text}  {'met' if self.met() else 'NOT MET'}, "
                       f"{self.held()} of {len(self.pairs)}")
        return (self.name, pretty(statistics.median(self.subjects()), self.unit),
                pretty(statistics.median(p90s), self.unit) if p90s else "", beside, ratio, verdict)

    def rows(self):
        if not self.phases:
            return [self.row()]
        names = " + ".join(phase.name.rsplit(", ", 1)[1] for phase in self.phases)
        spent = " + ".join(f"{statistics.median(phase.subjects()) / 1000:.1f}"
                           for phase in self.phases)
        return [self.row(), (f"    {names}", spent + " ms", "", "", "", "")]

    def as_json(self):
        judged = {"bar": self.bar.text, "held": self.held(), "met": self.met()} if self.bar else {}
        return {"name": self.name, "unit": self.unit, "subject": self.subjects(),
                "p90": [pair.p90 for pair in self.pairs], "beside": self.beside,
                "anchor": self.anchors(), "ratio": self.ratios(), "disturbed": self.disturbed,
                **judged}


def pretty(value, unit):
    if unit == "/s" and value < 10_000:
        return f"{value:.0f} /s"
    if unit == "/s":
        return f"{value / 1000:.0f} k/s" if value < 1e6 else f"{value / 1e6:.2f} M/s"
    if unit == "B":
        return f"{value:.0f} B"
    if unit == "KiB":
        return f"{value:.2f} KiB"
    if value >= 1e7:
        return f"{value / 1e6:.1f} s"
    if value < 0.1:
        return f"{value * 1000:.2f} ns"
    return f"{value:.2f} us" if value < 100 else f"{value / 1000:.3f} ms"


def show(rows):
    head = ("measure", "figure", "p90", "beside it", "ratio (least - most)", "bar, held in")
    table = [head] + rows
    width = [max(len(row[i]) for row in table) for i in range(len(head))]
    for number, row in enumerate(table):
        print("  ".join(text.ljust(size) for text, size in zip(row, width)).rstrip())
        if number == 0:
            print("  ".join("-" * size for size in width))

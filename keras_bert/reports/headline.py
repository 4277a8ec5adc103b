"""The headline of a report: a score beside that of a baseline."""

import dataclasses
import math


@dataclasses.dataclass(frozen=True)
class Headline:
    """A score and the baseline that it should exceed.

    Example:
        Headline("accuracy on dev", 0.74, "always negative", 0.5).text
    """

    name: str  # What the score is.
    score: float  # From 0 to 1; correlations from -1.
    baseline: str = ""  # What the baseline predicts.
    reference: float | None = None  # Score of the baseline.
    rows: int | None = None  # Number of the rows of which the score is a share.

    @property
    def percent(self):
        return f"{100 * self.score:.1f}%"

    @property
    def comparison(self):
        """How far the score is above the baseline; empty without one."""
        if self.reference is None:
            return ""
        points = round(100 * self.score, 1) - round(100 * self.reference, 1)
        side = "above" if points > 0 else "below"
        return f"{abs(points):.1f} points {side} the baseline" if round(points, 1) else "no better than the baseline"

    @property
    def interval(self):
        """The 95% interval of the share of few rows (Wilson, 1927); empty otherwise."""
        if self.rows is None or self.rows > 1000:
            return ""
        z = 1.96
        middle, width = self.score + z**2 / (2 * self.rows), self.score * (1 - self.score) + z**2 / (4 * self.rows)
        ends = (middle + sign * z * math.sqrt(width / self.rows) for sign in (-1, 1))
        low, high = (100 * end / (1 + z**2 / self.rows) for end in ends)
        return f"95% interval {low:.0f} to {high:.0f}%, of {self.rows} rows"

    @property
    def text(self):
        """The headline as a sentence."""
        compared = f", {self.comparison} ({self.baseline}: {100 * self.reference:.1f}%)" if self.comparison else ""
        interval = f" ({self.interval})" if self.interval else ""
        return f"{self.percent} {self.name}{interval}{compared}."

    @property
    def bars(self):
        """Name, number and share of the width of both bars; none without a baseline."""
        rows = [("this model", self.score), (self.baseline, self.reference)] if self.comparison else []
        return [(name, f"{100 * value:.1f}%", min(max(value, 0.0), 1.0)) for name, value in rows]

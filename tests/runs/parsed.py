"""Parses a report for tests."""

import xml.etree.ElementTree

from keras_bert.reports.page import ReportHead
from keras_bert.runs.report import write_report


def text_of(element):
    return "".join(element.itertext())


def having(element, style, tag="*"):
    return [found for found in element.iter(None if tag == "*" else tag) if style in found.get("class", "").split()]


def rows_of(section, style):
    (table,) = having(section, style, "table")
    return rows_of_table(table)


def rows_of_table(table):
    """Returns the texts of the cells of a table, without its head."""
    rows = []
    for row in table.find("tbody"):
        rows.append([text_of(cell) for cell in row])
    return rows


class Page:
    """A report, parsed as XML: all tags must be closed."""

    def __init__(self, path):
        self.source = path.read_text(encoding="utf-8")
        self.root = xml.etree.ElementTree.fromstring(self.source)
        self.sections = {section.find("h2").text: section for section in self.root.iter("section")}

    def text(self, name):
        return text_of(self.sections[name])

    def hard(self, name="Hardest examples of dev"):
        """Returns the items of the list of a section."""
        (found,) = having(self.sections[name], "hard", "ol")
        return list(found)


def page_of(folder, judged, metric="f1"):
    """Writes the report of one run with judged predictions for dev, and returns its `Page`."""
    results = [{"setting": {"seed": 1}, "scores": {metric: 0.8, "loss": 1.5}}]
    write_report(folder / "report.html", ReportHead("", {}), metric, results, {}, *judged.report())
    return Page(folder / "report.html")

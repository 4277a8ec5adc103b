"""Parses a report for tests."""

import xml.etree.ElementTree


def text_of(element):
    return "".join(element.itertext())


def having(element, style, tag="*"):
    return [found for found in element.iter(None if tag == "*" else tag) if style in found.get("class", "").split()]


def rows_of(section, style):
    (table,) = having(section, style, "table")
    return [[text_of(cell) for cell in row] for row in table.find("tbody")]


class Page:
    """A report, parsed as XML: all tags must be closed."""

    def __init__(self, path):
        self.source = path.read_text(encoding="utf-8")
        self.root = xml.etree.ElementTree.fromstring(self.source)
        self.sections = {section.find("h2").text: section for section in self.root.iter("section")}

    def text(self, name):
        return text_of(self.sections[name])

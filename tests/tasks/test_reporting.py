"""What a task finds, and what is added to it."""

from keras_bert.tasks.reporting import Findings


def test_more_findings():
    findings = Findings(measured={"accuracy": 0.5}, sections=["<p>1</p>"], errors=[], facts={"a": "b"})
    more = findings.with_more(
        results={"teacher": 1},
        facts={"c": "d"},
        messages=["x"],
        sections=["<p>2</p>"],
        note="N.",
    )
    assert more.entries == {"scores": {"accuracy": 0.5}, "teacher": 1}
    assert more.facts == {"a": "b", "c": "d"}
    assert more.messages == ["x"]
    assert more.sections == ["<p>1</p>", "<p>2</p>"]
    assert more.note == "N."
    assert more.with_more(note="M.").note == "N. M."
    # What is added to stays as it was.
    assert findings.facts == {"a": "b"}
    assert findings.messages == []
    assert findings.note is None

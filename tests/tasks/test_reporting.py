"""What a task finds, and what is added to it."""

from keras_bert.tasks.reporting import Findings


def test_more_findings():
    findings = Findings(measured={"accuracy": 0.5}, sections=["<p>1</p>"], errors=[], facts={"a": "b"})
    more = findings.with_more(
        results={"teacher": 1}, facts={"c": "d"}, messages=["x"], sections=["<p>2</p>"], note="N."
    )
    assert more.entries == {"scores": {"accuracy": 0.5}, "teacher": 1}
    assert more.facts == {"a": "b", "c": "d"}
    assert (more.messages, more.sections, more.note) == (["x"], ["<p>1</p>", "<p>2</p>"], "N.")
    assert more.with_more(note="M.").note == "N. M."
    assert (findings.facts, findings.messages, findings.note) == ({"a": "b"}, [], None)

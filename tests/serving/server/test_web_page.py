"""The web page at `/` in a browser; its source is in test_rest.py."""

import csv
import io
import json
import re
import subprocess
import urllib.parse

import numpy as np
import pytest

import keras_bert
from keras_bert.serving import Client
from tests.browsers import chromium
from tests.pipelines.programs import call, mistake
from tests.serving.conftest import MARKUP

pytest.importorskip("tensorflow")
pytestmark = [pytest.mark.tensorflow, pytest.mark.slow]

# Characters of one to four bytes, a surrogate pair in JavaScript, several code points, right-to-left text.
ODD = "\ufeffa é 🏔️ b 中文 c 👩‍👩‍👧 d ñ e\u0301 שלום f <script>g</script> h\n🇨🇭 i"

# The columns of the table of answers that tell how many tokens a text has and how many were read.
COUNTS = ["tokens", "tokens_read"]


@pytest.fixture(scope="module")
def client(heads):
    with Client(f"127.0.0.1:{heads.port}") as client:
        yield client


@pytest.fixture(scope="module")
def browser():
    with chromium() as browser:
        yield browser


@pytest.fixture
def visit(browser):
    """Opens the page of a server; on teardown, checks that it contacted no other host and logged no error."""
    contexts = []
    complaints = []
    requests = []

    def open_page(server, quiet=True, **options):
        context = browser.new_context(**options)
        context.set_default_timeout(15000)
        contexts.append(context)
        page = context.new_page()
        host = f"127.0.0.1:{server.port}"

        def note(request):
            requests.append((host, urllib.parse.urlsplit(request.url).netloc))

        page.on("request", note)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        if quiet:
            page.on("console", lambda message: complaints.append(message.text))
        page.goto(f"http://{host}/")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []
    assert all(host == asked for host, asked in requests)


def choose(page, model, task=None):
    page.get_by_label("Model").select_option(model)
    page.locator("#ask:enabled").wait_for()
    if task:
        page.get_by_label("Task").select_option(task)


def ask(page, model, task=None, **fields):
    choose(page, model, task)
    for name, text in fields.items():
        page.locator(f"#field_{name}").fill(text)
    press(page, "Ask")
    return headline(page)


def press(page, button):
    page.get_by_role("button", name=button, exact=True).click()


def headline(page):
    page.locator("#headline:not([hidden])").wait_for()
    return page.locator("#headline").text_content()


def failure(page):
    page.locator("#error:not([hidden])").wait_for()
    return page.locator("#error").text_content()


def bars(page, number=0):
    """Returns `(label, share)` for each item of a bar list."""
    lines = page.locator("#shown ol").nth(number).locator("li").all()
    return [tuple(line.locator("> span:not(.track)").all_text_contents()) for line in lines]


def percent(share):
    return f"{100 * float(str(share)):.1f}%"


def expected_bars(labels, shares):
    """Sorted by descending probability."""
    best = sorted(zip(labels, shares, strict=True), key=lambda line: -line[1])
    return [(label, percent(share)) for label, share in best]


def predict(client, model, signature=None, **inputs):
    """Returns the answer for one text."""
    answer = client.predict(model, {name: [value] for name, value in inputs.items()}, signature=signature)
    return {name: values[0] for name, values in answer.items()}


def test_classification_and_regression(visit, heads, client):
    page = visit(heads)
    choose(page, "classes")
    fields = page.locator("#field_text"), page.locator("#field_pair")
    assert [field.input_value() for field in fields] == [f"{MARKUP} a", "b"]  # The example.
    page.get_by_text("About this model").click()
    facts = page.locator("#model_facts dd").all_text_contents()
    assert facts[:3] == ["classification", f"yes, {MARKUP}, نعم", "40 tokens"]
    assert f"keras_bert {keras_bert.__version__}" in facts[-1]
    answer = predict(client, "classes", text="a b", pair="c")
    assert ask(page, "classes", text="a b", pair="c") == answer["label"]
    assert bars(page) == expected_bars(answer["labels"], answer["probabilities"])
    assert page.locator("#shown .best bdi").text_content() == answer["label"]
    assert page.locator("#shown :is(b, script)").count() == 0
    assert page.title() == "Ask a model"
    assert re.fullmatch(r"classes, version 3, [0-9.]+ ms", page.locator("#facts").text_content())
    page.get_by_text("Full response").click()
    assert json.loads(page.locator("#shown pre").text_content())["label"] == [answer["label"]]

    ask(page, "many_classes", text="a b")
    answer = predict(client, "many_classes", text="a b")
    expected = [percent(share) for share in sorted(answer["probabilities"], reverse=True)]
    assert [share for _, share in bars(page)] == expected[:20]
    page.get_by_role("button", name="Show all 150").press("Enter")
    assert [share for _, share in bars(page)] == expected
    assert page.evaluate("[...document.activeElement.parentNode.children].indexOf(document.activeElement)") == 20

    # Several labels, each with its threshold.
    headline, marked, thresholds = page.evaluate("""() => {
      const labels = ["a", "b", "c"];
      const answer = { labels, probabilities: [0.6, 0.3, 0.1], predicted: [false, true, true] };
      const [headline, list] = SHOW.classification(answer);
      const facts = factsOf({ head: "classification", labels, options: { thresholds: [0.7, 0.2, 0.05] } });
      return [headline, [...list.querySelectorAll(".best bdi")].map((each) => each.textContent), facts.Thresholds];
    }""")
    assert (headline, marked, thresholds) == ("b, c", ["b", "c"], "a: 0.7, b: 0.2, c: 0.05")

    value = predict(client, "score", text="a b", pair="")["value"]
    assert float(ask(page, "score", text="a b", pair="")) == pytest.approx(value, abs=1e-4)
    assert page.locator("#shown .ends span").all_text_contents() == ["-4", "4"]
    bar = page.locator("#shown .track span").evaluate("bar => bar.offsetWidth / bar.parentNode.offsetWidth")
    assert bar == pytest.approx((value + 4) / 8, abs=0.01)


def test_answers_are_highlighted_in_the_context(visit, heads, client):
    page = visit(heads)
    for question in ("a", "b é", "who?"):
        answer = predict(client, "answers", question=question, context=ODD)
        assert ask(page, "answers", question=question, context=ODD) == answer["answer"]
        parts = page.evaluate("[...document.querySelector('#shown .text').childNodes].map(n => n.textContent)")
        assert "".join(parts) == ODD
        assert (parts[1], len(parts[0].encode())) == (answer["answer"], answer["start"])
        assert page.locator("#shown ol").count() == 0  # One answer, and never none: there is nothing to compare.

    # The answer at the end of a long text is in view, in its box and on the page.
    outputs = {"answer": ["end"], "start": [40_000], "end": [40_003], "score": [1.0]}
    page.evaluate("outputs => show({ context: 'long '.repeat(8000) + 'end' }, outputs, 1)", outputs)
    inside = """mark => [mark.closest(".text").getBoundingClientRect(), { top: 0, bottom: innerHeight }].map(
      (box) => box.top <= mark.getBoundingClientRect().top && mark.getBoundingClientRect().bottom <= box.bottom)"""
    assert page.locator("#shown mark").evaluate(inside) == [True, True]

    ask(page, "more_answers", question="a", context=ODD)
    answer = predict(client, "more_answers", question="a", context=ODD)
    assert bars(page) == expected_bars(answer["answers"], answer["probabilities"])
    for index, button in enumerate(page.locator("#shown ol button").all()):
        button.press("Space")
        assert page.locator("#shown [aria-pressed=true]").all_text_contents() == [answer["answers"][index]]
        before = page.evaluate("document.querySelector('#shown .text').firstChild.textContent")
        assert len(before.encode()) == answer["starts"][index]

    for question in ("a", "b é", "who?", "c"):
        headline = ask(page, "or_no_answer", question=question, context=ODD)
        answer = predict(client, "or_no_answer", question=question, context=ODD)
        none = 1 / (1 + np.exp(0.5 + answer["score"] - answer["null_score"]))
        assert (headline == "No answer") == (none > 0.5) == (answer["start"] < 0)
        found = [bars(page, number) for number in range(page.locator("#shown ol").count())]
        assert found.pop() == [("No answer", percent(none))]
        shares = answer["probabilities"] * (1 - none)
        if none > 0.5:
            assert found == []
        else:
            assert found == [expected_bars(answer["answers"], shares)]


def test_tags(visit, heads, client):
    page = visit(heads)
    assert ask(page, "tags", text=ODD).endswith(" entities")
    answer = predict(client, "tags", text=ODD)
    found = page.locator("#shown .text").evaluate("""text => [...text.childNodes].map((node) =>
      node.localName === 'mark' ? [...[...node.childNodes].map((n) => n.textContent), node.className] : [node.data])""")
    assert "".join(part[0] for part in found) == ODD
    marks = []
    before = ""
    for part in found:
        if len(part) > 1:
            text, label, _ = part
            marks.append((text, label, len(before.encode())))
        before += part[0]
    expected = []
    for index in range(answer["entity_count"]):
        label = f"{answer['entity_types'][index]} {percent(answer['entity_scores'][index])}"
        expected.append((answer["entities"][index], label, answer["entity_starts"][index]))
    assert len(marks) > 3
    assert marks == expected
    page.get_by_text("Tokens and tags").press("Enter")
    page.locator("#shown tbody").wait_for()
    rows = [tuple(row.locator("th, td").all_text_contents()) for row in page.locator("#shown tbody tr").all()]
    parts = zip(answer["tokens"], answer["tags"], map(percent, answer["scores"]), strict=True)
    assert rows == list(parts)[: answer["token_count"]]
    ask(page, "tags", text="שלום a b")
    for place in ("#field_text", "#shown .text"):
        assert page.locator(place).evaluate("box => getComputedStyle(box).direction") == "rtl"


def test_a_phone(visit, heads):
    """Buttons are large, keys are not mentioned, and the texts beside the similarities are shown as a whole."""
    page = visit(heads, viewport={"width": 360, "height": 780}, has_touch=True, is_mobile=True)
    texts = ["a b c " * 8, "d e " * 30]
    ask(page, "sentences", text="\n".join(texts))
    heads_of_rows = page.locator("#shown .pairs tbody th")
    assert heads_of_rows.evaluate_all("all => all.map(one => one.title.trim())") == [text.strip() for text in texts]
    assert heads_of_rows.evaluate_all("all => all.map(one => one.scrollWidth <= one.clientWidth)") == [True, True]
    heights = page.locator("button:visible, select:visible").evaluate_all("all => all.map(one => one.offsetHeight)")
    assert min(heights) >= 44
    assert page.get_by_text("Enter", exact=True).is_hidden()


def test_masks(visit, heads, client):
    page = visit(heads)
    text = "é [MASK] c\n[MASK]."
    answer = predict(client, "masks", text=text)
    assert ask(page, "masks", text=text) == ", ".join(answer["tokens"][:, 0])
    for mask in range(2):
        shares = map(percent, answer["probabilities"][mask])
        assert bars(page, mask) == list(zip(answer["tokens"][mask], shares, strict=True))
    box = page.locator("#field_text")
    for piece in answer["tokens"][1]:
        button = page.locator("#shown ol").nth(1).get_by_role("button", name=piece, exact=True)
        button.click()
        filled = f"é [MASK] c\n{piece}."
        if piece.startswith("##"):
            filled = f"é [MASK] c{piece[2:]}."
        assert box.input_value() == filled
    button.click()
    assert box.input_value() == text
    assert page.locator("[aria-pressed=true]").count() == 0
    assert ask(page, "masks", text="none") == "There is no [MASK] in the text"
    cut = "The [MASK] is beyond the longest text that the model takes"
    assert ask(page, "masks", text="a b " * 300 + "[MASK]") == cut
    press(page, "Insert [MASK]")
    assert box.input_value().endswith("[MASK][MASK]")


def test_next_sentence_choices_and_labels_of_ones_own(visit, heads, client):
    page = visit(heads)
    parts = ["é b", MARKUP, "c d e"]
    share = predict(client, "masks", "next_sentence", text="a", pair="b c")["probability"]
    assert ("not" in ask(page, "masks", "next_sentence", text="a", pair="b c")) == (share < 0.5)
    assert dict(bars(page))["The second text follows"] == percent(share)
    lines = "\n".join(parts) + "\n\n"

    answer = predict(client, "choices", text="a", choices=parts)
    assert ask(page, "choices", text="a", choices=lines) == parts[answer["choice"]]
    assert bars(page) == expected_bars(parts, answer["probabilities"])
    page.locator("#field_choices").fill("one\n \n")
    press(page, "Ask")
    assert failure(page) == "Enter at least 2 lines in “Choices, one per line”."

    answer = predict(client, "sentences", "zero_shot", text="a", labels=parts)
    assert ask(page, "sentences", "zero_shot", text="a", labels=lines) == answer["label"]
    assert bars(page) == expected_bars(parts, answer["probabilities"])
    page.locator("#field_labels").fill(" ")
    press(page, "Ask")
    assert failure(page) == "Enter at least 1 line in “Labels, one per line”."


def test_embeddings(visit, heads, client):
    page = visit(heads)
    texts = ["a b", "é 🏔️ c", "d"]
    vectors = client.predict("vectors", texts)["embedding"]
    assert ask(page, "vectors", text="\n\n".join(texts)) == "3 texts, 32 values each"
    shown = np.array(page.locator(".heat td").all_text_contents(), float).reshape(3, 3)
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    np.testing.assert_allclose(shown, units @ units.T, atol=0.0051)
    values = np.array(page.locator("#shown table:not(.heat) td").all_text_contents(), float).reshape(3, -1)
    np.testing.assert_allclose(values, vectors[:, : values.shape[1]], atol=1e-4)
    assert ask(page, "vectors", text="a") == "1 text, 32 values each"
    assert page.locator(".heat").count() == 0
    # The signature `embed` is that of the default; each prompt has its own.
    choose(page, "sentences")
    names = ["Embed", "Embed: query", "Classify with your own labels"]
    assert page.locator("#task option").all_text_contents() == names
    vectors = client.predict("sentences", {"text": texts}, signature="embed_query")["embedding"]
    ask(page, "sentences", "embed_query", text="\n".join(texts))
    values = np.array(page.locator("#shown table:not(.heat) td").all_text_contents(), float).reshape(3, -1)
    np.testing.assert_allclose(values, vectors[:, : values.shape[1]], atol=1e-4)


def test_translations(visit, heads, client):
    page = visit(heads)
    text = f"é {MARKUP} 🏔️"
    answer = predict(client, "translations", text=text)
    assert ask(page, "translations", "serving_default", text=text) == answer["translation"]
    rows = page.locator("#shown tbody tr").all()
    for row, translation, score in zip(rows, answer["translations"], answer["scores"], strict=True):
        assert row.locator("th, td").all_text_contents() == [translation, f"{score:.2f}"]
    ask(page, "translations", text="long " * 30)
    assert "cut off" in page.locator("#shown").text_content()

    aligned = predict(client, "translations", "alignment", text="a b")
    assert ask(page, "translations", "alignment", text="a b") == aligned["translation"]
    first, *lines = page.locator(".heat tr").all()
    assert first.locator("th").all_text_contents()[1:] == list(aligned["source_tokens"])
    for line, piece, shares in zip(lines, aligned["target_tokens"], aligned["attention"], strict=True):
        assert line.locator("th").text_content() == piece
        cells = line.locator("td").all()
        assert [cell.get_attribute("title") for cell in cells] == [percent(share) for share in shares]
        shown = [cell.evaluate("cell => cell.style.getPropertyValue('--share')") for cell in cells]
        assert [float(share[:-1]) for share in shown] == pytest.approx(100 * shares, abs=1e-3)

    served = [f"--server=127.0.0.1:{heads.port}", "--model=translations", "a b"]
    answer = predict(client, "translations", text="a b")
    assert call("pipelines.predict", *served) == f"{answer['translation']}\n"
    message = "--n_best: the served translations gives 3 translations. Received: 4"
    assert mistake("pipelines.predict", *served, "--n_best=4") == message


def answer_table(page):
    """Answers the table and returns the downloaded file's text, and the lines of errors."""
    press(page, "Answer all rows")
    with page.expect_download() as waiting:
        press(page, "Download")
    path = waiting.value.path()
    return waiting.value.suggested_filename, path.read_bytes(), page.locator("#table_errors p").all_text_contents()


def rows_of(data, delimiter=","):
    return list(csv.reader(io.StringIO(data.decode("utf-8"), newline=""), delimiter=delimiter))


def test_a_pasted_table(visit, heads, client):
    page = visit(heads)
    choose(page, "classes")
    texts = ['say "a";\nb', ODD, "c", "d", " ", "é"]
    pairs = ["x", "y", "z; z", "", "x", "y"]
    lines = [["sentence2", "id", "sentence1"]]
    for text, pair in zip(texts, pairs, strict=True):
        lines.append([pair, "7", text])
    pasted = io.StringIO()
    csv.writer(pasted, delimiter=";").writerows([*lines, ["x", "8"], ["x", "9", "a", "more"]])
    page.get_by_label("Rows").fill(pasted.getvalue().replace("\r\n", "\n"))
    assert page.locator("#table_status").text_content() == "8 rows, 3 columns separated by semicolons."
    name, data, errors = answer_table(page)
    header, *rows = rows_of(data, ";")
    assert name == "table.answers.csv"
    assert header == [*lines[0], "label", "score", "score_yes", f"score_{MARKUP}", "score_نعم", *COUNTS, "error"]
    assert [row[:3] for row in rows[:6]] == lines[1:]
    for row, text, pair in zip(rows[:3], texts[:3], pairs[:3], strict=True):
        answer = predict(client, "classes", text=text, pair=pair)
        assert row[3] == answer["label"]
        assert row[-1] == ""
        assert np.array(row[5:8], float) == pytest.approx(answer["probabilities"], abs=1e-4)
    assert errors == [
        "Row 4: column “sentence2” is empty",
        "Row 5: column “sentence1” is empty",
        "Row 7: expected 3 columns, found 2",
        "Row 8: expected 3 columns, found 4",
    ]
    told = [error.split(": ")[1] for error in errors]
    assert [row[header.index("error")] for row in rows] == ["", "", "", *told[:2], "", *told[2:]]
    # Of the model's texts, none is a formula in a spreadsheet.
    pairs = [["=1", "-1+1"], ["b", "\uff1d1"], ["c", " @A"], ["d", "-0.5"], ["e", 1e-9], ["f", "n't"], ["g", "'a"]]
    page.evaluate("pairs => sheet.answers = [{ columns: pairs }]", pairs)
    with page.expect_download() as waiting:
        press(page, "Download")
    header, row = rows_of(waiting.value.path().read_bytes(), ";")
    assert header[3:] == ["'=1", *"bcdefg", "error"]
    assert row == [*lines[1], "'-1+1", "'\uff1d1", "' @A", "-0.5", "1e-9", "n't", "''a", ""]


HEADERS = {  # First rows that have unknown names of columns, and some that do not.
    "Kommentar;Stimmung\nSehr schön heute;gut\nNie wieder bitte;schlecht": True,
    "Nr,Bemerkung\n1,gut\n2,na ja": True,
    "Kürzel,Stimmung\na,x\nb,y\nc,x\nd,y": True,
    "Comment\nA charming film it is.\nTwo hours of nothing.": True,
    "A charming film.\nTwo hours of nothing.": False,
    "good,fine\nbad,poor": False,
    "Hello\nBye": False,
    "1,2\n3,4": False,
    "alone": False,
    "a,a\n1,2": False,
    "x,gut\n1,gut\n": True,
    "": False,
    # Frames of pandas: an index without a name, as it is written and as it is read and written again.
    ",Bemerkung zum Tag,Stimmung\n0,gut,froh\n1,na ja,still": True,
    "Unnamed: 0;Was?;Wie?\n0;gut;froh\n1;na ja;still": True,
    ",gut\n,schlecht": False,
    ",gut\nx,schlecht": False,
    ",gut\n1,schlecht\n1,na ja": False,
}
# Tables, and the names of the columns that are chosen for the inputs of a model.
COLUMNS = {
    ("many_classes", "Unnamed: 0,source,stars,comment\n0,web,5,I liked it very much\n1,app,2,Never again"): ["source"],
    ("many_classes", ",site,stars,comment\n0,web,5,I liked it very much\n1,application,2,Never again"): ["comment"],
    ("many_classes", "Nr,Seite,Ort,Notiz\n1,https://a.example/a/long/address,Rom,ganz gut\n2,,Bonn,"): ["Notiz"],
    ("many_classes", "Unnamed: 0;Ort\n2024-01-01 00:00:00;Rom\n2024-01-02 00:00:00;Bonn"): ["Ort"],
    ("many_classes", "Nr,Stern\n1,2\n3,4"): ["Nr"],
    ("many_classes", ",review\n0,short\n1,text"): ["review"],
    ("classes", "Ort,Frage,Nr,Antwort\nRom,was ist das,1,ein Haus am Meer\nBonn,wer da,2,niemand"): [
        "Frage",
        "Antwort",
    ],
    ("classes", "pair,Ort,Notiz\nein sehr langer Satz von heute,Rom,was ist das\nkurz,Bonn,wer da"): ["Notiz", "pair"],
}


def test_a_header_with_unknown_names(visit, heads):
    page = visit(heads, viewport={"width": 390, "height": 800})
    choose(page, "many_classes")
    for text, expected in HEADERS.items():
        page.get_by_label("Rows").fill(text)
        assert (text, page.locator("#header").is_checked()) == (text, expected)
    page.get_by_label("Rows").fill("Nr;Bemerkung;Ort\n1;Sehr schön;Rom\n2;Nie wieder;Bonn\n")
    cells = page.locator("#preview th, #preview td")
    assert cells.all_text_contents() == ["Nr", "Bemerkung", "Ort", "1", "Sehr schön", "Rom", "2", "Nie wieder", "Bonn"]
    assert page.locator("#column_text option:checked").text_content() == "Bemerkung"
    _, data, errors = answer_table(page)
    assert rows_of(data, ";")[0] == ["Nr", "Bemerkung", "Ort", "label", "score", *COUNTS, "error"]
    assert page.locator("#preview th").all_text_contents()[:3] == ["Nr", "Bemerkung", "Ort"]
    assert (errors, page.evaluate("document.documentElement.scrollWidth")) == ([], 390)
    page.locator("#header").uncheck()
    assert cells.all_text_contents()[:5] == ["column 1", "column 2", "column 3", "Nr", "Bemerkung"]


def test_columns_that_are_chosen(visit, heads):
    page = visit(heads)
    for (model, text), expected in COLUMNS.items():
        choose(page, model)
        page.get_by_label("Rows").fill(text)
        assert page.locator("#header").is_checked()
        chosen = page.locator("#columns option:checked").all_text_contents()
        assert (text, chosen) == (text, expected)
    # Those that the model was trained on come first, and tell that the first row has names.
    choose(page, "many_classes")
    page.evaluate("described.facts.columns = { text: 'Wo gewesen?' }")
    page.get_by_label("Rows").fill("text,Wo gewesen?\na long text of the table,Rom\nanother one,Bonn\n")
    assert page.locator("#columns option:checked").all_text_contents() == ["Wo gewesen?"]
    page.get_by_label("Rows").fill("1,Wo gewesen?\n3,Rom\n")
    assert page.locator("#header").is_checked()
    page.evaluate("described.facts.columns = null")
    page.get_by_label("Rows").fill(",Bemerkung,Ort\n7,Sehr schön,Rom\n9,Nie wieder,Bonn\n")
    choose(page, "many_classes")
    assert page.locator("#column_text option").all_text_contents() == ["column 1", "Bemerkung", "Ort"]
    _, data, errors = answer_table(page)
    header, *rows = rows_of(data)
    assert header[:3] == ["", "Bemerkung", "Ort"]
    assert [row[:3] for row in rows] == [["7", "Sehr schön", "Rom"], ["9", "Nie wieder", "Bonn"]]
    assert errors == []


def test_a_dropped_file_in_batches(visit, heads, client, tmp_path):
    """A list of texts without a header; the server rejects one row, which is found in its batch."""
    page = visit(heads, quiet=False)
    sizes = []
    choose(page, "many_classes")

    def answer(route):
        texts = route.request.post_data_json["inputs"]["text"]
        sizes.append(len(texts))
        if "bad 70" in texts:
            return route.fulfill(status=400, json={"error": "a bad text"})
        return route.continue_()

    page.route("**/*:predict", answer)
    path = tmp_path / "texts.csv"
    texts = [f"a, b {number}" * (1 + number % 3) for number in range(300)]
    texts[70] = "bad 70"
    path.write_text("\ufeff" + "\r\n".join(texts), encoding="utf-8")
    page.locator("#file").set_input_files(path)
    page.get_by_text("texts.csv: 300 rows.", exact=True).wait_for()
    assert page.locator("#file_name").text_content() == "texts.csv"
    name, data, errors = answer_table(page)
    header, *rows = rows_of(data.removeprefix(b"\xef\xbb\xbf"))
    assert name == "texts.answers.csv"
    assert data[:3] == b"\xef\xbb\xbf"
    assert header == ["column 1", "label", "score", *COUNTS, "error"]
    assert [row[0] for row in rows] == texts
    assert errors == ["Row 71: a bad text"]
    assert rows[70][-1] == "a bad text"
    assert max(sizes) == 32
    assert len(sizes) < 25
    answers = client.predict("many_classes", {"text": texts})
    labels = [row[1] for row in rows]
    assert labels[:70] == answers["label"][:70].tolist()
    assert labels[71:] == answers["label"][71:].tolist()

    path.write_bytes(b"caf\xe9")
    page.locator("#file").set_input_files(path)
    page.get_by_text("texts.csv is not text in UTF-8.").wait_for()
    assert page.locator("#answer_all").is_disabled()  # The rows of the file before are gone.


def test_tables_of_all_heads(visit, heads, client):
    page = visit(heads)
    for model, text, columns in (
        ("score", "text,pair\na,b\n", ["value"]),
        ("tags", "some words", ["entities"]),
        ("answers", "context\tquestion\na b\tc\n", ["answer", "score", "start", "end"]),
        ("or_no_answer", "question,context\na,b c\n", ["answer", "score", "start", "end", "null_score"]),
        ("choices", "question,A,B,C\na,b,c,\ne,f,g,h\n", ["choice", "scores"]),
        ("translations", "a b\nc", ["translation", "score"]),
        ("vectors", "a, b\nc", ["embedding"]),
    ):
        choose(page, model)
        page.get_by_label("Rows").fill(text)
        _, data, errors = answer_table(page)
        delimiter = "\t" if "\t" in text else ","
        header, *rows = rows_of(data, delimiter)
        outputs = [*columns, *COUNTS, "error"]
        inputs = ["column 1"]
        if len(header) - len(outputs) > 1:  # The table has a header.
            inputs = text.split("\n")[0].split(delimiter)
        assert header == inputs + outputs
        assert errors == []
        assert all(len(row) == len(header) for row in rows)
    assert json.loads(rows[0][1]) == pytest.approx(client.predict("vectors", ["a, b"])["embedding"][0], abs=1e-5)
    # Offsets count characters, as in Python; `label` and `error` may be names of columns and of classes.
    choose(page, "tags")
    page.get_by_label("Separated by").select_option("line breaks only")
    page.get_by_label("Rows").fill(ODD.replace("\n", " "))
    _, data, _ = answer_table(page)
    ((text, found, *_),) = rows_of(data)[1:]
    assert len(json.loads(found)) > 3
    assert all(text[each["start"] : each["end"]] == each["text"] for each in json.loads(found))
    header, row = page.evaluate("""() => {
      const answer = { labels: ["error", "7", "label"], label: "7", probabilities: [0.25, 0.5, 0.25] };
      sheet.answers = [{ columns: ANSWER_COLUMNS.classification(answer) }];
      return answered(["label", "model_label"], [["a", "b"]]);
    }""")
    names = ["predicted_label", "score", "score_error", "score_7", "score_label", "error"]
    assert header == ["label", "model_label", *names]
    assert row == ["a", "b", "7", "0.5", "0.25", "0.5", "0.25", ""]


def test_responses_and_csv_are_read_as_by_python(visit, heads):
    page = visit(heads)
    answer = page.evaluate(r"""parse('{"NaN": [NaN, -Infinity, 1.5], "\\\\\\"NaN": "is NaN"}')""")
    assert answer == {"NaN": ["NaN", "-Infinity", 1.5], '\\"NaN': "is NaN"}
    assert page.evaluate("[NaN, 'NaN', 0, 0.0004, 1].map(percent)") == ["NaN", "NaN", "0.0%", "< 0.1%", "100.0%"]
    rows = [['a "b" c', "", "x\r\ny"], ['"', ",;\t", " é "], ["last", "1", "2"]]
    for separator in (",", ";", "\t"):
        text = io.StringIO()
        csv.writer(text, delimiter=separator).writerows(rows)
        assert page.evaluate("([text, by]) => parseTable(text, by)", [text.getvalue(), separator]) == rows
        assert page.evaluate("separatorOf", text.getvalue()) == separator
        lines = page.evaluate("([rows, by]) => rows.map((row) => csvLine(row, by))", [rows, separator])
        assert list(csv.reader(io.StringIO("\r\n".join(lines), newline=""), delimiter=separator)) == rows
    cases = {
        "one, two\nand three\nfour, five, six": ("", [["one, two"], ["and three"], ["four, five, six"]]),
        'text\n"a, b"\n"c"': (",", [["text"], ["a, b"], ["c"]]),
        # Quotes as in GLUE's files: part of the text.
        'a\t"b" c\n"d\te': ("\t", [["a", '"b" c'], ['"d', "e"]]),
        "a,b\r\n\r\nc,": (",", [["a", "b"], ["c", ""]]),
        'text\na\n\n""\nb': (",", [["text"], ["a"], [""], ["b"]]),
        '"is it\ngood?"\n' * 9000: (",", [["is it\ngood?"]] * 9000),
        "": ("", []),
    }
    for text, expected in cases.items():
        found = page.evaluate("text => [separatorOf(text), parseTable(text, separatorOf(text))]", text)
        assert tuple(found) == expected


def test_generic_signatures_and_server_errors(visit, server):
    page = visit(server, quiet=False)
    assert ask(page, "many", "serving_default", text="ä", pair="<b>") == "serving_default"
    assert json.loads(page.locator("#shown pre").text_content()) == ["ä+<b>"]
    assert page.locator("#task option").all_text_contents() == ["serving_default", "lists", "picky", "unique", "whole"]
    choose(page, "many", "picky")
    page.locator("#field_text").fill("spoilt")
    press(page, "Ask")
    assert "a spoilt text" in failure(page)
    assert page.locator("#headline").is_hidden()
    page.locator("#field_text").fill("fresh")
    press(page, "Ask")
    assert headline(page) == "picky"
    assert page.locator("#error").is_hidden()


def test_missing_broken_and_new_versions_and_a_stopped_server(visit, running, drop, until, tmp_path):
    with running(tmp_path, ready=False) as server:
        page = visit(server, quiet=False)
        assert failure(page).startswith("There is no model yet.")
        broken = tmp_path / "only" / "1"
        broken.mkdir(parents=True)
        (broken / "saved_model.pb").write_bytes(b"nothing")
        page.get_by_text("Version 1 failed to load: ").wait_for()
        assert page.locator("#ask").is_disabled()
        drop("text/2", tmp_path / "only" / "2")
        assert ask(page, "only", text="a")
        assert page.locator("#about").text_content().startswith("Version 2. Version 1 failed to load: ")
        assert page.locator("#facts").text_content().startswith("only, version 2, ")
        drop("text/1", tmp_path / "only" / "3")
        until(lambda: server.send("GET", "/v1/models/only/metadata")[1]["model_spec"]["version"] == "3")
        press(page, "Ask")
        page.get_by_text("only, version 3, ").wait_for()
        assert page.locator("#about").text_content().startswith("Version 3")
    press(page, "Ask")
    assert failure(page) == "The server does not respond. Is it still running?"
    assert page.locator("#field_text").input_value() == "a"


def test_keyboard_only_use(visit, heads):
    page = visit(heads)
    choose(page, "masks")
    page.evaluate("document.activeElement.blur()")
    order = ["model", "task", "field_text", "ask", "example", "mask"]
    for name in order:
        page.keyboard.press("Tab")
        focused = "(({id}, {outlineStyle, outlineWidth}) => [id, outlineStyle, outlineWidth])"
        state = page.evaluate(f"{focused}(document.activeElement, getComputedStyle(document.activeElement))")
        assert state == [name, "solid", "3px"]
        if name == "field_text":
            page.keyboard.press("Control+A")
            page.keyboard.type("a [MASK] b")
            page.keyboard.press("Control+Enter")
            headline(page)
            assert page.evaluate("document.activeElement.id") == "field_text"
    # Every field has a label.
    assert page.locator("select, textarea").evaluate_all("all => all.every(box => box.labels.length === 1)")


def test_curl_command_is_equivalent_and_a_reload_keeps_the_input(visit, heads, client):
    page = visit(heads, permissions=["clipboard-read", "clipboard-write"])
    text = ODD + """ it's "$HOME" `ls` \\ ! @a"""
    ask(page, "masks", "next_sentence", text=text, pair="b")
    page.get_by_text("The same request with curl").press("Enter")
    press(page, "Copy")
    page.get_by_text("Copied.").wait_for()
    command = page.evaluate("navigator.clipboard.readText()")
    assert command == page.locator("#curl").text_content()
    said = subprocess.run(["sh", "-c", command], capture_output=True, check=True, timeout=30).stdout
    expected = predict(client, "masks", "next_sentence", text=text, pair="b")
    outputs = json.loads(said)["outputs"]
    assert outputs.keys() == expected.keys()
    assert outputs["probability"] == pytest.approx([expected["probability"]], abs=1e-6)

    page.reload()
    page.locator("#ask:enabled").wait_for()
    assert page.get_by_label("Model").input_value() == "masks"
    assert page.get_by_label("Task").input_value() == "next_sentence"
    assert page.locator("#field_text").input_value() == text
    press(page, "Example")
    assert page.locator("#field_text").input_value() != text


def test_no_horizontal_overflow(visit, heads):
    page = visit(heads)
    for model in page.get_by_label("Model").locator("option").all_text_contents():
        choose(page, model)
        for box in page.locator("textarea").all():
            text = "w" * 300 + " [MASK] " + ODD
            if box.get_attribute("id") == "rows":
                text = "text,pair\n" + ("w" * 300 + ",b\n") * 3 + ",\n"
            box.fill(text)
        press(page, "Ask")
        headline(page)
        page.locator("#answer_all").click()
        page.locator("#download:not([hidden])").wait_for()
        page.locator("details:not([open]) summary").evaluate_all("all => all.forEach(one => one.click())")
        for width in (360, 2400):
            page.set_viewport_size({"width": width, "height": 700})
            assert page.evaluate("document.documentElement.scrollWidth") == width, model


@pytest.fixture(scope="module")
def explained(running, until, config, pieces, tmp_path_factory):
    """A server with a classifier of pairs and a tagger that explain their answers, and one that reads windows."""
    folder = tmp_path_factory.mktemp("explained")
    preprocessor = keras_bert.TextPreprocessor(pieces, 40)
    pairs = keras_bert.build_classifier(keras_bert.build_encoder(config), 2)
    keras_bert.export(pairs, preprocessor, folder / "pairs" / "1", labels=["no", MARKUP], pair=True, explain=True)
    tags = keras_bert.build_token_classifier(keras_bert.build_encoder(config), 3)
    keras_bert.export(tags, preprocessor, folder / "tags" / "1", labels=["B-X", "I-X", "O"], explain=True)
    windows = keras_bert.TextPreprocessor(pieces, 8, padding="longest", long_texts="windows")
    keras_bert.export(pairs, windows, folder / "windows" / "1", labels=["x", "y"])
    with running(folder, ready=False) as server:
        until(lambda: server.shelf.ready, 120)
        yield server


def test_words_are_coloured_by_a_click(visit, explained):
    """Numbers in accessible names and on focus; a legend; what is no colour tells the sign, too."""
    page = visit(explained)
    with Client(f"127.0.0.1:{explained.port}") as client:
        expected = predict(client, "pairs", "explain", text="é ab c", pair=MARKUP)
    ask(page, "pairs", text="é ab c", pair=MARKUP)
    assert not page.locator("#tasks").is_visible()  # It is no task of its own.
    press(page, "Which words?")
    page.locator(".why h3").wait_for()
    assert page.locator(".why h3").text_content() == f"Why “{expected['target']}”"
    assert page.evaluate("document.activeElement.tagName") == "H3"
    shown = page.locator(".why .text .effect")
    count = int(expected["word_count"])
    assert shown.all_text_contents() == list(expected["words"][:count])
    names = shown.evaluate_all("all => all.map(one => one.getAttribute('aria-label'))")
    lines = shown.evaluate_all("all => all.map(one => getComputedStyle(one).borderBottomStyle)")
    numbers = []
    expected_lines = []
    for score in expected["scores"][:count]:
        sign = "−" if score < 0 else "+"
        numbers.append(f"{sign}{abs(float(score)):.2f}")
        expected_lines.append("dashed" if score < 0 else "solid")
    assert names == [f"{word} {number}" for word, number in zip(expected["words"], numbers, strict=False)]
    assert lines == expected_lines
    shown.first.focus()
    told = shown.first.evaluate("one => getComputedStyle(one, '::after').content")
    assert told == f'"{numbers[0]}"'
    assert page.locator(".why .text").all_text_contents() == ["é ab c", MARKUP]
    assert "lowers it" in page.locator(".why").text_content()

    ask(page, "tags", text="")
    press(page, "Which words?")
    page.get_by_text("There are no words.").wait_for()
    ask(page, "tags", text="a " * 100 + "w" * 300)
    press(page, "Which words?")
    page.locator(".why h3").wait_for()
    assert re.fullmatch("Why “(B-X|I-X|O)” for “a”", page.locator(".why h3").text_content())
    page.set_viewport_size({"width": 360, "height": 700})
    assert page.evaluate("document.documentElement.scrollWidth") == 360


def test_the_strongest_window_is_marked(visit, explained):
    page = visit(explained)
    text = " ".join([ODD, MARKUP, "a b c d"])
    with Client(f"127.0.0.1:{explained.port}") as client:
        expected = predict(client, "windows", text=text)
    start = int(expected["strongest_start"])
    end = int(expected["strongest_end"])
    windows = int(expected["windows"])
    content = text.encode()
    assert windows > 2
    ask(page, "windows", text=text)
    assert page.locator("#shown h3").text_content() == f"The strongest of {windows} windows"
    assert page.locator("#shown mark").text_content() == content[start:end].decode()
    assert page.locator("#shown .text").text_content() == text
    characters = {"start": len(content[:start].decode()), "end": len(content[:end].decode())}
    quoted = text.replace('"', '""')
    page.locator("#rows").fill(f'text\n"{quoted}"')
    header, values = rows_of(answer_table(page)[1])
    row = dict(zip(header, values, strict=True))
    assert (int(row["windows"]), json.loads(row["strongest"])) == (windows, characters)
    ask(page, "windows", text="a")
    assert page.locator("#shown mark").count() == 0  # All of the text is one window.

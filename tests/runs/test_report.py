"""The parsed report, compared with hand-computed numbers and scikit-learn."""

import csv
import math

import numpy as np
import pytest
from sklearn.metrics import confusion_matrix, multilabel_confusion_matrix, precision_recall_fscore_support

from keras_bert.answering.prediction_files import read_texts
from keras_bert.reports.judged import Judged, JudgedNumbers
from keras_bert.reports.page import NOTHING, Headline, ReportHead
from keras_bert.runs import grid
from keras_bert.runs.report import write_report
from keras_bert.tasks.classification.multi_label_task import judge_sets
from tests.runs.parsed import Page, having, rows_of, rows_of_table, text_of


def result(score, metric="f1", **setting):
    return {"setting": setting, "scores": {metric: score, "loss": 0.51234}}


def curve(losses=(0.7, 0.5), scores=(0.8,), metric="f1"):
    line = {"kind": "train", "learning_rate": 1e-5, "time": {"steps": 2}}
    train = [{"step": 10 * n, "loss": v, **line} for n, v in enumerate(losses, 1)]
    return train + [{"step": 20 * n, "kind": "evaluation", "loss": 0.5, metric: v} for n, v in enumerate(scores, 1)]


def dev_of(rows=50, classes=2):
    rng = np.random.default_rng(0)
    texts = [f"text {row}" for row in range(rows)]
    targets = rng.integers(0, classes, rows).tolist()
    return {"text": texts, "pair": texts, "targets": targets, "logits": rng.normal(size=(rows, classes))}


RESULTS = [result(0.80, rate=1, seed=1), result(0.90, rate=1, seed=2), result(0.70, rate=2, seed=1)]


def report_of(labels, text, pair, targets, logits, numbers=None, **options):
    fields = {"texts": {"text": text} | ({} if pair is None else {"pair": pair}), "place": numbers, **options}
    if not labels:
        return JudgedNumbers.of_numbers(targets, logits, **fields).report()
    return Judged.of_classes(labels, targets, logits, **fields).report()


@pytest.fixture
def write(tmp_path):
    def run(labels=("no", "yes"), dev=None, **changes):
        dev = dev or dev_of()
        curves = {grid.folder_name(run["setting"]): curve() for run in changes.get("results", RESULTS)}
        sections, errors = report_of(labels, **dev)
        arguments = {"head": ReportHead("MRPC - base", {"Model": "base"}), "metric": "f1", "results": RESULTS}
        arguments |= {"run_curves": curves, "sections": sections, "errors": errors}
        path = tmp_path / "report.html"
        write_report(path, **{**arguments, **changes})
        assert {found.name for found in tmp_path.iterdir()} == {"report.html", "errors.tsv"}
        return Page(path)

    return run


def test_rows_have_their_number_in_the_file():
    logits = np.array([[0.0, 2.0], [1.0, 0.0]])
    _, *rows = report_of(["no", "yes"], ["a", "b"], None, [0, 1], logits, numbers=[5, 10])[1]
    assert [(row[0], row[-1]) for row in rows] == [(5, "a"), (10, "b")]
    _, *rows = report_of([], ["a", "b"], None, [0.0, 3.0], [[1.0], [3.0]], numbers=[5, 10])[1]
    assert [(row[0], row[-1]) for row in rows] == [(5, "a"), (10, "b")]


def test_sections_and_no_external_resources(write):
    page = write()
    names = ["Scores of the runs", "Learning curves", "Confusion matrix", "Classes", "Calibration"]
    names += ["Hardest examples of dev", "All errors"]
    assert list(page.sections) == names
    assert all(having(section, "how") for section in page.sections.values())
    for part in ("http://", "https://", "url(", "@import", "<script"):
        assert part not in page.source
    assert "default-src 'none'; style-src 'unsafe-inline'" in {meta.get("content") for meta in page.root.iter("meta")}
    for element in page.root.iter():
        assert not {"src", "srcset", "data"} & set(element.attrib)
    contents = [f"#{section.get('id')}" for section in page.sections.values()]
    assert contents[:2] == ["#scores-of-the-runs", "#learning-curves"]
    assert [link.get("href") for link in page.root.iter() if link.get("href")] == [*contents, "errors.tsv"]
    assert [link.text for link in page.root.find("body/nav")] == names


def test_scores_and_spread(write):
    section = write().sections["Scores of the runs"]
    values = [text_of(element) for element in having(section, "value")]
    assert values[0].startswith("85.00% ± 7.07% 80.00% to 90.00%, 2 runs")  # sqrt(50), the sample standard deviation.
    assert values[0].endswith("best run: 90.00%, seed 2")
    assert values[1] == "70.00% one run"
    first, second = having(section, "strip")
    places = [float(dot.get("cx").rstrip("%")) for dot in having(first, "dot") + having(second, "dot")]
    assert places[1] - places[0] == pytest.approx(places[0] - places[2], abs=0.02)  # 90 - 80 = 80 - 70
    assert [text_of(dot) for dot in having(section, "best", "circle")] == ["best run: 90.00%, seed 2"]
    (band,) = having(section, "band")
    width = 2 * math.sqrt(50) / 10 * (places[0] - places[2])
    assert float(band.get("width").rstrip("%")) == pytest.approx(width, abs=0.05)
    assert rows_of(section, "list")[1] == ["2", "90.00%", "0.5123", "1", "2"]
    assert [text_of(row[0]) for row in having(section, "best", "tr")] == ["2"]


def test_scores_of_any_size(write):
    for score, text in ((-0.25, "-25.00%"), (0.0, "0.00%"), (1.0, "100.00%")):
        page = write(results=[result(score, rate=rate, seed=1) for rate in (1, 2)])
        assert text_of(having(page.root, "value")[0]).startswith(f"{text} one run")
        assert "in percent" in page.text("Scores of the runs")
        page = write(results=[result(score, seed=1)])  # A single run has no chart.
        assert rows_of(page.sections["Scores on dev"], "list") == [["1", text, "0.5123", "1"]]
        assert not having(page.root, "strip")
    # Dots of equal scores do not overlap.
    page = write(results=[result(0.5, seed=seed) for seed in range(5)])
    dots = having(page.sections["Scores of the runs"], "dot")
    assert len({(dot.get("cx"), dot.get("cy")) for dot in dots}) == 5
    assert "50.00% ± 0.00%" in page.source


def test_runs_without_a_score(write):
    diverged = {"setting": {"rate": 0, "seed": 1}, "scores": {"f1": math.nan}, "diverged": "at step 3"}
    page = write(results=[diverged, *RESULTS], run_curves={})
    assert "Runs without a finite f1, not plotted: 1." in page.source
    assert "No run has a curve." in page.source


def polylines(figure):
    points = {}
    for line in having(figure, "line", "polyline"):
        pairs = line.get("points").split()
        points[text_of(line)] = [tuple(map(float, pair.split(","))) for pair in pairs]
    return points


def figures(page):
    return list(page.sections["Learning curves"].iter("figure"))


def test_curves(write):
    curves = {
        "rate=1,seed=1": curve([0.8, math.nan, 0.4, math.inf, 0.2], [0.5, 0.6]),
        "rate=1,seed=2": curve([0.6, 0.6, 0.6], [None]),
        "rate=2,seed=1": [],
        "rate=3,seed=1": curve([math.nan], []),
    }
    page = write(run_curves=curves)
    losses, scores, rates = map(polylines, figures(page))
    assert list(losses) == ["seed 1, training", "seed 2, training", "seed 1, dev", "seed 2, dev"]
    assert (list(scores), list(rates)) == (["seed 1, score"], ["seed 1, rate", "seed 2, rate"])
    # Steps 10, 30 and 50 and losses 0.8, 0.4 and 0.2; the loss on dev is 0.5 at steps 20 and 40.
    ((x0, y0), (x1, y1), (x2, y2)), second, dev, _ = losses.values()
    assert x2 - x1 == pytest.approx(x1 - x0, abs=0.11)
    assert y1 - y0 == pytest.approx(2 * (y2 - y1), abs=0.21)
    assert [y for _, y in second] == pytest.approx([(y0 + y1) / 2] * 3, abs=0.11)  # 0.6, between 0.8 and 0.4
    assert [x for x, _ in dev] == pytest.approx([(x0 + x1) / 2, (x1 + x2) / 2], abs=0.11)
    assert [y for _, y in dev] == pytest.approx([(y0 + 3 * y1) / 4] * 2, abs=0.11)
    assert "Without a curve: rate=2,seed=1; rate=3,seed=1." in page.source
    assert "nan" not in page.source.lower()


def test_short_curves(write):
    """A single evaluation is a dot; a curve may be missing."""
    page = write(run_curves={"rate=1,seed=2": curve([0.5], [0.8])})
    assert [len(having(figure, "dot", "circle")) for figure in figures(page)] == [2, 1, 1]
    assert "best run: rate 1, seed 2" in page.text("Learning curves")
    assert "No f1 on dev (%) was logged." in write(run_curves={"a": curve([0.5], [])}).source
    assert "No learning rate was logged." in write(run_curves={"a": curve([], [0.5])}).source


def test_curves_of_many_runs(write):
    for count, colours, others in ((8, 8, [f"seed {seed}" for seed in range(7)]), (60, 2, ["the other 59 runs"])):
        page = write(results=[result(0.5 + seed / 1000, seed=seed) for seed in range(count)])
        drawn = [line.get("class") for line in having(figures(page)[1], "line", "polyline")]
        assert (len(drawn), len(set(drawn)), drawn[-1]) == (count, colours, "line best score")
        assert [text_of(item) for item in having(page.root, "key")[0]] == [f"best run: seed {count - 1}", *others]


def test_long_curves_keep_their_extremes(write):
    losses = [*np.linspace(1, 0.5, 9_999).tolist(), 2.0]
    losses[4321] = 3.0
    losses[7000] = 0.1
    points, _ = polylines(figures(write(run_curves={"a": curve(losses)}))[0]).values()
    assert 500 < len(points) <= 1002
    heights = [y for _, y in points]  # In SVG, y increases downwards.
    assert sorted(heights)[:2] == [min(heights), heights[-1]]
    assert heights[-1] - min(heights) == pytest.approx((max(heights) - min(heights)) / 2.9, abs=0.2)  # 1 of 3 - 0.1


def table(tmp_path):
    with open(tmp_path / "errors.tsv", newline="", encoding="utf-8") as file:
        return list(csv.reader(file, "excel-tab"))


def test_all_errors_are_in_a_table(write, tmp_path):
    text = ['a\t"b"', '"c"', "=1+1\r\nd", ""]
    logits = np.log([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.3, 0.7]])
    page = write(dev={"text": text, "pair": text[::-1], "targets": [1, 1, 1, 0], "logits": logits})
    assert "errors.tsv, 3 rows" in page.text("All errors")
    assert table(tmp_path)[1:] == [
        ["1", "yes", "no", "0.9", "2.30259", text[0], text[3]],  # -log(0.1)
        ["4", "no", "yes", "0.7", "1.20397", text[3], text[0]],  # -log(0.3)
        ["3", "yes", "no", "0.6", "0.916291", f"'{text[2]}", text[1]],  # -log(0.4)
    ]
    write(**regression([0.0, 1.0, 2.0], [-0.5, 1.0, 4.0]))
    assert [line[:4] for line in table(tmp_path)[1:3]] == [["3", "2", "4", "2"], ["1", "0", "-0.5", "0.5"]]


FORMULAS = [
    "=1+1",
    "+1+1",
    "-1+1",
    "@SUM(1)",
    " =1",
    "\xa0=1",
    "-inf",
    "- a",
    "'=1",
    "'tis",
    '="a"',
    "=cmd|'/C calc'!A0",
]
FORMULAS += ["\uff1d1", "\uff0b1", "\uff0d1", "\uff20A", "\ta", "\ra", "\na", "\0=1"]
NO_FORMULAS = ["a=1", "a,=1;=1", 'a "b"', "a\t=1", "a\n=1", "1-1", "n't", "", "-0.5", "+1", "-1e-05", "7"]


def test_texts_are_no_formulas_in_spreadsheets(write, tmp_path):
    cells = FORMULAS + NO_FORMULAS
    write(errors=[["row", "text"], *enumerate(cells)])
    found = [text for _, text in table(tmp_path)[1:]]
    assert found == [f"'{text}" for text in FORMULAS] + NO_FORMULAS
    content = (tmp_path / "errors.tsv").read_bytes().decode()
    # In quotes, since spreadsheets may split at commas too; numbers alone are not.
    assert content.startswith('"row"\t"text"\n0\t"\'=1+1"\n')
    assert content.endswith("\t-0.5\n29\t+1\n30\t-1e-05\n31\t7\n")
    (tmp_path / "errors.csv").write_bytes(content.encode())  # TSV has one line for each row.
    assert [row["text"] for row in read_texts(tmp_path / "errors.csv", [("text",)])] == found


def test_head(write):
    settings = {"warmup": 0.1, "dev": {"x": 96, "y": [1, 2]}, "test": {}, "best": True}
    run = {"machine": "8 cores", "command": "keras-bert run_glue"}
    warnings = ["Warning: no better."]
    page = write(head=ReportHead("a", {"truncated": "none"}, run=run, settings=settings, warnings=warnings))
    facts, of_run, of_settings = [list(map(text_of, block)) for block in page.root.iter("dl")]
    assert facts == ["truncated", "none"]
    assert [text.strip() for text in of_run] == ["machine", "8 cores", "command", "keras-bert run_glue"]
    assert of_settings[::2] == ["warmup", "dev", "test", "best"]
    assert of_settings[1::2] == ["0.1", "x: 96, y: 1; 2", "none", "yes"]
    assert text_of(having(page.root, "warning")[0]) == "Warning: no better."


def test_headline(write):
    headline = Headline("accuracy", 0.7395, "always <b>", 0.5)
    page = write(head=ReportHead("a", {}, headline=headline))
    shown = text_of(having(page.root, "headline")[0])
    assert shown == "74.0% accuracy, 24.0 points above the baseline"
    widths = [bar.get("style") for bar in having(page.root, "track")]
    assert widths == ["--share:0.740", "--share:0.500"]


def test_headline_without_a_baseline(write):
    headline = Headline("accuracy", 0.8, rows=10)
    page = write(head=ReportHead("a", {}, headline=headline))
    assert text_of(having(page.root, "headline")[0]) == "80.0% accuracy (95% interval 49 to 94%, of 10 rows)"
    assert not having(page.root, "track")


def test_best_epochs(write):
    page = write(results=[result(0.8, epochs=5, seed=1) | {"epoch": 2}, result(0.7, epochs=5, seed=2)])
    rows = rows_of(page.sections["Scores of the runs"], "list")
    assert [row[3:] for row in rows] == [["5 (best: 2)", "1"], ["5", "2"]]


def test_confusion_matrix(write):
    dev = dev_of(400, 25)
    page = write(labels=[f"class {number}" for number in range(25)], dev=dev)
    section = page.sections["Confusion matrix"]
    expected = confusion_matrix(dev["targets"], dev["logits"].argmax(-1))
    (table,) = having(section, "heat", "table")
    cells = [row.findall("td") for row in table.find("tbody")]
    counts = []
    for row in cells:
        counts.append([int(cell.text.replace("·", "0")) for cell in row])
    np.testing.assert_array_equal(counts, expected)
    assert text_of(cells[0][0].find("small")) == f"{expected[0, 0] / expected[0].sum():.0%}"
    assert len(having(section, "hit")) == 25
    assert f"{np.trace(expected):,} of 400 are correct" in page.source


def test_confusions_of_300_classes(write):
    dev = dev_of(3000, 300)
    dev["targets"][:7] = [11] * 7
    dev["logits"][:7, 250] = 100
    page = write(labels=[f"class {number}" for number in range(300)], dev=dev)
    assert list(page.sections)[2:4] == ["Confusions", "Classes"]
    rows = rows_of(page.sections["Confusions"], "list")
    expected = confusion_matrix(dev["targets"], dev["logits"].argmax(-1), labels=range(300))
    assert rows[0][:3] == ["class 11", "class 250", str(expected[11, 250])]
    wrong = np.sort(expected[~np.eye(300, dtype=bool)])[::-1]
    assert [int(row[2]) for row in rows] == wrong[:30].tolist()
    assert len(rows_of(page.sections["Classes"], "list")) == 300
    assert "The lowest F1 comes first" in page.text("Classes")


def test_classes(write):
    # Class 3 has no example; classes 2 and 4 are never predicted.
    targets = [0, 0, 0, 1, 1, 2]
    predictions = [0, 0, 1, 1, 3, 1]
    dev = {"text": ["x"] * 6, "pair": None, "targets": targets, "logits": np.eye(5)[predictions]}
    rows = rows_of(write(labels=list("abcde"), dev=dev).sections["Classes"], "list")
    found = precision_recall_fscore_support(targets, predictions, labels=range(5), zero_division=np.nan)
    for row, name, *numbers, support in zip(rows, "abcde", *found, strict=True):
        percents = [NOTHING if math.isnan(number) else f"{number:.1%}" for number in numbers]
        assert row == [name, *percents, str(support), str(predictions.count("abcde".index(name)))]


def test_hardest_examples(write):
    """The rows with the highest loss, which increases with the row; wrong ones first, then by confidence."""
    logits = np.array([[row - 10.0, 0.0] for row in range(25)])
    dev = {"text": [f"text {row}" for row in range(25)], "pair": None, "targets": [1] * 25, "logits": logits}
    items = having(write(labels=["a", "b"], dev=dev).root, "hard")[0].findall("li")
    shown = []
    for item in items:
        shown.append([text_of(part) for part in item.findall("p")])
    assert [text for _, text in shown] == [f"text {row}" for row in [*range(24, 9, -1), *range(5, 10)]]
    assert shown[0][0] == "row 25 · true b · predicted a with 100.0% · loss 14"
    assert shown[12][0] == "row 13 · true b · predicted a with 88.1% · loss 2.13"  # 1 / (1 + exp(-2)), log(1 + exp(2)).
    assert shown[-1][0] == "row 10 · true b · predicted b with 73.1% · loss 0.313 · correct"


def test_several_labels(write, tmp_path):
    """Each label with its threshold, against scikit-learn; pairs of labels and the hardest examples by hand."""
    labels = ["a", "b<", "c"]
    targets = np.array([[1, 0, 0], [1, 1, 0], [0, 0, 0], [1, 0, 0], [1, 1, 0]])
    probabilities = np.array([[0.9, 0.1, 0.1], [0.2, 0.7, 0.4], [0.45, 0.55, 0.25], [0.1, 0.2, 0.9], [0.8, 0.4, 0.1]])
    thresholds = [0.5, 0.6, 0.3]
    fields = {"texts": {"text": list("vwxyz")}, "place": [5, 6, 7, 8, 9]}
    logits = np.log(probabilities / (1 - probabilities))
    sections, errors = judge_sets(labels, targets, logits, thresholds, **fields).report()
    page = write(sections=sections, errors=errors)
    predicted = probabilities >= thresholds
    rows = rows_of(page.sections["Labels"], "list")
    names = ["a", "b<", "c", "all (micro)", "mean (macro)"]
    assert [row[:2] for row in rows] == list(map(list, zip(names, ["0.5", "0.6", "0.3", "", ""], strict=True)))
    matrices = multilabel_confusion_matrix(targets, predicted)
    for row, ((tn, fp), (fn, tp)) in zip(rows, matrices, strict=False):
        assert row[5:] == [str(tp), str(fp), str(fn), str(tn)]
    for average, row in (("micro", rows[3]), ("macro", rows[4])):
        f1 = precision_recall_fscore_support(targets, predicted, average=average, zero_division=0.0)[2]
        assert row[2] == f"{f1:.1%}"
    assert rows[2][2:5] == ["0.0%", "0.0%", NOTHING]
    assert "In 2 of 5 examples all labels are correct, 40.00%." in page.source
    instead, together = map(rows_of_table, having(page.sections["Pairs of labels"], "list", "table"))
    assert instead == [["a", "c", "2", "100.0%"]]
    assert together == [["a", "b<", "2", "0"], ["b<", "c", "0", "1"]]
    sizes = []
    for row in page.sections["Number of labels"].iter("tr"):
        sizes.append([cell.text for cell in row.findall("td")])
    assert sizes[1:] == [list("100"), list("020"), list("011")]
    items = having(page.root, "hard")[0].findall("li")
    hardest = [" ".join(text_of(item.find("p")).split()) for item in items]
    missed = "missed a (10.0%) · wrongly predicted c (90.0%)"
    assert hardest[0] == f"row 8 · true a · predicted c · {missed} · loss 1.61"
    # Wrong predictions come first: row 9 has a lower loss than row 7.
    assert [text.split()[1] for text in hardest] == ["8", "6", "9", "7", "5"]
    assert hardest[3] == "row 7 · true none · predicted none · loss 0.561 · correct"
    header, *wrong = csv.reader((tmp_path / "errors.tsv").read_text().splitlines(), "excel-tab")
    assert header == ["row", "true", "predicted", "missed", "wrong", "loss", "text"]
    assert [row[:5] for row in wrong][1:] == [["6", "a|b<", "b<|c", "a", "c"], ["9", "a|b<", "a", "b<", ""]]


def regression(targets, predictions):
    texts = [f"text {row}" for row in range(len(targets))]
    dev = {"text": texts, "pair": None, "targets": targets, "logits": np.array(predictions)[:, None]}
    return {"labels": [], "metric": "spearman", "dev": dev, "results": [result(-0.5, "spearman", seed=1)]}


def test_regression(write):
    page = write(**regression([0.0, 1.0, 2.0], [0.5, 1.0, 4.0]))
    assert list(page.sections)[2:] == ["Prediction against target", "Hardest examples of dev", "All errors"]
    heads = [text_of(head) for head in having(page.root, "head")]
    assert heads[0] == "row 3 · target 2 · predicted 4 · error 2"
    assert [head.split()[1] for head in heads] == ["3", "1", "2"]
    dots = having(page.root, "cloud")[0]
    (line,) = having(page.root, "diagonal")
    (x0, y0), (x1, y1), (x2, y2) = [(float(dot.get("cx")), float(dot.get("cy"))) for dot in dots]
    assert x2 - x1 == pytest.approx(x1 - x0, abs=0.11)
    assert y1 - y2 == pytest.approx(6 * (y0 - y1), abs=0.6)
    # The second point is on the diagonal.
    (left, low), (right, high) = [(float(line.get(f"x{n}")), float(line.get(f"y{n}"))) for n in (1, 2)]
    assert y1 == pytest.approx(low + (x1 - left) / (right - left) * (high - low), abs=0.2)


def test_regression_with_nan_and_many_points(write):
    page = write(**regression([2.0, 1.0], [math.nan, 1.0]))
    assert "Non-finite predictions, not plotted: 1." in page.source
    assert "error inf" in text_of(having(page.root, "head")[0])
    page = write(**regression([0.0] * 2001, [1.0] * 2001))
    assert len(having(page.root, "cloud")[0]) == 2000
    assert "2,000 of 2,001 points are plotted" in page.source


TEXTS = ["<script>alert('x')</script> & \"quotes\"", "w" * 5000, "\u0645\u0631 <b>&amp;</b>", "\U0001f600 </p></body>"]


def test_text_is_escaped_and_truncated(write):
    dev = {"text": TEXTS, "pair": TEXTS[::-1], "targets": [0, 1, 0, 1], "logits": np.ones((4, 2))}
    texts = {"<i>name": "x\" onclick='y"}
    head = ReportHead(TEXTS[0], texts, run={"command": "--a=<i> '"}, settings=texts, warnings=[TEXTS[0]])
    page = write(head=head, labels=["<script>no", '" onload="x'], dev=dev, run_curves={TEXTS[0]: curve()})
    assert {element.tag for element in page.root.iter()}.isdisjoint({"script", "i"})
    for element in page.root.iter():
        assert not any(name.startswith("on") for name in element.attrib)
    assert page.root.find("body/h1").text == TEXTS[0]
    shown = [text_of(element) for element in page.root.iter("p") if element.get("dir") == "auto"]
    assert sorted(shown) == sorted(2 * [TEXTS[0], "w" * 599 + "…", TEXTS[2], TEXTS[3]])


def test_invalid_characters_and_logits(write):
    dev = {"text": ["a\ud800b", "c\x00d"], "pair": None, "targets": [0, 1], "logits": np.ones((2, 2))}
    shown = [text_of(element) for element in write(dev=dev).root.iter("p") if element.get("dir") == "auto"]
    assert sorted(shown) == ["a?b", "c\ufffdd"]
    dev = dev_of(30)
    dev["logits"][7] = math.nan
    dev["logits"][8] = [math.inf, -math.inf]
    heads = [text_of(head) for head in having(write(dev=dev).root, "head")]
    assert {head.split()[1] for head in heads if "loss inf" in head} == {"8", "9"}

"""Indexes: their answers against NumPy, interrupted builds, other models, and damaged files."""

import json
import re
import shutil

import faiss
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import keras_bert
from keras_bert.search import build_index, open_index
from keras_bert.search.data import Passage
from keras_bert.search.index import width_of
from keras_bert.similarity import unit
from tests.search.conftest import TEXTS
from tests.search.small_indexes import Killed, content

pytestmark = [pytest.mark.tensorflow, pytest.mark.usefixtures("eager_module")]
INT8 = {"dtype": "int8", "block": 4}


@pytest.fixture(scope="module")
def index(bert, tmp_path_factory):
    return build_index(bert, TEXTS, tmp_path_factory.mktemp("index") / "index", block=4)


@pytest.fixture
def copy(index, tmp_path):
    """The folder of a copy of the index."""
    return shutil.copytree(index.directory, tmp_path / "copy")


@pytest.fixture
def quick(monkeypatch):
    """Replaces the model by random vectors, equal for equal texts; returns the list of the texts that it got."""
    seen = []

    def embed(bert, texts, *_):
        seen.extend(texts)
        vectors = []
        for text in texts:
            seed = list(text.encode(errors="replace"))
            vectors.append(np.random.default_rng(seed).normal(size=32))
        return unit(vectors)

    monkeypatch.setattr("keras_bert.search.index.embed", embed)
    return seen


@pytest.fixture
def without_pooler(saved, tmp_path):
    """The folder of an encoder whose checkpoint has no pooler."""
    folder = shutil.copytree(saved("encoder"), tmp_path / "without_pooler")
    tensors = load_file(folder / "model.safetensors")
    kept = {name: tensor for name, tensor in tensors.items() if "pooler" not in name}
    assert len(kept) == len(tensors) - 2
    save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def edited(path, **values):
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def scores_in_numpy(bert, query, similarity="cosine"):
    vectors = bert.encode(TEXTS)
    asked = bert.encode([query])
    if similarity == "cosine":
        vectors = unit(vectors)
        asked = unit(asked)
    return vectors.astype("float16").astype("float64") @ asked[0]


def scores_by_id(hits):
    return {hit["id"]: hit["score"] for hit in hits}


def order(scores):
    """Equal scores (TEXTS[0] and TEXTS[4]) are in the order of the passages."""
    return sorted(range(len(scores)), key=lambda number: (-round(scores[number], 6), number))


def test_answers(bert, index):
    expected = scores_in_numpy(bert, "a c")
    hits = index.search("a c", n_best=9)
    scores = scores_by_id(hits)
    assert list(scores) == list(map(str, order(expected)))
    np.testing.assert_allclose(list(scores.values()), np.sort(expected)[::-1], rtol=1e-3)
    for hit in hits:
        assert hit["text"] == TEXTS[int(hit["id"])]


def test_default_similarity(bert, tmp_path):
    """That of the model, if an index has it."""
    found = {}
    for function in ("dot", "euclidean"):
        model = keras_bert.build_embedder(bert.encoder)
        keras_bert.save(model, tmp_path / function, bert.vocabulary, similarity_function=function)
        found[function] = keras_bert.load(tmp_path / function)
    index = build_index(found["dot"], TEXTS, tmp_path / "index")
    expected = np.sort(scores_in_numpy(found["dot"], "a c", "dot"))[::-1]
    scores = scores_by_id(index.search("a c", n_best=len(TEXTS)))
    np.testing.assert_allclose(list(scores.values()), expected, rtol=1e-3)
    with pytest.raises(ValueError, match="by euclidean distance, which an index does not. Expected similarity=cosine"):
        build_index(found["euclidean"], TEXTS, tmp_path / "other")
    assert len(build_index(found["euclidean"], TEXTS, tmp_path / "other", similarity="dot")) == len(TEXTS)


def test_several_queries_and_all_passages(index):
    both = index.search(["a c", "x"], n_best=100)
    assert len(index) == len(TEXTS)
    assert [len(hits) for hits in both] == [len(TEXTS), len(TEXTS)]
    for hits, query in zip(both, ["a c", "x"], strict=True):
        assert scores_by_id(hits) == pytest.approx(scores_by_id(index.search(query, n_best=100)), abs=1e-5)
    assert index.search([]) == []
    empty = next(hit for hit in both[0] if hit["id"] == "1")
    assert empty["text"] == ""
    assert index.search("", n_best=1)[0] == {"id": "1", "text": "", "score": pytest.approx(1, abs=1e-3)}


def test_titles_and_ids(bert, quick, tmp_path):
    passages = [
        {"id": 5, "title": "a", "text": "b c"},
        {"_id": "x", "text": "a"},
        Passage("y", "x\ny", ""),
        "d e\ud800",
    ]
    index = build_index(bert, passages, tmp_path / "index")
    (hit,) = index.search("a b c", n_best=1)
    assert hit == {"id": "5", "title": "a", "text": "b c", "score": pytest.approx(1, abs=1e-3)}
    assert [index.passage(number)["text"] for number in range(4)] == ["b c", "a", "x\ny", "d e?"]
    assert list(index.ids()) == ["5", "x", "y", "3"]


def test_prompts(bert, tmp_path):
    index = build_index(bert, ["b"], tmp_path / "index", query_prompt="q ", passage_prompt="a ")
    expected = float(unit(bert.encode(["q x"]))[0] @ unit(bert.encode(["a b"]))[0])
    assert open_index(index.directory, bert).search("x")[0]["score"] == pytest.approx(expected, abs=1e-3)


def test_int8(bert, quick, tmp_path):
    """int8 changes scores by less than a hundredth."""
    expected = scores_by_id(build_index(bert, TEXTS, tmp_path / "float16").search("a c", n_best=9))
    for approximate in (False, True):
        options = {"dtype": "int8", "approximate": approximate, "block": 4}
        small = build_index(bert, TEXTS, tmp_path / str(approximate), **options)
        assert scores_by_id(small.search("a c", n_best=9)) == pytest.approx(expected, abs=1e-2)


@pytest.mark.parametrize("approximate", [False, True])
def test_the_nearest_of_many(bert, tmp_path, monkeypatch, approximate):
    """Against a sort of all scores in float64; half of the vectors occur several times, and the graph finds most."""
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((300, 32)).astype("float16").astype("float32")
    vectors[150:] = vectors[rng.integers(0, 50, 150)]

    def embed(bert, texts, *_):
        return vectors[[int(text or 0) for text in texts]]

    monkeypatch.setattr("keras_bert.search.index.embed", embed)
    texts = list(map(str, range(300)))
    index = build_index(bert, texts, tmp_path / "index", approximate=approximate, block=64)
    queries = rng.standard_normal((70, 32)).astype("float32")
    expected = queries.astype("float64") @ vectors.astype("float64").T
    for top in (1, 10, 300):
        numbers, scores = index.nearest(queries, top)
        np.testing.assert_allclose(scores, np.take_along_axis(expected, numbers, 1), atol=1e-5)
        is_best = np.isclose(scores, -np.sort(-expected)[:, :top], atol=1e-5)
        if approximate and top < 300:
            assert is_best.mean() > 0.9
        else:
            assert is_best.all()
        assert (np.diff(numbers)[np.diff(scores) == 0] > 0).all()  # Equal ones, none twice, are in order.
        if not approximate:  # Few queries are searched in another way.
            np.testing.assert_allclose(index.nearest(queries[:5], top)[1], scores[:5], atol=1e-5)
        assert index.nearest(queries[:0], top)[0].shape == (0, top)


@pytest.mark.parametrize(
    ("count", "approximate", "is_told"),
    [(8, None, False), (9, None, True), (9, False, False), (9, True, False)],
)
def test_only_those_who_want_a_graph_get_one(bert, quick, tmp_path, monkeypatch, caplog, count, approximate, is_told):
    """A message says what the exact search of many passages costs, unless the user has chosen."""
    caplog.set_level("INFO", "keras_bert")
    monkeypatch.setattr("keras_bert.search.index.MANY", 8)
    index = build_index(bert, TEXTS[:count], tmp_path / "index", approximate=approximate)
    assert index.facts.approximate == bool(approximate)
    assert (index.directory / "graph-00000.faiss").exists() == bool(approximate)
    assert len(index.search("a c", n_best=20)) == count
    assert ("9 passages: each query is compared with all of them" in caplog.text) == is_told


def test_a_build_does_not_speak_of_texts_that_nobody_gave(bert, tmp_path, caplog):
    build_index(bert, ["a", "b c"], tmp_path / "index")
    assert caplog.text == ""


def test_the_width_is_that_of_the_vectors(bert, saved, tmp_path):
    for model in (bert, keras_bert.load(saved("embedding")), keras_bert.load(saved("classification"))):
        assert width_of(model) == model.encode("a").shape[-1]


# What is written when the build is killed, and the passages that it need not embed again.
KILLED = {
    "pending.json": 0,
    "passages-00000.jsonl": 0,
    "offsets-00001.npy": 4,
    "keys-00001.npy": 4,
    "float16-00001.npy": 4,
    "vectors-00000.faiss": 9,
    "vectors-00002.faiss": 9,
    "graph-00000.faiss": 9,
    "index.json": 9,
}


@pytest.mark.parametrize(("kill_at", "done"), KILLED.items())
def test_an_interrupted_build_continues(bert, quick, tmp_path, monkeypatch, kill_at, done):
    file = tmp_path / "passages.txt"
    file.write_text("\n".join(TEXTS))
    options = {**INT8, "approximate": True}
    expected = content(build_index(bert, file, tmp_path / "whole", **options).directory)
    replace = type(file).replace

    def killed(self, target):
        if target.name == kill_at:
            raise Killed
        return replace(self, target)

    monkeypatch.setattr(type(file), "replace", killed)
    with pytest.raises(Killed):
        build_index(bert, file, tmp_path / "index", **options)
    monkeypatch.setattr(type(file), "replace", replace)
    message = "not complete. Repeat the build, which continues"
    if kill_at == "pending.json":
        message = "index.json is missing"
    with pytest.raises(ValueError, match=message):
        open_index(tmp_path / "index")
    quick.clear()
    build_index(bert, file, tmp_path / "index", **options)
    assert content(tmp_path / "index") == expected
    assert sorted(quick) == sorted(TEXTS[done:])


def test_a_build_that_was_killed_at_its_end_is_tidied_up(bert, quick, tmp_path, monkeypatch):
    """It has written index.json, but not removed the vectors in float16."""
    expected = content(build_index(bert, TEXTS, tmp_path / "whole", **INT8).directory)
    unlink = type(tmp_path).unlink

    def killed(self, missing_ok=False):
        if self.name == "float16-00000.npy":
            raise Killed
        unlink(self, missing_ok)

    monkeypatch.setattr(type(tmp_path), "unlink", killed)
    with pytest.raises(Killed):
        build_index(bert, TEXTS, tmp_path / "index", **INT8)
    monkeypatch.setattr(type(tmp_path), "unlink", unlink)
    assert len(open_index(tmp_path / "index")) == len(TEXTS)
    assert len(content(tmp_path / "index")) > len(expected)
    quick.clear()
    build_index(bert, TEXTS, tmp_path / "index", **INT8)
    assert content(tmp_path / "index") == expected
    assert quick == []


def test_adding_and_removing(bert, tmp_path):
    """Against indexes that are built of the same passages."""
    index = build_index(bert, TEXTS[:5], tmp_path / "index", block=4, name="model")
    index.add(TEXTS[5:])
    whole = build_index(bert, TEXTS, tmp_path / "whole", block=4)
    assert list(index.ids()) == list(whole.ids())
    assert scores_by_id(index.search("a c", n_best=20)) == pytest.approx(scores_by_id(whole.search("a c", n_best=20)))
    # Also for a build of all of them.
    assert build_index(bert, TEXTS, index.directory, block=4).facts == index.facts
    index.remove(["1", 4])
    rest = [{"id": str(number), "text": text} for number, text in enumerate(TEXTS) if number not in (1, 4)]
    whole = build_index(bert, rest, tmp_path / "rest", block=4)
    assert list(index.ids()) == list(whole.ids())
    assert index.search("a c", n_best=20) == open_index(index.directory, bert).search("a c", n_best=20)
    assert scores_by_id(index.search("a c", n_best=20)) == pytest.approx(scores_by_id(whole.search("a c", n_best=20)))
    index.remove([])
    index.add(["new", {"id": "4", "text": "x"}])  # Rows are counted on.
    assert list(index.ids())[-2:] == ["9", "4"]
    assert index.facts.name == "model"


@pytest.mark.parametrize(
    ("passages", "message"),
    [
        ([{"id": 3, "text": "x"}], "`passages`: the index already has a passage with the id '3'. Rem"),
        (["x", {"id": 9, "text": "x"}], "passages 1 and 2 have the id '9'. Expected unique ids"),
        ([], "`passages` must not be empty"),
        ([b"a"], r"`passages\[0\]` must be a string"),
    ],
)
def test_passages_that_are_not_added(bert, quick, copy, passages, message):
    before = content(copy)
    index = open_index(copy, bert)
    with pytest.raises(ValueError, match=message):
        index.add(passages)
    assert content(copy) == before


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ("x", "the index has no passage with the id 'x'$"),
        (["x", "1", "y"], "the index has no passage with the id 'x', and 1 others$"),
        ([1.5], "`ids`: column `id` .*Received: 1.5"),
        (list("012345678"), "`ids` must leave a passage in the index. Received: all of its 9"),
    ],
)
def test_passages_that_are_not_removed(bert, quick, copy, ids, message):
    before = content(copy)
    index = open_index(copy, bert)
    with pytest.raises(ValueError, match=message):
        index.remove(ids)
    assert content(copy) == before


def test_an_open_index_answers_as_before(bert, quick, tmp_path):
    """Also while others change it."""
    index = build_index(bert, TEXTS, tmp_path / "index", block=4)
    before = index.search(["a c", "q"], n_best=9)
    other = open_index(index.directory, bert)
    other.remove(["0", "5", "8"])
    other.add(["s", "t"])
    assert index.search(["a c", "q"], n_best=9) == before
    assert len(open_index(index.directory)) == len(other) == 8


@pytest.mark.parametrize(
    ("texts", "options", "message"),
    [
        (TEXTS[:-1], {}, "Different: the passages; `passages`, 9 instead of 8. Choose another folder"),
        ([*TEXTS[:-1], "x"], {}, "Different: the passages. Choose"),
        (TEXTS, {"block": 5}, "Different: `block`, 4 instead of 5"),
        (TEXTS, {"dtype": "int8"}, "`dtype`, 'float16' instead of 'int8'"),
    ],
)
def test_a_build_only_continues_its_own_index(bert, index, quick, texts, options, message):
    with pytest.raises(ValueError, match=message):
        build_index(bert, texts, index.directory, **({"block": 4} | options))


def test_a_build_does_not_continue_an_index_of_another_model(saved, index, quick):
    other = keras_bert.load(saved("embedding"))
    with pytest.raises(ValueError, match="Different: the weights; `sequence_length`"):
        build_index(other, TEXTS, index.directory, block=4)


def test_a_repeated_build_changes_nothing(bert, index, quick):
    before = content(index.directory)
    assert len(build_index(bert, TEXTS, index.directory, block=4)) == len(TEXTS)
    assert content(index.directory) == before


def test_the_model_of_an_index(bert, saved, index, tmp_path):
    with pytest.raises(ValueError, match="built with another model.* Different: the weights; `sequence_length`"):
        open_index(index.directory, keras_bert.load(saved("embedding")))
    unnamed = open_index(index.directory)
    with pytest.raises(ValueError, match="does not name its model. Expected the model"):
        unnamed.search("a")
    named = build_index(bert, TEXTS, tmp_path / "index", name=str(saved("encoder")))
    assert open_index(named.directory).search("a c") == named.search("a c")
    # A build without the name opens the index and keeps the name.
    assert build_index(bert, TEXTS, named.directory).facts.name == named.facts.name
    assert open_index(index.directory, saved("encoder")).search("a c") == index.search("a c")
    with pytest.raises(ValueError, match="built with another model"):
        open_index(index.directory, str(saved("embedding"))).search("a")


def test_the_settings_of_the_model_of_an_index(bert, without_pooler, tmp_path):
    """A pooler that the checkpoint lacks, which is random, is none of them."""
    index = build_index(keras_bert.load(without_pooler), TEXTS, tmp_path / "index", name=str(without_pooler))
    hits = open_index(index.directory).search("a c")
    assert hits == index.search("a c")
    config = without_pooler / "config.json"
    edited(config, layer_norm_eps=0.1)
    with pytest.raises(ValueError, match="another model.* `layer_norm_eps`, 0.1 instead of its default. Exp"):
        open_index(index.directory).search("a c")


def shorten(path):
    path.write_bytes(path.read_bytes()[:-10])


def forget_a_row(path):
    faiss.write_index(faiss.IndexScalarQuantizer(32, faiss.ScalarQuantizer.QT_fp16), str(path))


def replace_type(path):
    flat = faiss.IndexFlatIP(32)
    flat.add(np.zeros([9, 32], "float32"))
    faiss.write_index(flat, str(path))


def enlarge(path):
    """Changes the number of rows in the header to one that no memory holds."""
    content = path.read_bytes().replace(b"(5,), ", b"(5000000000000000,), ")
    path.write_bytes(content.replace(b" " * 15 + b"\n", b"\n", 1))


def reverse_offsets(path):
    np.save(path, -np.load(path))


def remove(path):
    path.unlink()


@pytest.mark.parametrize(
    ("name", "damage", "message"),
    [
        ("vectors-00000.faiss", shorten, "cannot be read: "),
        ("vectors-00000.faiss", forget_a_row, "r of shape (4, 32). Received: IndexScalarQuantizer of shape (0, 32)"),
        ("vectors-00000.faiss", replace_type, "expected IndexScalarQuantizer of shape (4, 32). Received: IndexFlat"),
        ("vectors-00001.faiss", remove, "the file is missing"),
        ("offsets-00000.npy", remove, "the file is missing"),
        ("offsets-00000.npy", enlarge, "cannot be read"),
        ("offsets-00001.npy", reverse_offsets, "the offsets do not increase from 0"),
        ("passages-00001.jsonl", remove, "expected 162 bytes. Received: no"),
        ("passages-00001.jsonl", shorten, "expected 162 bytes. Received: 152 bytes"),
        ("index.json", shorten, "not the facts of an index: "),
        ("index.json", remove, "no index, index.json is missing. Build it first"),
    ],
)
def test_damaged_indexes(copy, name, damage, message):
    """What is opened is checked: the files of vectors and passages. More of the facts is in test_index_files.py."""
    damage(copy / name)
    with pytest.raises(ValueError, match=re.escape(message)) as error:
        open_index(copy)
    assert name in str(error.value)


def test_damage_that_is_found_in_a_search(bert, copy):
    path = copy / "passages-00000.jsonl"
    path.write_text(path.read_text().replace('"text": "a b c"', '"texd": "a b c"'))
    with pytest.raises(ValueError, match=r"passages-00000.jsonl:1: not a passage: 'text'. The index is damaged"):
        open_index(copy, bert).search("a b c", n_best=9)
    vectors = np.full([4, 32], np.nan, "float32")
    index = faiss.IndexScalarQuantizer(32, faiss.ScalarQuantizer.QT_fp16, faiss.METRIC_INNER_PRODUCT)
    index.add(vectors)
    faiss.write_index(index, f"{copy}/vectors-00000.faiss")
    with pytest.raises(ValueError, match="the index has vectors with NaN. The index is damaged"):
        open_index(copy, bert).search("a b c", n_best=1)


def test_a_model_that_gives_nan(bert, tmp_path, monkeypatch):
    def encode(self, texts, batch_size, **prompt):
        vectors = np.ones([len(texts), 32], "float32")
        vectors[texts.index("x y z")] = np.nan
        return vectors

    monkeypatch.setattr(type(bert), "encode", encode)
    with pytest.raises(FloatingPointError, match="NaN or infinity for the passage with the id '5'"):
        build_index(bert, TEXTS, tmp_path / "index")


@pytest.mark.parametrize(
    ("passages", "options", "message"),
    [
        ([], {}, "`passages` must not be empty"),
        ([{"text": "a", "id": 1}, "b"], {}, "passages 1 and 2 have the id '1'. Expected unique ids"),
        ([b"a"], {}, r"`passages\[0\]` must be a string, a `Passage` or a dict with `text`. Received: b'a'"),
        ([{"text": "a", "title": 5}], {}, "`title` must be a string"),
        ([Passage(" ", "a")], {}, r"`passages\[0\]`: column `id` .*Received: ' '"),
        (["a"], {"dtype": "int4"}, "`dtype` must be float16 or int8. Received: dtype='int4'"),
        (["a"], {"similarity": "l2"}, "`similarity` must be one of cosine, dot. Received: similarity='l2'"),
        (["a"], {"block": 0}, "`block` must be a positive integer. Received: block=0"),
    ],
)
def test_bad_arguments(bert, quick, tmp_path, passages, options, message):
    with pytest.raises(ValueError, match=message):
        build_index(bert, passages, tmp_path / "index", **options)
    assert not (tmp_path / "index").exists()


def test_other_folders_are_not_overwritten(bert, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match="notes.txt"):
        build_index(bert, TEXTS, tmp_path)
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_what_is_no_model_builds_no_index(tmp_path):
    with pytest.raises(ValueError, match="an index needs a BERT that `keras_bert.load` returns. Received: 'model'"):
        build_index("model", TEXTS, tmp_path / "index")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda index: index.search("a", n_best=0), "`n_best` must be a positive integer. Received: n_best=0"),
        (lambda index: index.search([5]), "`queries` must be a string or a list of strings"),
        (lambda index: index.search(None), "queries"),
        (lambda index: index.passage(-1), "`number` must be that of a passage, 0 to 8. Received: number=-1"),
        (lambda index: index.passage(9), "number"),
        (lambda index: index.nearest(np.full((1, 32), np.nan)), "`vectors` must be finite. Received: NaN or infinity"),
        (
            lambda index: index.nearest(np.zeros((2, 5))),
            r"`vectors` must have shape \(queries, 32\). Received: \(2, 5\)",
        ),
    ],
)
def test_bad_searches(index, call, message):
    with pytest.raises(ValueError, match=message):
        call(index)


def test_files_are_plain(index):
    """An index can be read without this package, by NumPy and Faiss."""
    facts = json.loads((index.directory / "index.json").read_text())
    assert facts["passages"] == 9
    assert facts["width"] == 32
    assert facts["block"] == 4
    assert facts["blocks"] == [[0, 4], [1, 4], [2, 1]]
    start, end = np.load(index.directory / "offsets-00001.npy")[1:3]
    line = (index.directory / "passages-00001.jsonl").read_bytes()[start:end]
    assert json.loads(line) == {"id": "5", "title": "", "text": TEXTS[5]}
    vectors = faiss.read_index(f"{index.directory}/vectors-00000.faiss").reconstruct_n(0, 4)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=-1), 1, atol=1e-3)

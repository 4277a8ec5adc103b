"""Scores of entities, compared with seqeval on tags that may break their scheme."""

import itertools
import random

import pytest

from keras_bert.tasks.tagging import metrics, schemes

seqeval = pytest.importorskip("seqeval.metrics", reason="a peer, see `make peers`")


def random_tags(rng, prefixes):
    """Returns sentences of random tags of three types; most of them break every scheme."""
    tags = ["O"]
    for prefix in prefixes:
        tags.extend([f"{prefix}-LOC", f"{prefix}-ORG", f"{prefix}-PER"])
    sentences = []
    for _ in range(60):
        sentences.append(rng.choices(tags, k=rng.randint(1, 12)))
    return sentences


def changed(rng, sentences):
    """Returns the sentences with a fifth of the tags exchanged."""
    every = sorted(set(itertools.chain.from_iterable(sentences)))
    exchanged = []
    for sentence in sentences:
        exchanged.append([rng.choice(every) if rng.random() < 0.2 else tag for tag in sentence])
    return exchanged


@pytest.mark.parametrize("prefixes", ["BI", "I", "BIES"])
@pytest.mark.filterwarnings("ignore")  # Undefined scores.
def test_scores_equal_those_of_seqeval(prefixes):
    rng = random.Random(0)
    for _ in range(20):
        golds = random_tags(rng, prefixes)
        predictions = changed(rng, golds)
        gold_entities = [schemes.entities(tags) for tags in golds]
        table = metrics.score_types(gold_entities, [schemes.entities(tags) for tags in predictions])
        expected = seqeval.classification_report(golds, predictions, output_dict=True, zero_division=0)
        assert [row[0] for row in table] == ["LOC", "ORG", "PER", "all"]
        for kind, precision, recall, f1, support, _ in table:
            theirs = expected["micro avg" if kind == "all" else kind]
            assert theirs["support"] == support
            assert [precision, recall, f1] == pytest.approx(
                [theirs[name] for name in ("precision", "recall", "f1-score")], abs=1e-12
            )

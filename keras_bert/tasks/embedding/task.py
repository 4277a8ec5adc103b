"""Training of sentence encoders on pairs with scores, pairs, triplets or NLI: the task, its inputs and its scores."""

import dataclasses
import functools
from typing import Any

import numpy as np
import tensorflow as tf

from keras_bert.data.document_batches import DocumentRows, document_features
from keras_bert.data.pair_bucketing import TowerBatches
from keras_bert.data.token_rows import compact, compact_parts, joined, sequence_lengths, take, uniform
from keras_bert.heads.embedding import build_embedder
from keras_bert.heads.prompts import PASSAGE, QUERY, prompt_for
from keras_bert.models.description import nested_encoder
from keras_bert.progress import announced
from keras_bert.reports.judged import Judged, JudgedNumbers
from keras_bert.rewirings.joined import build_bi_encoder
from keras_bert.rewirings.trimmed import build_trimmed
from keras_bert.similarity import paired, similarity
from keras_bert.tasks import summary as data_summary
from keras_bert.tasks.base import Task
from keras_bert.tasks.embedding.data import EmbeddingRows, EmbeddingSettings, loss_name
from keras_bert.tasks.logits import finite
from keras_bert.tasks.reporting import Card, Findings, Report, own_data_set
from keras_bert.tasks.stages import Split, Training
from keras_bert.tasks.summary import Summary
from keras_bert.training.losses import cosine_loss, in_batch_loss, triplet_loss

_LOSSES = {  # And the settings that they take.
    "cosine": (cosine_loss, ()),
    "in_batch": (in_batch_loss, ("temperature",)),
    "triplet": (triplet_loss, ("margin", "distance")),
}
_CHARACTERS = 300  # Of a text in errors.tsv.
_BLOCK = 1024  # Queries that are compared with all passages at a time.
METRICS = {"scored": "spearman", "pairs": "MRR@10", "triplets": "accuracy"}


class EmbeddingTraining(Training):
    """Trains an encoder as two towers that share its weights."""

    learning_rates = (2e-5,)
    compares_start, scales_rates = True, False  # It improves models that are trained already.
    can_teach = False

    def make_loss(self):
        make, _ = _LOSSES[self.task.options["loss"]]
        return make(*self.task.loss_settings.values())

    def keeps_head(self, bert):
        return self.task.keeps_own_head

    @property
    def rewire(self):
        return build_trimmed  # Of the bi-encoder, which leaves it as it is: its towers read all positions.

    def new_model(self, bert):
        return build_embedder(bert.encoder, sequence_length=self.task.sequence_length, **self.task.head_options())

    def of_documents(self, model):
        """Returns the bi-encoder of an embedder, whose towers read the texts."""
        return build_bi_encoder(model, windows=self.task.reads_windows)

    def complete(self, model):
        return super().complete(nested_encoder(model))

    def batches(self, inputs, targets, batch_size, seed, grouped):
        # Negatives are a random sample of the passages, not those of similar length.
        grouped = grouped and not self.loss.together
        return TowerBatches(inputs, targets, batch_size=batch_size, seed=seed, grouped=grouped)


class EmbeddingReport(Report):
    """Reports how similarities agree with scores, or how they rank the right passages."""

    can_combine = False

    @functools.cached_property
    def metric(self):
        """The score that selects the best run, unless a subclass names another one."""
        return METRICS[self.task.data.dev.kind]

    def combine(self, logits):
        """Returns the results of the only run: there are no ensembles."""
        (only,) = logits
        return only

    def score(self, targets, outputs):
        return self._scores(self._similarities(outputs))

    def _similarities(self, outputs):
        """Returns the similarities of the passages of each row; for pairs, what `ranks` returns."""
        function = self.task.bert.similarity_function
        queries, passages = outputs["query_embedding"], outputs["passage_embedding"]
        rows = self.task.dev_rows
        if rows.right is not None:
            passages = finite(passages[: rows.right.max() + 1, 0])
            found = ranks(finite(queries), passages, rows.right, rows.also_right, function)
            return np.stack(found, 1)[np.argsort(rows.order)]
        present = self._present()
        similarities = paired(queries[:, None], passages, function)
        finite(similarities[present])
        return similarities

    def _scores(self, similarities):
        dev = self.task.data.dev
        match dev.kind:
            case "scored":
                return similarity_scores(similarities[:, 0], dev.scores)
            case "pairs":
                return retrieval_scores(similarities[:, 0])
            case _:
                return triplet_scores(similarities, self._present())

    def _present(self):
        """Returns which passages of the rows of dev are not absent, bool `(rows, passages)`."""
        dev = self.task.data.dev
        return row_ids(dev.queries, dev.passages)["passage_ids"] >= 0

    def of_fold(self, kept, task):
        """Gives the wrong passages of pairs, which are numbered in each fold, their numbers among those of all rows."""
        if task.dev_rows.right is None:
            return kept
        numbers = {row[0]: number for number, row in enumerate(self.task.dev_rows.passages) if row}
        ranked = kept["dev"].copy()
        for place, best in enumerate(ranked[:, 1]):
            if best >= 0:
                ranked[place, 1] = numbers[task.dev_rows.passages[int(best)][0]]
        return {"dev": ranked}

    def dev_logits(self, predict):
        return {"dev": self._similarities(predict(self.task.dev))}

    def data_facts(self):
        task = self.task
        parts = {"train": task.data.train, "dev": task.data.dev}
        described = {split: f"{task.files[split]}: {_described(part)}" for split, part in parts.items()}
        pooling, normalize, projection = task.head_options().values()
        vectors = f"{pooling if isinstance(pooling, str) else ' and '.join(pooling)} pooling"
        if projection:
            vectors += f", projected to {projection}"
        if normalize:
            vectors += ", normalized"
        vectors += f"; loss {task.options['loss']}"
        return {"training examples": described["train"], "dev examples": described["dev"], "vectors": vectors}

    def summarize(self):
        task, data = self.task, self.task.data
        parts = {"train": data.train, "dev": data.dev}
        rows = {
            split: [data_summary.normal(query, *row) for query, row in zip(part.queries, part.passages, strict=True)]
            for split, part in parts.items()
        }
        limit = task.bert.config.max_position_embeddings
        fields = data_summary.split_entries(rows, task.files)
        fields["repeated"] = len(data.train) - len(set(rows["train"]))
        return Summary(
            **fields,
            skipped={split: part.skipped for split, part in parts.items() if part.skipped},
            truncated=data_summary.truncation(self._token_counts(), task.sequence_length, limit),
            baseline="none",
        )

    def _token_counts(self):
        """Returns the number of tokens of the training texts without truncation, for rows the longest one."""
        train, inputs = self.task.data.train, self.task.splits["train"][0].inputs
        counts = []
        for tower, texts in (("query", train.queries), ("passage", [row[0] for row in train.passages])):
            lengths = sequence_lengths(inputs[f"{tower}_token_ids"]).reshape(len(train), -1)[:, 0]
            counts.append(data_summary.token_counts(self.task.preprocessor, [texts], lengths))
        return np.max(counts, 0)

    def make_card(self):
        return _card(self.task.data)

    def conclude(self, dev, test, output):
        sections, errors = self.judge(dev).report()
        return Findings(self._scores(dev["dev"]), sections, errors)

    def judge(self, kept):
        dev, similarities = self.task.data.dev, kept["dev"]
        right = [row[0] for row in dev.passages]
        if dev.kind == "scored":
            texts = {"text": dev.queries, "pair": right}
            return JudgedNumbers.of_numbers(dev.scores, similarities, texts=texts)
        if dev.kind == "pairs":
            measure, best = similarities.T
            passages = self.task.dev_rows.passages
            wrong = [None if number < 0 else passages[number][0] for number in best]
        else:
            others = np.where(self._present(), similarities, -np.inf)[:, 1:]
            measure, best = others.max(1) - similarities[:, 0], 1 + others.argmax(1)
            rows = zip(dev.passages, best, measure >= 0, strict=True)
            wrong = [row[number] if is_wrong else None for row, number, is_wrong in rows]
        texts = {"query": dev.queries, "passage": right, "wrong_passage": wrong}
        fields = {"gold": right, "predicted": wrong, "loss": measure, "right": [text is None for text in wrong]}
        kind = JudgedRanks if dev.kind == "pairs" else JudgedTriplets
        return kind(**fields, texts=texts)


class EmbeddingTask(Task):
    """Trains a sentence encoder as a bi-encoder."""

    name, head, Settings = "embedding", "embedding", EmbeddingSettings
    rows, Training, Report = EmbeddingRows(), EmbeddingTraining, EmbeddingReport
    auto_class = "AutoModel"

    def __init__(self, data, start, settings):
        bert, train, dev = start.bert, data.train, data.dev
        length = settings.sequence_length or bert.sequence_length or min(128, bert.config.max_position_embeddings)
        super().__init__(data, start, dataclasses.replace(settings, sequence_length=length))
        self.files = data.names
        self.title = f"Sentence embeddings, {data.names['train']}"
        loss = loss_name(train.kind, settings.loss)
        self.loss_settings = {field: getattr(settings, field) for field in _LOSSES[loss][1]}
        self.keeps_own_head = bert.head == self.head and not settings.new_head
        if bert.projection and not self.keeps_own_head:
            raise ValueError(
                f"{self.model}: its projection belongs to its pooling. Expected no other pooling or projection"
            )
        passage = QUERY if train.kind == "scored" else PASSAGE  # Texts with a score are alike.
        self.own_prompts = settings.own_prompts
        self._prompts = {"query": prompt_for(bert, *QUERY), "passage": prompt_for(bert, *passage), **self.own_prompts}
        self.dev_rows = DevRows(dev.queries, dev.passages)
        if dev.kind == "pairs":
            self.dev_rows = DevRows(*distinct_passages(dev.queries, dev.passages))
        rows = {"train": (train.queries, train.passages), "dev": (self.dev_rows.queries, self.dev_rows.passages)}
        self.splits = {"test": []}
        for split, part in (("train", train), ("dev", dev)):
            self.splits[split] = [Split(split, part, *self._features(*rows[split], part.scores))]
        self.options = {"loss": loss, **self.head_options(), "prompts": self._prompts, **self.loss_settings}

    def head_options(self):
        """Returns the options of `build_embedder`."""
        bert, settings = self.bert, self.settings
        return {
            "pooling": settings.pooling or bert.pooling or "mean",
            "normalize": bert.normalize if settings.normalize is None else settings.normalize,
            "projection": bert.projection if self.keeps_own_head else settings.projection,
        }

    @functools.cached_property
    def dev(self):
        split = self.splits["dev"][0]
        return TowerBatches(split.inputs, split.targets, batch_size=split.batch_size, shuffle=False)

    def _features(self, queries, passages, scores):
        before = self._prompts
        with announced(f"tokenizing {len(queries):,} rows"):
            inputs = tower_inputs(
                [before["query"] + text for text in queries],
                [[before["passage"] + text for text in row] for row in passages],
                self.preprocessor,
            )
        return inputs, row_ids(queries, passages) if scores is None else np.array(scores, "float32")

    def save_options(self, kept):
        bert, prompts = self.bert, dict(self.bert.prompts or {})
        for side, names in (("query", QUERY), ("passage", PASSAGE)):
            if side in self.own_prompts:
                given = [name for name in names if name in prompts] or names[:1]
                prompts |= dict.fromkeys(given, self.own_prompts[side])
        same = {name: getattr(bert, name) for name in ("default_prompt_name", "similarity_function")}
        column = self.settings.text_column
        return {"prompts": prompts or None, **same, "columns": {"text": column} if column else None}

    def export_options(self, bert):
        prompts = {"prompts": bert.prompts, "default_prompt_name": bert.default_prompt_name}
        return {"example": {"text": self.data.dev.queries[0]}, **prompts}


@dataclasses.dataclass(frozen=True)
class DevRows:
    """The rows of dev as they are evaluated, see `distinct_passages`; without pairs, as they were read."""

    queries: list
    passages: list
    right: Any = None
    also_right: dict | None = None
    order: Any = None


class JudgedTriplets(Judged):
    """Queries for which a wrong passage may be more similar than the right one; the loss is by how much."""

    titles, title, wrong_first = ("right", "excess"), "Hardest queries of dev", False
    none = "No wrong passage is more similar than the right one."
    how = (
        "Queries for which a wrong passage is more similar than the right one: {wrong}. The {shown} with the largest "
        "excess of similarity, each with its right passage and the most similar wrong one: look here for passages that "
        "answer the query, too, and for weaknesses of the model. All are in errors.tsv; rows are counted from 1."
    )

    def overview(self):
        return []

    def head(self, row):
        first, *_, measure = super().head(row)
        return [first, measure]

    def paragraphs(self, row):
        query, right, wrong = (texts[row] for texts in self.texts.values())
        return [("", query), ("second", f"right: {right}"), ("second", f"wrong: {wrong}")]

    def columns(self):
        columns = super().columns()
        texts = {name: [text and text[:_CHARACTERS] for text in texts] for name, texts in self.texts.items()}
        return {name: columns[name] for name in (self.titles[1], "row")} | texts


class JudgedRanks(JudgedTriplets):
    """Queries whose right passage may have another rank than 1, the loss."""

    titles = "right", "rank"
    how = JudgedTriplets.how.replace("largest excess of similarity", "lowest rank of the right passage")


def _described(examples):
    texts = f"{len(examples):,} {'pairs with a score' if examples.kind == 'scored' else examples.kind}"
    if examples.unused:
        texts += f"; {examples.unused:,} rows of NLI are not used"
    if examples.score_range:
        texts += " from {:g} to {:g}".format(*examples.score_range)
        texts += ", scaled to 0 to 1" * (examples.score_range != (0, 1))
    return texts


def _card(data):
    return Card(
        pipeline_tag="sentence-similarity",
        purpose="sentence embeddings",
        trained_on=data.names["train"],
        example='["A text.", "Another one."]',
        dataset=own_data_set(data.names["dev"], data.typed),
        hub_metrics={"pearson": "pearsonr", "spearman": "spearmanr"},
    )


def tower_inputs(queries, passages, preprocessor):
    """Returns the inputs of `build_bi_encoder`, compact. Equal texts are tokenized once.

    Shorter lists of `passages`, a list of lists, get absent passages, which have no tokens.
    """
    flat, count = _rectangle(passages)
    inputs = {f"query_{name}": ids for name, ids in _features(queries, preprocessor).items()}
    for name, ids in _features(flat, preprocessor).items():
        inputs[f"passage_{name}"] = uniform(ids, count)
    return inputs


def text_ids(texts):
    """Returns a number for each text, equal for equal texts, in the order of their first occurrence; -1 for `None`."""
    known = {None: -1}
    return np.array([known.setdefault(text, len(known) - 1) for text in texts], "int32")


def row_ids(queries, passages):
    """Returns the targets of `in_batch_loss` and `triplet_loss`."""
    flat, count = _rectangle(passages)
    return {"query_ids": text_ids(queries), "passage_ids": text_ids(flat).reshape(-1, count)}


def distinct_passages(queries, passages):
    """Arranges pairs so that each distinct passage is in one row: a model computes it once.

    Returns:
        Queries and passages, first a row for each distinct passage, then the other queries without a passage; the
        number of the right passage of each row; the numbers of other right passages by row, for queries that occur
        with several; and the original row of each.
    """
    numbers = text_ids([row[0] for row in passages])
    _, first = np.unique(numbers, return_index=True)  # In increasing order, as are the numbers.
    order = np.concatenate([first, np.setdiff1d(np.arange(len(numbers)), first)])
    arranged = [passages[row][:1] if place < len(first) else [] for place, row in enumerate(order)]
    queries, right = [queries[row] for row in order], numbers[order]
    known = {}
    for query, number in zip(queries, right, strict=True):
        known.setdefault(query, set()).add(number)
    others = {row: sorted(known[query] - {right[row]}) for row, query in enumerate(queries) if len(known[query]) > 1}
    return queries, arranged, right, others, order


def _rectangle(passages):
    """Returns the passages of all rows, `None` for absent ones, and their number in each row."""
    count = max(1, *map(len, passages))
    return [text for row in passages for text in [*row, *[None] * (count - len(row))]], count


def _features(texts, preprocessor):
    """Returns the inputs of texts, without tokens for `None`; long texts may be read in windows."""
    numbers = text_ids(texts)
    distinct = [text for text in dict.fromkeys(texts) if text is not None]
    if preprocessor.reads_windows:
        features = document_features(preprocessor, distinct)
    else:
        features = compact_parts(preprocessor.ragged_parts(distinct))
    if (numbers < 0).any():
        features = {name: joined([feature, _no_tokens(feature)]) for name, feature in features.items()}
        numbers = np.where(numbers < 0, len(distinct), numbers)
    return {name: take(feature, numbers) for name, feature in features.items()}


def _no_tokens(feature):
    """Returns a feature like another one, of one row without tokens."""
    if isinstance(feature, DocumentRows):
        return DocumentRows(_no_tokens(feature.sequences), [1])
    return compact(tf.RaggedTensor.from_row_lengths(tf.zeros([0], feature.dtype), [0]))


def similarity_scores(similarities, scores):
    """Returns the correlations of similarities with scores: 0 if one of them is constant."""
    from scipy import stats  # Takes a second, and `load` imports all tasks.

    constant = np.ptp(similarities) == 0 or np.ptp(scores) == 0
    return {
        "spearman": 0.0 if constant else float(stats.spearmanr(similarities, scores).statistic),
        "pearson": 0.0 if constant else float(stats.pearsonr(similarities, scores).statistic),
    }


def ranks(queries, passages, right, also_right=None, function="cosine"):
    """Ranks the passage in the row `right` for each query by similarity, behind those of equal similarity.

    The rows `also_right`, by the number of the query, do not count.

    Returns:
        Integer arrays: the ranks, 1 for the best; and the row of the best passage if it is a wrong one, otherwise -1.
    """
    also_right = also_right or {}
    found, wrong = [], []
    for start in range(0, len(queries), _BLOCK):
        rows = np.asarray(right[start : start + _BLOCK])
        scores = similarity(queries[start : start + _BLOCK], passages, function)
        own = scores[np.arange(len(rows)), rows]
        better = scores >= own[:, None]
        for number in also_right.keys() & set(range(start, start + len(rows))):
            better[number - start, also_right[number]] = False
        found.append(better.sum(1))
        better[np.arange(len(rows)), rows] = False
        wrong.append(np.where(better.any(1), np.where(better, scores, -np.inf).argmax(1), -1))
    return np.concatenate(found), np.concatenate(wrong)


def retrieval_scores(ranks):
    """Returns recall@1, recall@10 and MRR@10 of ranks."""
    ranks = np.asarray(ranks)
    return {
        "MRR@10": float(np.mean(np.where(ranks <= 10, 1 / ranks, 0))),
        "recall@1": float(np.mean(ranks <= 1)),
        "recall@10": float(np.mean(ranks <= 10)),
    }


def triplet_scores(similarities, present):
    """Returns the share of the rows with wrong passages whose right passage is more similar than each of them.

    `similarities` `(rows, passages)` have the right passage first; `present` is false for absent passages.
    """
    rows = present[:, 1:].any(1)
    wrong = np.where(present[:, 1:], similarities[:, 1:], -np.inf).max(1, initial=-np.inf)
    return {"accuracy": float(np.mean(similarities[rows, 0] > wrong[rows]))}

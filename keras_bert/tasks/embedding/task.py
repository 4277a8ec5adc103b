"""Training of sentence encoders on pairs with scores, pairs, triplets or NLI: the task, its inputs and its scores."""

import collections
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

# The settings that losses take.
_LOSS_SETTINGS = {
    "cosine": (),
    "in_batch": ("temperature",),
    "triplet": ("margin", "distance"),
}
_LENGTH = 128  # Tokens of a text, unless the settings or the model say more.
_CHARACTERS = 300  # Of a text in errors.tsv.
_BLOCK = 1024  # Queries that are compared with all passages at a time.
METRICS = {"scored": "spearman", "pairs": "MRR@10", "triplets": "accuracy"}


class EmbeddingTraining(Training):
    """Trains an encoder as two towers that share its weights."""

    learning_rates = (2e-5,)
    # It improves models that are trained already.
    compares_start = True
    scales_rates = False
    can_teach = False

    def make_loss(self):
        settings = self.task.loss_settings
        match self.task.options["loss"]:
            case "cosine":
                return cosine_loss()
            case "in_batch":
                return in_batch_loss(**settings)
            case _:
                return triplet_loss(**settings)

    def keeps_head(self, bert):
        return self.task.keeps_own_head

    @property
    def rewire(self):
        return build_trimmed  # Of the bi-encoder, which leaves it as it is: its towers read all positions.

    def new_model(self, bert):
        length = self.task.sequence_length
        return build_embedder(bert.encoder, sequence_length=length, **self.task.head_options())

    def of_documents(self, model):
        """Returns the bi-encoder of an embedder, whose towers read the texts."""
        return build_bi_encoder(model, windows=self.task.reads_windows)

    def complete(self, model):
        return super().complete(nested_encoder(model))

    def batches(self, inputs, targets, batch_size, seed, grouped):
        # Negatives are a random sample of the passages, not those of similar length.
        by_length = grouped and not self.loss.together
        return TowerBatches(inputs, targets, batch_size=batch_size, seed=seed, grouped=by_length)


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
        queries = outputs["query_embedding"]
        passages = outputs["passage_embedding"]
        rows = self.task.dev_rows
        if rows.right is None:
            similarities = paired(queries[:, None], passages, function)
            finite(similarities[self._present()])
            return similarities
        # The first rows have all distinct passages.
        distinct = finite(passages[: rows.right.max() + 1, 0])
        query_ranks, best_wrong = ranks(
            finite(queries),
            distinct,
            rows.right,
            also_right=rows.also_right,
            function=function,
        )
        ranked = np.stack([query_ranks, best_wrong], 1)
        return ranked[np.argsort(rows.order)]

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
        number_of = {}
        for number, row in enumerate(self.task.dev_rows.passages):
            if row:
                number_of[row[0]] = number
        ranked = kept["dev"].copy()
        for place, best in enumerate(ranked[:, 1]):
            if best >= 0:
                passage = task.dev_rows.passages[int(best)][0]
                ranked[place, 1] = number_of[passage]
        return {"dev": ranked}

    def dev_logits(self, predict):
        return {"dev": self._similarities(predict(self.task.dev))}

    def data_facts(self):
        task = self.task
        data = task.data
        return {
            "training examples": f"{task.files['train']}: {_described_examples(data.train)}",
            "dev examples": f"{task.files['dev']}: {_described_examples(data.dev)}",
            "vectors": f"{_described_vectors(task.head_options())}; loss {task.options['loss']}",
        }

    def summarize(self):
        task = self.task
        data = task.data
        skipped = {}
        keys = {}
        for split, part in (("train", data.train), ("dev", data.dev)):
            keys[split] = _keys(part)
            if part.skipped:
                skipped[split] = part.skipped
        limit = task.bert.config.max_position_embeddings
        fields = data_summary.split_entries(keys, task.files)
        fields["repeated"] = len(data.train) - len(set(keys["train"]))
        return Summary(
            **fields,
            skipped=skipped,
            truncated=data_summary.truncation(self._token_counts(), task.sequence_length, limit),
            baseline="none",
        )

    def _token_counts(self):
        """Returns the number of tokens of the training texts without truncation, for rows the longest one."""
        train = self.task.data.train
        query_counts = self._tower_counts("query", train.queries)
        passage_counts = self._tower_counts("passage", train.right_passages)
        return np.maximum(query_counts, passage_counts)

    def _tower_counts(self, tower, texts):
        """Returns the number of tokens of the first text of each training row of a tower, without truncation."""
        inputs = self.task.splits["train"][0].inputs
        lengths = sequence_lengths(inputs[f"{tower}_token_ids"]).reshape(len(texts), -1)[:, 0]
        return data_summary.token_counts(self.task.preprocessor, [texts], lengths)

    def make_card(self):
        return _card(self.task.data)

    def conclude(self, dev, test, output):
        sections, errors = self.judge(dev).report()
        return Findings(measured=self._scores(dev["dev"]), sections=sections, errors=errors)

    def judge(self, kept):
        dev = self.task.data.dev
        similarities = kept["dev"]
        right = dev.right_passages
        if dev.kind == "scored":
            texts = {"text": dev.queries, "pair": right}
            return JudgedNumbers.of_numbers(dev.scores, similarities, texts=texts)
        if dev.kind == "pairs":
            judged_class = JudgedRanks
            loss, wrong = self._judged_ranks(similarities)
        else:
            judged_class = JudgedTriplets
            loss, wrong = self._judged_triplets(similarities)
        return judged_class(
            gold=right,
            predicted=wrong,
            loss=loss,
            right=[text is None for text in wrong],
            texts={"query": dev.queries, "passage": right, "wrong_passage": wrong},
        )

    def _judged_ranks(self, ranked):
        """Returns the rank of each right passage, and the best passage if it is a wrong one, otherwise `None`."""
        query_ranks, best_wrong = ranked.T
        passages = self.task.dev_rows.passages
        wrong = []
        for number in best_wrong:
            wrong.append(None if number < 0 else passages[number][0])
        return query_ranks, wrong

    def _judged_triplets(self, similarities):
        """Returns how much more similar the best wrong passage is, and that passage if it is, otherwise `None`."""
        others = np.where(self._present(), similarities, -np.inf)[:, 1:]
        excess = others.max(1) - similarities[:, 0]
        best = 1 + others.argmax(1)
        wrong = []
        for row, passages in enumerate(self.task.data.dev.passages):
            wrong.append(passages[best[row]] if excess[row] >= 0 else None)
        return excess, wrong


class EmbeddingTask(Task):
    """Trains a sentence encoder as a bi-encoder."""

    name = "embedding"
    head = "embedding"
    Settings = EmbeddingSettings
    rows = EmbeddingRows()
    Training = EmbeddingTraining
    Report = EmbeddingReport
    auto_class = "AutoModel"

    def __init__(self, data, start, settings):
        bert = start.bert
        train = data.train
        dev = data.dev
        most = bert.config.max_position_embeddings
        length = settings.sequence_length or bert.sequence_length or min(_LENGTH, most)
        super().__init__(data, start, dataclasses.replace(settings, sequence_length=length))
        self.files = data.names
        self.title = f"Sentence embeddings, {data.names['train']}"
        loss = loss_name(train.kind, settings.loss)
        self.loss_settings = {field: getattr(settings, field) for field in _LOSS_SETTINGS[loss]}
        self.keeps_own_head = bert.head == self.head and not settings.new_head
        if bert.projection and not self.keeps_own_head:
            raise ValueError(
                f"{self.model}: its projection belongs to its pooling. Expected no other pooling or projection"
            )
        passage = QUERY if train.kind == "scored" else PASSAGE  # Texts with a score are alike.
        self.own_prompts = settings.own_prompts
        self._prompts = {"query": prompt_for(bert, *QUERY), "passage": prompt_for(bert, *passage)}
        self._prompts.update(self.own_prompts)
        self.dev_rows = DevRows(dev.queries, dev.passages)
        if dev.kind == "pairs":
            self.dev_rows = distinct_passages(dev.queries, dev.passages)
        self.splits = {
            "test": [],
            "train": [self._split("train", train, train.queries, train.passages)],
            "dev": [self._split("dev", dev, self.dev_rows.queries, self.dev_rows.passages)],
        }
        self.options = {"loss": loss}
        self.options.update(self.head_options())
        self.options["prompts"] = self._prompts
        self.options.update(self.loss_settings)

    def head_options(self):
        """Returns the options of `build_embedder`."""
        bert = self.bert
        settings = self.settings
        return {
            "pooling": settings.pooling or bert.pooling or "mean",
            "normalize": bert.normalize if settings.normalize is None else settings.normalize,
            "projection": bert.projection if self.keeps_own_head else settings.projection,
        }

    @functools.cached_property
    def dev(self):
        split = self.splits["dev"][0]
        return TowerBatches(split.inputs, split.targets, batch_size=split.batch_size, shuffle=False)

    def _split(self, name, examples, queries, passages):
        """Returns the `Split` of examples, whose queries and passages may be arranged in another way."""
        query_prompt = self._prompts["query"]
        passage_prompt = self._prompts["passage"]
        prompted_passages = []
        for row in passages:
            prompted_passages.append([passage_prompt + text for text in row])
        with announced(f"tokenizing {len(queries):,} rows"):
            prompted_queries = [query_prompt + text for text in queries]
            inputs = tower_inputs(prompted_queries, prompted_passages, self.preprocessor)
        if examples.scores is None:
            targets = row_ids(queries, passages)
        else:
            targets = np.array(examples.scores, "float32")
        return Split(name, examples, inputs, targets)

    def save_options(self, kept):
        bert = self.bert
        prompts = dict(bert.prompts or {})
        for side, names in (("query", QUERY), ("passage", PASSAGE)):
            if side in self.own_prompts:
                # Those that the model has under the usual names of the side, or else the first name.
                replaced = [name for name in names if name in prompts] or names[:1]
                prompts.update(dict.fromkeys(replaced, self.own_prompts[side]))
        columns = None
        if self.settings.text_column:
            columns = {"text": self.settings.text_column}
        return {
            "prompts": prompts or None,
            "default_prompt_name": bert.default_prompt_name,
            "similarity_function": bert.similarity_function,
            "columns": columns,
        }

    def export_options(self, bert):
        return {
            "example": {"text": self.data.dev.queries[0]},
            "prompts": bert.prompts,
            "default_prompt_name": bert.default_prompt_name,
        }


@dataclasses.dataclass(frozen=True)
class DevRows:
    """The rows of dev as they are evaluated: those of pairs as `distinct_passages` arranges them, others as they were.

    Args:
        queries: list of strings.
        passages: list of lists of strings.
        right: the number of the right passage of each row, for pairs.
        also_right: lists of the numbers of other right passages by row, for queries that occur with several.
        order: the original row of each row, for pairs.
    """

    queries: list
    passages: list
    right: Any = None
    also_right: dict | None = None
    order: Any = None


class JudgedTriplets(Judged):
    """Queries for which a wrong passage may be more similar than the right one; the loss is by how much."""

    titles = ("right", "excess")
    title = "Hardest queries of dev"
    wrong_first = False
    none = "No wrong passage is more similar than the right one."
    how = (
        "Queries for which a wrong passage is more similar than the right one: {wrong}. The {shown} with the largest "
        "excess of similarity, each with its right passage and the most similar wrong one: look here for passages that "
        "answer the query, too, and for weaknesses of the model. All are in errors.tsv; rows are counted from 1."
    )

    def overview(self):
        return []

    def head(self, row):
        place, *_, measure = super().head(row)
        return [place, measure]

    def paragraphs(self, row):
        return [
            ("", self.texts["query"][row]),
            ("second", f"right: {self.texts['passage'][row]}"),
            ("second", f"wrong: {self.texts['wrong_passage'][row]}"),
        ]

    def columns(self):
        _, measure = self.titles
        columns = super().columns()
        shown = {measure: columns[measure], "row": columns["row"]}
        for name, texts in self.texts.items():
            shown[name] = [text and text[:_CHARACTERS] for text in texts]
        return shown


class JudgedRanks(JudgedTriplets):
    """Queries whose right passage may have another rank than 1, the loss."""

    titles = ("right", "rank")
    how = JudgedTriplets.how.replace("largest excess of similarity", "lowest rank of the right passage")


def _keys(examples):
    """Returns the texts of each row without differences in case and white space."""
    keys = []
    for query, passages in zip(examples.queries, examples.passages, strict=True):
        keys.append(data_summary.normal(query, *passages))
    return keys


def _described_examples(examples):
    """Returns the number of rows, what they are and the range of their scores, as text."""
    kind = "pairs with a score" if examples.kind == "scored" else examples.kind
    text = f"{len(examples):,} {kind}"
    if examples.unused:
        text += f"; {examples.unused:,} rows of NLI are not used"
    if examples.score_range:
        lowest, highest = examples.score_range
        text += f" from {lowest:g} to {highest:g}"
        if examples.score_range != (0, 1):
            text += ", scaled to 0 to 1"
    return text


def _described_vectors(head_options):
    """Returns how vectors are made of those of tokens, as text."""
    pooling = head_options["pooling"]
    if not isinstance(pooling, str):
        pooling = " and ".join(pooling)
    text = f"{pooling} pooling"
    if head_options["projection"]:
        text += f", projected to {head_options['projection']}"
    if head_options["normalize"]:
        text += ", normalized"
    return text


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
    flat_passages, count = _flat_passages(passages)
    inputs = {}
    for name, feature in _features(queries, preprocessor).items():
        inputs[f"query_{name}"] = feature
    for name, feature in _features(flat_passages, preprocessor).items():
        inputs[f"passage_{name}"] = uniform(feature, count)
    return inputs


def text_ids(texts):
    """Returns a number for each text, equal for equal texts, in the order of their first occurrence; -1 for `None`."""
    id_of = {None: -1}
    ids = []
    for text in texts:
        ids.append(id_of.setdefault(text, len(id_of) - 1))
    return np.array(ids, "int32")


def row_ids(queries, passages):
    """Returns the targets of `in_batch_loss` and `triplet_loss`."""
    flat_passages, count = _flat_passages(passages)
    passage_ids = text_ids(flat_passages).reshape(-1, count)
    return {"query_ids": text_ids(queries), "passage_ids": passage_ids}


def distinct_passages(queries, passages):
    """Arranges pairs so that each distinct passage is in one row: a model computes it once.

    Returns:
        `DevRows`: first a row for each distinct passage, then the other queries without a passage.
    """
    numbers = text_ids([row[0] for row in passages])
    _, first = np.unique(numbers, return_index=True)  # In increasing order, as are the numbers.
    repeated = np.setdiff1d(np.arange(len(numbers)), first)
    order = np.concatenate([first, repeated])
    arranged_passages = [passages[row][:1] for row in first]
    arranged_passages.extend([] for _ in repeated)
    arranged_queries = [queries[row] for row in order]
    right = numbers[order]
    return DevRows(
        queries=arranged_queries,
        passages=arranged_passages,
        right=right,
        also_right=_other_right_passages(arranged_queries, right),
        order=order,
    )


def _other_right_passages(queries, right):
    """Returns the numbers of other right passages by row, for queries that occur with several."""
    right_of = collections.defaultdict(set)
    for query, number in zip(queries, right, strict=True):
        right_of[query].add(number)
    others = {}
    for row, query in enumerate(queries):
        if len(right_of[query]) > 1:
            others[row] = sorted(right_of[query] - {right[row]})
    return others


def _flat_passages(passages):
    """Returns the passages of all rows in one list, `None` for absent ones, and their number in each row."""
    count = max(1, *map(len, passages))
    flat = []
    for row in passages:
        flat.extend(row)
        flat.extend([None] * (count - len(row)))
    return flat, count


def _features(texts, preprocessor):
    """Returns the inputs of texts, without tokens for `None`; long texts may be read in windows."""
    numbers = text_ids(texts)
    distinct = [text for text in dict.fromkeys(texts) if text is not None]
    if preprocessor.reads_windows:
        features = document_features(preprocessor, distinct)
    else:
        features = compact_parts(preprocessor.ragged_parts(distinct))
    if (numbers < 0).any():
        # `None` is one more row, without tokens.
        for name, feature in features.items():
            features[name] = joined([feature, _no_tokens(feature)])
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

    if np.ptp(similarities) == 0 or np.ptp(scores) == 0:
        return {"spearman": 0.0, "pearson": 0.0}
    return {
        "spearman": float(stats.spearmanr(similarities, scores).statistic),
        "pearson": float(stats.pearsonr(similarities, scores).statistic),
    }


def ranks(queries, passages, right, also_right=None, function="cosine"):
    """Ranks the passage in the row `right` for each query by similarity, behind those of equal similarity.

    The rows `also_right`, by the number of the query, do not count.

    Returns:
        Integer arrays: the ranks, 1 for the best; and the row of the best passage if it is a wrong one, otherwise -1.
    """
    also_right = also_right or {}
    query_ranks = []
    best_wrong = []
    for start in range(0, len(queries), _BLOCK):
        end = start + _BLOCK
        own = np.asarray(right[start:end])
        rows = np.arange(len(own))
        scores = similarity(queries[start:end], passages, function)
        is_better = scores >= scores[rows, own][:, None]
        for row in range(len(own)):
            if start + row in also_right:
                is_better[row, also_right[start + row]] = False
        query_ranks.append(is_better.sum(1))  # The right passage counts itself.
        is_better[rows, own] = False
        best = np.where(is_better, scores, -np.inf).argmax(1)
        best_wrong.append(np.where(is_better.any(1), best, -1))
    return np.concatenate(query_ranks), np.concatenate(best_wrong)


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
    has_wrong = present[:, 1:].any(1)
    right = similarities[:, 0]
    wrong = np.where(present[:, 1:], similarities[:, 1:], -np.inf).max(1, initial=-np.inf)
    return {"accuracy": float(np.mean(right[has_wrong] > wrong[has_wrong]))}

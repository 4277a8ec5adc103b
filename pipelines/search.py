"""Semantic search: builds an index of passages, and finds those that are most similar to queries.

    python -m pipelines.search --model=sentence-transformers/all-MiniLM-L6-v2 --index=my_index --input=passages.jsonl
    python -m pipelines.search --index=my_index --query="How do I reset my password?"
    python -m pipelines.search --index=my_index --add=more.jsonl
    python -m pipelines.search --index=my_index --remove=returns --remove=hours
    python -m pipelines.search --index=my_index --queries=queries.txt --output=results.jsonl
    python -m pipelines.search --index=my_index --queries=queries.jsonl --relevance=qrels.tsv --rerank=my_cross_encoder
    python -m pipelines.search --model=sentence-transformers/all-MiniLM-L6-v2 --index=squad --squad=dev-v1.1.json

Passages and queries are rows of JSON lines, JSON, CSV, TSV or Parquet with `text` and optionally `id` and `title`, or
one text per line; each may be compressed by gzip. An interrupted build or change continues when the command is
repeated. The index stores where its model is, so that queries do not need `--model`.

Prints a line for each hit: score, id and text, separated by tabs; with `--output`, writes a line of JSON per query.
With `--relevance`, prints recall@1, recall@10, MRR@10 and nDCG@10. `--squad` builds an index of the paragraphs of a
file in SQuAD's format and scores the search with its questions.
"""

import contextlib
import functools
import os
import pathlib
import shlex

import keras_bert
from keras_bert.data.text_files import stream_lines, valid_text
from keras_bert.files import replacing
from keras_bert.progress import announced
from keras_bert.search import data, metrics
from keras_bert.search.hits import ask, json_line, readable, warn_of_unknown
from keras_bert.search.index_files import check_folder, find_facts

from . import command
from .arguments import CommandArguments, flag

_BUILD = ("dtype", "approximate", "similarity", "query_prompt", "passage_prompt", "block")
_ASKED = "query or queries or squad"
_DEPTH = 10  # Of the metrics.


class Arguments(CommandArguments):
    input: str = flag(None, "File of passages, to build an index.", is_file=True, section="data")
    add: str = flag(None, "File of passages to add to the index.", is_file=True, excludes=("input", "squad"))
    remove: list[str] = flag(
        None,
        "Id or ids of passages to remove from the index.",
        repeatable=True,
        excludes=("input", "squad", "add"),
    )
    remove_file: str = flag(
        None,
        "File of such ids, one per line.",
        is_file=True,
        excludes=("input", "squad", "add", "remove"),
    )
    text_column: str = flag("text", "Column of the text of passages and queries.", excludes=("squad",))
    query: list[str] = flag(None, "Query or queries to answer.", repeatable=True)
    queries: str = flag(None, "File of queries to answer.", is_file=True, excludes=("query",))
    relevance: str = flag(
        None,
        "File of relevant passages: query_id, passage_id and optionally grade, or TREC's qrels.",
        is_file=True,
        needs="queries",
    )
    squad: str = flag(
        None,
        "File in SQuAD's format: paragraphs and their questions.",
        is_file=True,
        excludes=("input", "query", "queries", "relevance"),
    )
    index: str = flag(None, "Folder of the index.", required=True, section="index")
    model: str = flag(None, "Directory or name of the model; default: the one that built the index.")
    dtype: str = flag("float16", "Type of the stored vectors.", values=["float16", "int8"])
    approximate: bool = flag(None, "Searches a graph of the vectors (HNSW) instead of all of them.")
    similarity: str = flag(
        None, "Similarity of vectors; default: the similarity function of the model.", values=["cosine", "dot"]
    )
    query_prompt: str = flag(None, "Text to put before each query, if the model requires one.")
    passage_prompt: str = flag(None, "Text to put before each passage.")
    block: int = flag(16384, "Passages that are embedded and written together.", least=1)
    batch_size: int = flag(32, "Batch size.", least=1)
    top: int = flag(10, "Number of passages per query.", least=1, needs=_ASKED, section="search")
    rerank: str = flag(None, "Model of pairs that reorders the best passages.", needs=_ASKED)
    rerank_top: int = flag(50, "Number of passages to reorder.", least=1, needs="rerank")
    rerank_label: str = flag(None, "Its label of relevant pairs; default: the last one of two.", needs="rerank")
    output: str = flag(
        None, "File to write, one line of JSON per query; default: prints the hits.", needs=_ASKED, section="output"
    )

    @functools.cached_property
    def sources(self):
        """The passages or their file, the queries, and which passages are relevant; `None` or empty without."""
        if self.squad:
            data_set = data.read_squad(self.squad)
            return data_set.passages, data_set.queries, data_set.relevance
        queries = [data.Query(str(number), valid_text(text)) for number, text in enumerate(self.query or ())]
        if any(not query.text.strip() for query in queries):
            raise ValueError("--query must not be empty")
        if self.queries:
            queries = data.read_queries(self.queries, self.text_column)
        return self.input, queries, data.read_relevance(self.relevance) if self.relevance else None

    @functools.cached_property
    def removed(self):
        """The ids of passages to remove."""
        if self.remove_file:
            return [line for _, line in stream_lines(pathlib.Path(self.remove_file)) if line.strip()]
        return list(self.remove or ())

    @property
    def changes(self):
        """Whether passages are added or removed."""
        return bool(self.add or self.remove or self.remove_file)

    @property
    def depth(self):
        """The number of passages that are needed of each query."""
        return max(self.top, _DEPTH) if self.sources[2] else self.top


def check(arguments):
    if arguments.rerank and arguments.rerank_top < arguments.depth:
        received = f"--rerank_top={arguments.rerank_top}"
        raise ValueError(f"--rerank_top must be at least {arguments.depth} here. Received: {received}")
    # The passages to index, or the index to search.
    passages, queries, _ = arguments.sources
    if not passages and not queries and not arguments.changes:
        raise ValueError(
            "expected --input=FILE to build the index, --query or --queries to search it, or --add or --remove to "
            "change it"
        )
    arguments.only(passages, "for building an index, with --input or --squad", *_BUILD)
    if not passages:
        find_facts(arguments.index)
        _check_changes(arguments)
        return
    if not arguments.model:
        raise ValueError("--model is required to build an index: a directory or a name of a sentence encoder")
    check_folder(arguments.index)
    if isinstance(passages, str):  # A mistake in its columns is found before the model is loaded.
        next(data.read_passages(passages, arguments.text_column))


def _check_changes(arguments):
    """Raises an error for passages that cannot be read, before the model is loaded."""
    if arguments.add:
        next(data.read_passages(arguments.add, arguments.text_column))
    if arguments.remove_file and not arguments.removed:
        raise ValueError(f"{arguments.remove_file}: there is no id")


def main(arguments):
    passages, queries, relevance = arguments.sources
    if passages is None:
        index = keras_bert.search.open_index(arguments.index, arguments.model)
        _change_index(arguments, index)
    else:
        index = _build_index(arguments, passages)
    if not queries and not arguments.changes:
        command.print_next(f'{command.spelling("search")} --index={shlex.quote(arguments.index)} --query="..."')
    if not queries:
        return
    if relevance:
        warn_of_unknown(index, queries, relevance)
    top, options = arguments.depth, {}
    if arguments.rerank:
        options = {"cross_encoder": keras_bert.load(arguments.rerank), "label": arguments.rerank_label}
        top = arguments.rerank_top
    rankings, before = {}, {}
    with _writer(arguments, len(queries) > 1, relevance) as write:
        for query, hits in ask(index, queries, top, arguments.batch_size, **options):
            write(query, hits[: arguments.top])
            rankings[query.id] = [hit["id"] for hit in hits[:_DEPTH]]
            if arguments.rerank:
                retrieved = sorted(hits, key=lambda hit: -hit["similarity"])
                before[query.id] = [hit["id"] for hit in retrieved[:_DEPTH]]
    if arguments.output:
        print(f"wrote the passages of {len(queries):,} queries to {arguments.output}")
    if relevance and before:
        print(f"before reranking: {metrics.evaluate(before, relevance, k=_DEPTH)}\nafter reranking:  ", end="")
    if relevance:
        print(metrics.evaluate(rankings, relevance, k=_DEPTH))


def _change_index(arguments, index):
    """Adds or removes passages, if that is wanted."""
    before = len(index)
    if arguments.add:
        with announced("loading the model"):
            _ = index.bert
        index.add(arguments.add, text_column=arguments.text_column, batch_size=arguments.batch_size)
        print(f"index:        {arguments.index}, {len(index) - before:,} added, {len(index):,} passages now")
    if arguments.removed:
        index.remove(arguments.removed)
        print(f"index:        {arguments.index}, {before - len(index):,} removed, {len(index):,} passages now")


def _build_index(arguments, passages):
    with announced(f"loading {arguments.model}"):
        bert = keras_bert.load(arguments.model)
    options = {name: getattr(arguments, name) for name in (*_BUILD, "text_column", "batch_size")}
    # A model is stored by its absolute path or its name.
    options["name"] = os.path.abspath(arguments.model) if os.path.exists(arguments.model) else arguments.model
    index = keras_bert.search.build_index(bert, passages, arguments.index, **options)
    print(f"index:        {arguments.index}, {len(index):,} passages")
    return index


@contextlib.contextmanager
def _writer(arguments, several, relevance):
    """Yields a function that writes a query and its hits: to the file, or to read; nothing for scores alone."""
    if arguments.output:
        with replacing(arguments.output) as temporary, open(temporary, "w", encoding="utf-8", errors="replace") as file:
            yield lambda query, hits: print(json_line(query, hits), file=file)
    elif relevance:
        yield lambda query, hits: None
    else:
        yield lambda query, hits: print(*([query.text] if several else []), *map(readable, hits), sep="\n", flush=True)


if __name__ == "__main__":
    command.run(__doc__, Arguments, main, check, resumes=True)

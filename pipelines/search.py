"""Semantic search: builds an index of passages, and finds those that are most similar to queries.

    python -m pipelines.search --model=sentence-transformers/all-MiniLM-L6-v2 --index=my_index --input=passages.jsonl
    python -m pipelines.search --index=my_index --query="How do I reset my password?"
    python -m pipelines.search --index=my_index --queries=queries.txt --output=results.jsonl
    python -m pipelines.search --index=my_index --queries=queries.jsonl --relevance=qrels.tsv --rerank=my_cross_encoder
    python -m pipelines.search --model=sentence-transformers/all-MiniLM-L6-v2 --index=squad --squad=dev-v1.1.json

Passages and queries are `.jsonl`, `.csv` or `.tsv` with `text` and optionally `id` and `title`, or one text per line.
An interrupted build continues when the command is repeated. The index stores where its model is, so that queries do not
need `--model`.

Prints a line for each hit: score, id and text, separated by tabs; with `--output`, writes a line of JSON per query.
With `--relevance`, prints recall@1, recall@10, MRR@10 and nDCG@10. `--squad` builds an index of the paragraphs of a
file in SQuAD's format and scores the search with its questions.
"""

import contextlib
import functools
import os
import shlex

from absl import flags

import keras_bert
from keras_bert.files import replacing
from keras_bert.search import data, metrics, squad
from keras_bert.search.asking import ask, json_line, readable, warn_of_unknown
from keras_bert.search.index_files import check_folder, find_facts
from keras_bert.tasks.table_files import valid_text
from keras_bert.training.progress import announced

from . import command, common_flags

command.section("data")
_INPUT = flags.DEFINE_string("input", None, "File of passages, to build an index.")
_TEXT = flags.DEFINE_string("text_column", "text", "Column of the text of passages and queries.")
_QUERY = flags.DEFINE_multi_string("query", None, "Query or queries to answer.")
_QUERIES = flags.DEFINE_string("queries", None, "File of queries to answer.")
_RELEVANCE = flags.DEFINE_string(
    "relevance", None, "File of relevant passages: query_id, passage_id and optionally grade, or TREC's qrels."
)
_SQUAD = flags.DEFINE_string("squad", None, "File in SQuAD's format: paragraphs and their questions.")
command.section("index")
_INDEX = flags.DEFINE_string("index", None, "Folder of the index.", required=True)
_MODEL = flags.DEFINE_string("model", None, "Directory or name of the model; default: the one that built the index.")
_DTYPE = flags.DEFINE_enum("dtype", "float16", ["float16", "int8"], "Type of the stored vectors.")
_APPROXIMATE = flags.DEFINE_bool(
    "approximate", None, "Searches a graph of the vectors (HNSW); default: for more than 250,000 passages."
)
_SIMILARITY = flags.DEFINE_enum(
    "similarity", None, ["cosine", "dot"], "Similarity of vectors; default: the similarity function of the model."
)
_QUERY_PROMPT = flags.DEFINE_string("query_prompt", None, "Text to put before each query, if the model requires one.")
_PASSAGE_PROMPT = flags.DEFINE_string("passage_prompt", None, "Text to put before each passage.")
_BLOCK = flags.DEFINE_integer("block", 16384, "Passages that are embedded and written together.", 1)
_BATCH = flags.DEFINE_integer("batch_size", 32, "Batch size.", 1)
command.section("search")
_TOP = flags.DEFINE_integer("top", 10, "Number of passages per query.", 1)
_RERANK = flags.DEFINE_string("rerank", None, "Model of pairs that reorders the best passages.")
_RERANK_TOP = flags.DEFINE_integer("rerank_top", 50, "Number of passages to reorder.", 1)
_LABEL = flags.DEFINE_string("rerank_label", None, "Its label of relevant pairs; default: the last one of two.")
command.section("output")
_OUTPUT = flags.DEFINE_string("output", None, "File to write, one line of JSON per query; default: prints the hits.")
_BUILD = (_DTYPE, _APPROXIMATE, _SIMILARITY, _QUERY_PROMPT, _PASSAGE_PROMPT, _BLOCK)
_DEPTH = 10  # Of the metrics.


def check():
    """Finds mistakes in flags and files."""
    common_flags.only(_SQUAD.value or _QUERY.value or _QUERIES.value, "with queries", "top", "rerank", "output")
    common_flags.only(not _SQUAD.value, "without --squad", "text_column")
    own = [_INPUT, _QUERIES, _RELEVANCE]
    common_flags.check_paths(_MODEL.value, **{holder.name: holder.value for holder in (*own, _SQUAD)})
    common_flags.check_paths(_RERANK.value)
    if _SQUAD.value and (given := [holder.name for holder in (*own, _QUERY) if holder.value]):
        raise ValueError(f"--squad has passages, queries and relevance of its own. Received: also --{given[0]}")
    if (_QUERY.value and _QUERIES.value) or (_RELEVANCE.value and not _QUERIES.value):
        raise ValueError("expected --query, or --queries, which --relevance requires. Received: others of these flags")
    if _RERANK.value is None and (_LABEL.value or _RERANK_TOP.present):
        raise ValueError("--rerank_top and --rerank_label are only for --rerank. Received: no --rerank")
    if _OUTPUT.value and os.path.isdir(_OUTPUT.value):
        raise ValueError(f"--output must be a file. Received: the folder {_OUTPUT.value}")
    read, queries, relevance = _data()
    if not read and not queries:
        raise ValueError("expected --input=FILE to build the index, or --query or --queries to search it")
    if not read and (given := [holder.name for holder in _BUILD if holder.present]):
        raise ValueError(f"--{given[0]} is for building an index. Received: no --input")
    if read and not _MODEL.value:
        raise ValueError("--model is required to build an index: a directory or a name of a sentence encoder")
    if read:
        check_folder(_INDEX.value)
        if isinstance(read, str):  # A mistake in its columns is found before the model is loaded.
            next(data.read_passages(read, _TEXT.value))
    else:
        find_facts(_INDEX.value)
    if _RERANK.value and _RERANK_TOP.value < (least := _depth(bool(relevance))):
        raise ValueError(f"--rerank_top must be at least {least} here. Received: --rerank_top={_RERANK_TOP.value}")


def main():
    read, queries, relevance = _data()
    if read is None:
        index = keras_bert.open_index(_INDEX.value, _MODEL.value)
    else:
        with announced(f"loading {_MODEL.value}"):
            bert = keras_bert.load(_MODEL.value)
        index = keras_bert.build_index(bert, read, _INDEX.value, **_build_options())
        print(f"index:        {_INDEX.value}, {len(index):,} passages")
    if not queries:
        command.print_next(f'{command.spelling("search")} --index={shlex.quote(_INDEX.value)} --query="..."')
        return
    if relevance:
        warn_of_unknown(index, queries, relevance)
    top, options = _depth(bool(relevance)), {}
    if _RERANK.value:
        top, options = _RERANK_TOP.value, {"cross_encoder": keras_bert.load(_RERANK.value), "label": _LABEL.value}
    rankings, before = {}, {}
    with _writer(bool(relevance), len(queries) > 1) as write:
        for query, hits in ask(index, queries, top, _BATCH.value, **options):
            write(query, hits[: _TOP.value])
            rankings[query.id] = [hit["id"] for hit in hits[:_DEPTH]]
            if _RERANK.value:
                found = sorted(hits, key=lambda hit: -hit["similarity"])
                before[query.id] = [hit["id"] for hit in found[:_DEPTH]]
    if _OUTPUT.value:
        print(f"wrote the passages of {len(queries):,} queries to {_OUTPUT.value}")
    if relevance and before:
        print(f"before reranking: {metrics.evaluate(before, relevance, k=_DEPTH)}\nafter reranking:  ", end="")
    if relevance:
        print(metrics.evaluate(rankings, relevance, k=_DEPTH))


@functools.cache
def _data():
    """Returns the passages or their file, the queries, and which passages are relevant; `None` or empty without."""
    if _SQUAD.value:
        found = squad.read_squad(_SQUAD.value)
        return found.passages, found.queries, found.relevance
    queries = [data.Query(str(number), valid_text(text)) for number, text in enumerate(_QUERY.value or ())]
    if any(not query.text.strip() for query in queries):
        raise ValueError("--query must not be empty")
    if _QUERIES.value:
        queries = data.read_queries(_QUERIES.value, _TEXT.value)
    return _INPUT.value, queries, data.read_relevance(_RELEVANCE.value) if _RELEVANCE.value else None


def _depth(scored):
    """Returns the number of passages that are needed of each query."""
    return max(_TOP.value, _DEPTH) if scored else _TOP.value


def _build_options():
    """Returns the options of `build_index` from the flags. A model is stored by its absolute path or its name."""
    name = os.path.abspath(_MODEL.value) if os.path.exists(_MODEL.value) else _MODEL.value
    return {holder.name: holder.value for holder in (*_BUILD, _TEXT, _BATCH)} | {"name": name}


@contextlib.contextmanager
def _writer(scored, several):
    """Yields a function that writes a query and its hits: to the file, or to read; nothing for scores alone."""
    if _OUTPUT.value:
        with replacing(_OUTPUT.value) as temporary, open(temporary, "w", encoding="utf-8", errors="replace") as file:
            yield lambda query, hits: print(json_line(query, hits), file=file)
    elif scored:
        yield lambda query, hits: None
    else:
        yield lambda query, hits: print(*([query.text] if several else []), *map(readable, hits), sep="\n", flush=True)


if __name__ == "__main__":
    command.run(main, check=check, resumes=True)

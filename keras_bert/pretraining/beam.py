"""Generates pre-training data on Apache Beam, for large corpora, with examples byte-identical to those of `generate`.

text -> tokens of shards -> requests for random B's, joined with the shards that contain them -> texts, joined with
the requesting shards -> records
"""

import collections
import functools
import json
import re

import numpy as np

from keras_bert.corpus import documents
from keras_bert.files import json_text
from keras_bert.pretraining import generation, sentence_pairs, token_store
from keras_bert.pretraining.example_builder import ExampleBuilder
from keras_bert.pretraining.record_files import MANIFEST
from keras_bert.text.vocabulary import Vocabulary


def generate_with_beam(
    files, output, vocabulary, settings, *, runner=None, pipeline_options=(), shards=None, compress=False
):
    """Writes the same output as `generate` with an Apache Beam pipeline; the order of the examples is up to Beam.

    A worker keeps the tokens of one shard in memory, so more shards need less memory; a `.gz` is never split.

    Args:
        files: a glob pattern or a list of paths on a file system mounted by every worker; not a URL such as `gs://`.
        output: the folder, in any file system supported by Beam. A finished run with the same settings is kept.
        vocabulary, settings, shards, compress: see `generate`.
        runner: str, the name of a Beam runner. Defaults to Beam's default.
        pipeline_options: list of Beam options. On a cluster, they must make this package available to the workers.

    Returns:
        The manifest, a dict.

    Example:
        options = ["--project=me", "--region=europe-west4", "--sdk_container_image=..."]
        where = {"runner": "DataflowRunner", "pipeline_options": options}
        generate_with_beam("/mnt/text/*.txt", "gs://me/128", "vocab.txt", Settings(), **where)
    """
    beam, vocabulary, output = _beam(), Vocabulary(vocabulary), str(output)
    paths, header = generation.find_corpus(files, vocabulary, settings, shards, compress)
    if header["shards"] < 1:
        raise ValueError(f"`shards` must be at least 1. Received: shards={shards}")
    options = beam.options.pipeline_options.PipelineOptions(list(pipeline_options))
    file_systems = beam.io.filesystems.FileSystems
    file_systems.set_options(options)
    manifest = file_systems.join(output, MANIFEST)
    if file_systems.exists(manifest):
        generation.check_settings(output, _read(manifest), header)
        return _read(manifest)
    _write(file_systems.join(output, "vocab.txt"), "".join(f"{piece}\n" for piece in vocabulary.pieces))
    try:
        with beam.Pipeline(runner=runner, options=options) as pipeline:
            ranges = documents.cut_corpus(paths, header["shards"])
            _build(pipeline, files, ranges, output, header, {"vocabulary": vocabulary, "settings": settings})
    except Exception as error:
        # Beam appends the name of a step to a user's error; from another process, the error is within a log.
        if mistake := re.search(r"ValueError: (.*) \[while running", f"{type(error).__name__}: {error}"):
            raise ValueError(mistake[1]) from None
        raise
    return _read(manifest)


def _beam():
    try:
        import apache_beam
    except ModuleNotFoundError:
        raise ValueError(
            "a runner needs Apache Beam, which is not installed: pip install apache-beam google-crc32c"
        ) from None
    return apache_beam


def _build(pipeline, files, ranges, output, header, make):
    """Builds the pipeline from file ranges to the manifest; `make` contains the arguments of `_builder`."""
    beam, join = _beam(), _beam().io.filesystems.FileSystems.join
    shards = pipeline | "ranges" >> beam.Create(enumerate(ranges)) | "tokenize" >> beam.Map(_tokenize, **make)
    sizes = shards | "size" >> beam.Map(_size) | beam.combiners.ToList() | "check" >> beam.Map(_check, files, **make)
    sizes = beam.pvalue.AsSingleton(sizes)
    if make["settings"].next_sentence:
        asked = shards | "ask" >> beam.FlatMap(_ask, sizes, **make)
        texts = {"shard": shards, "asked": asked} | "find" >> beam.CoGroupByKey() | "answer" >> beam.FlatMap(_answer)
        askers = shards | "askers" >> beam.FlatMap(_askers, **make)
        answered = {"shard": askers, "texts": texts} | "join" >> beam.CoGroupByKey()
        made = answered | "pairs" >> beam.FlatMap(_pairs, sizes, **make)
    else:
        made = shards | "rows" >> beam.FlatMap(_rows, **make)
    counts = made | "counts" >> beam.Values() | "add" >> beam.CombineGlobally(_add)
    suffix = ".tfrecord.gz" if header["compressed"] else ".tfrecord"
    sink = beam.io.tfrecordio.WriteToTFRecord(join(output, "examples"), file_name_suffix=suffix, num_shards=len(ranges))
    written = made | "records" >> beam.FlatMap(lambda some: some[0]) | sink
    # Generated again, since the sink does not return all names if its last step was interrupted and repeated.
    names = generation.record_names(header)
    paths = pipeline | "names" >> beam.Create([join(output, name) for name in names])
    lengths = (
        paths
        | "wait" >> beam.Map(lambda path, _: path, beam.pvalue.AsIter(written))
        | beam.io.tfrecordio.ReadAllFromTFRecord(with_filename=True)
        | beam.Keys()
        | beam.combiners.Count.PerElement()
    )
    counted = sizes, beam.pvalue.AsSingleton(counts), beam.pvalue.AsDict(lengths)
    settings = pipeline | "settings" >> beam.Create([header])
    _ = settings | "manifest" >> beam.Map(_write_manifest, *counted, output, names, make["settings"])


_builder = functools.lru_cache(maxsize=1)(ExampleBuilder)  # That of this process.


def _tokenize(item, vocabulary, settings):
    shard, ranges = item
    tokens = token_store.collect(_builder(vocabulary, settings).tokenize(ranges))
    return shard, tokens._replace(ids=tokens.ids.astype(np.min_scalar_type(len(vocabulary))))


def _size(item):
    shard, tokens = item
    documents, segments = len(tokens.documents) - 1, len(tokens.segments) - 1
    return shard, {"documents": documents, "segments": segments, "pieces": len(tokens.ids)}


def _check(sizes, files, vocabulary, settings):
    """Returns the sizes in the order of the shards, after checking that there are enough documents."""
    sizes = [size for _, size in sorted(sizes)]
    generation.check_corpus(files, _before(sizes)[-1], settings)
    return sizes


def _before(sizes):
    """Returns the number of documents before each shard, and the total."""
    return np.cumsum([0, *(size["documents"] for size in sizes)])


def _ask(item, sizes, vocabulary, settings):
    """Yields the requests of a shard: `(shard, (requester, rows, documents, draws, pieces))`."""
    (shard, tokens), before = item, _before(sizes)
    for duplicate in range(settings.duplicates):
        plans = list(_builder(vocabulary, settings).plans(tokens, before[shard], duplicate))
        if plans:
            # All plans at once, since Beam has an overhead per element, and there are shards squared of them.
            plan = sentence_pairs.Plan(*map(np.hstack, zip(*plans, strict=True)))
            for other, *which in generation.find_others(plan, before):
                yield other, ((shard, duplicate), *which)


def _answer(item):
    """Yields `(requester, (rows, ids, lengths))` for the requests to a shard."""
    (tokens,), asked = item[1]["shard"], item[1]["asked"]
    for asker, rows, *which in asked:
        yield asker, (rows, *token_store.following(tokens, *which))


def _askers(item, vocabulary, settings):
    shard, tokens = item
    return [((shard, duplicate), tokens) for duplicate in range(settings.duplicates)]


def _pairs(item, sizes, vocabulary, settings):
    """Yields the records of a requester. Planning the pairs again is cheaper than sending the plans."""
    (shard, duplicate), joined = item
    (tokens,), builder = joined["shard"], _builder(vocabulary, settings)
    ids, lengths = generation.sort_others(joined["texts"])
    ends, first = np.cumsum([0, *lengths]), 0
    for plan in builder.plans(tokens, _before(sizes)[shard], duplicate):
        last = first + np.count_nonzero(plan.wanted)
        others = ids[ends[first] : ends[last]], lengths[first:last]
        yield _serialize(builder, builder.pairs(tokens, plan, *others), plan.dropped)
        first = last


def _rows(item, vocabulary, settings):
    """Yields the records of a shard without next sentence prediction."""
    (shard, tokens), builder = item, _builder(vocabulary, settings)
    for duplicate in range(settings.duplicates):
        for examples in builder.rows(tokens, shard, duplicate):
            yield _serialize(builder, examples)


def _serialize(builder, examples, dropped=0):
    """Returns records and their counts."""
    records, counts = builder.serialize(examples)
    counts.update(dropped=dropped)
    return records, counts


def _add(counts):
    return sum(counts, collections.Counter())


def _write_manifest(header, sizes, counts, lengths, output, names, settings):
    file_systems = _beam().io.filesystems.FileSystems
    size = file_systems.get_filesystem(output).size
    paths = [file_systems.join(output, name) for name in names]
    files = [(name, lengths.get(path, 0), size(path)) for name, path in zip(names, paths, strict=True)]
    manifest = generation.make_manifest(header, sizes, files, counts, settings)
    _write(file_systems.join(output, MANIFEST), json_text(manifest, indent=1, ensure_ascii=True) + "\n")


def _read(path):
    with _beam().io.filesystems.FileSystems.open(path) as file:
        return json.load(file)


def _write(path, text):
    with _beam().io.filesystems.FileSystems.create(path) as file:
        file.write(text.encode())

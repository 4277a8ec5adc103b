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
    beam = _beam()
    vocabulary = Vocabulary(vocabulary)
    output = str(output)
    paths, header = generation.find_corpus(files, vocabulary, settings, shards, compress)
    if header.shards < 1:
        raise ValueError(f"`shards` must be at least 1. Received: shards={shards}")
    options = beam.options.pipeline_options.PipelineOptions(list(pipeline_options))
    file_systems = beam.io.filesystems.FileSystems
    file_systems.set_options(options)
    manifest = file_systems.join(output, MANIFEST)
    if file_systems.exists(manifest):
        generation.check_settings(output, _read_json(manifest), header)
        return _read_json(manifest)
    pieces = "".join([f"{piece}\n" for piece in vocabulary.pieces])
    _write_text(file_systems.join(output, "vocab.txt"), pieces)
    try:
        with beam.Pipeline(runner=runner, options=options) as pipeline:
            ranges = documents.cut_corpus(paths, header.shards)
            steps = _Steps(pipeline, files, output, header, vocabulary, settings)
            steps.build(ranges)
    except Exception as error:
        # Beam appends the name of a step to a user's error; from another process, the error is within a log.
        mistake = re.search(r"ValueError: (.*) \[while running", f"{type(error).__name__}: {error}")
        if mistake:
            raise ValueError(mistake[1]) from None
        raise
    return _read_json(manifest)


def _beam():
    """Returns the module of Apache Beam."""
    try:
        import apache_beam
    except ModuleNotFoundError:
        raise ValueError(
            "a runner needs Apache Beam, which is not installed: pip install apache-beam google-crc32c"
        ) from None
    return apache_beam


class _Steps:
    """The steps of a pipeline, from file ranges to the manifest."""

    def __init__(self, pipeline, files, output, header, vocabulary, settings):
        self._pipeline = pipeline
        self._files = files
        self._output = output
        self._header = header
        self._settings = settings
        # Arguments of `_builder`, in the process of a worker.
        self._builder_arguments = {"vocabulary": vocabulary, "settings": settings}

    def build(self, ranges):
        """Adds all steps; `ranges` are the file ranges of each shard."""
        beam = _beam()
        numbered_ranges = self._pipeline | "ranges" >> beam.Create(enumerate(ranges))
        shards = numbered_ranges | "tokenize" >> beam.Map(_tokenize, **self._builder_arguments)
        all_sizes = shards | "size" >> beam.Map(_size) | beam.combiners.ToList()
        checked = all_sizes | "check" >> beam.Map(_check, self._files, **self._builder_arguments)
        sizes = beam.pvalue.AsSingleton(checked)
        if self._settings.next_sentence:
            made = self._pairs(shards, sizes)
        else:
            made = shards | "rows" >> beam.FlatMap(_rows, **self._builder_arguments)
        counts = made | "counts" >> beam.Values() | "add" >> beam.CombineGlobally(_add)
        lengths = self._written_lengths(made, len(ranges))
        header = self._pipeline | "settings" >> beam.Create([self._header])
        _ = header | "manifest" >> beam.Map(
            _write_manifest,
            sizes,
            beam.pvalue.AsSingleton(counts),
            beam.pvalue.AsDict(lengths),
            self._output,
            generation.record_names(self._header),
            self._settings,
        )

    def _pairs(self, shards, sizes):
        """Returns the records of pairs: shards ask others for their random B's."""
        beam = _beam()
        asked = shards | "ask" >> beam.FlatMap(_ask, sizes, **self._builder_arguments)
        found = {"shard": shards, "asked": asked} | "find" >> beam.CoGroupByKey()
        texts = found | "answer" >> beam.FlatMap(_answer)
        askers = shards | "askers" >> beam.FlatMap(_askers, **self._builder_arguments)
        answered = {"shard": askers, "texts": texts} | "join" >> beam.CoGroupByKey()
        return answered | "pairs" >> beam.FlatMap(_pairs, sizes, **self._builder_arguments)

    def _written_lengths(self, made, count):
        """Writes the records to `count` files; returns the number of records by path."""
        beam = _beam()
        join = beam.io.filesystems.FileSystems.join
        suffix = ".tfrecord.gz" if self._header.compressed else ".tfrecord"
        sink = beam.io.tfrecordio.WriteToTFRecord(
            join(self._output, "examples"), file_name_suffix=suffix, num_shards=count
        )
        written = made | "records" >> beam.FlatMap(lambda some: some[0]) | sink
        # Generated again, since the sink does not return all names if its last step was interrupted and repeated.
        names = [join(self._output, name) for name in generation.record_names(self._header)]
        return (
            self._pipeline
            | "names" >> beam.Create(names)
            | "wait" >> beam.Map(lambda path, _: path, beam.pvalue.AsIter(written))
            | beam.io.tfrecordio.ReadAllFromTFRecord(with_filename=True)
            | beam.Keys()
            | beam.combiners.Count.PerElement()
        )


_builder = functools.lru_cache(maxsize=1)(ExampleBuilder)  # That of this process.


def _tokenize(item, vocabulary, settings):
    """Returns a shard with its tokens, in few bytes."""
    shard, ranges = item
    tokens = token_store.collect(_builder(vocabulary, settings).tokenize(ranges))
    return shard, tokens._replace(ids=tokens.ids.astype(np.min_scalar_type(len(vocabulary))))


def _size(item):
    """Returns a shard with the numbers of its documents, segments and pieces."""
    shard, tokens = item
    counts = {
        "documents": len(tokens.documents) - 1,
        "segments": len(tokens.segments) - 1,
        "pieces": len(tokens.ids),
    }
    return shard, counts


def _check(sizes, files, vocabulary, settings):
    """Returns the sizes in the order of the shards, after checking that there are enough documents."""
    in_order = [size for _, size in sorted(sizes)]
    generation.check_corpus(files, generation.documents_before(in_order)[-1], settings)
    return in_order


def _ask(item, sizes, vocabulary, settings):
    """Yields the requests of a shard: `(shard, (requester, OthersRequest))`."""
    shard, tokens = item
    before = generation.documents_before(sizes)
    for duplicate in range(settings.duplicates):
        plans = list(_builder(vocabulary, settings).plans(tokens, before[shard], duplicate))
        if plans:
            # All plans at once, since Beam has an overhead per element, and there are shards squared of them.
            for request in generation.find_others(_joined_plans(plans), before):
                yield request.shard, ((shard, duplicate), request)


def _joined_plans(plans):
    """Returns the `PairPlan` of all examples of several, one after another."""
    columns = {}
    for name in sentence_pairs.PairPlan._fields:
        columns[name] = np.hstack([getattr(plan, name) for plan in plans])
    return sentence_pairs.PairPlan(**columns)


def _answer(item):
    """Yields `(requester, OtherTexts)` for the requests to a shard."""
    _, joined = item
    (tokens,) = joined["shard"]
    for asker, request in joined["asked"]:
        yield asker, request.answer(tokens)


def _askers(item, vocabulary, settings):
    """Returns the tokens of a shard for each requester, `(shard, duplicate)`."""
    shard, tokens = item
    return [((shard, duplicate), tokens) for duplicate in range(settings.duplicates)]


def _pairs(item, sizes, vocabulary, settings):
    """Yields the records of a requester. Planning the pairs again is cheaper than sending the plans."""
    (shard, duplicate), joined = item
    (tokens,) = joined["shard"]
    builder = _builder(vocabulary, settings)
    before = generation.documents_before(sizes)
    ids, lengths = generation.sort_others(joined["texts"])
    ends = np.cumsum([0, *lengths])
    first = 0
    for plan in builder.plans(tokens, before[shard], duplicate):
        last = first + np.count_nonzero(plan.wanted)
        others = ids[ends[first] : ends[last]]
        examples = builder.pairs(tokens, plan, others, lengths[first:last])
        yield _serialize(builder, examples, plan.dropped)
        first = last


def _rows(item, vocabulary, settings):
    """Yields the records of a shard without next sentence prediction."""
    shard, tokens = item
    builder = _builder(vocabulary, settings)
    for duplicate in range(settings.duplicates):
        for examples in builder.rows(tokens, shard, duplicate):
            yield _serialize(builder, examples)


def _serialize(builder, examples, dropped=0):
    """Returns records and their counts."""
    records, counts = builder.serialize(examples)
    counts.update(dropped=dropped)
    return records, counts


def _add(counts):
    """Returns the sum of counts."""
    return sum(counts, collections.Counter())


def _write_manifest(header, sizes, counts, lengths, output, names, settings):
    """Writes the manifest; `lengths` are the numbers of records by path."""
    file_systems = _beam().io.filesystems.FileSystems
    size = file_systems.get_filesystem(output).size
    files = []
    for name in names:
        path = file_systems.join(output, name)
        files.append(generation.manifest_file(name, lengths.get(path, 0), size(path)))
    manifest = generation.make_manifest(header, sizes, files, counts, settings)
    content = json_text(manifest, indent=1, ensure_ascii=True)
    _write_text(file_systems.join(output, MANIFEST), f"{content}\n")


def _read_json(path):
    """Returns the content of a file of JSON in any file system of Beam."""
    with _beam().io.filesystems.FileSystems.open(path) as file:
        return json.load(file)


def _write_text(path, text):
    """Writes a file in any file system of Beam."""
    with _beam().io.filesystems.FileSystems.create(path) as file:
        file.write(text.encode())

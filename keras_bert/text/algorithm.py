"""A subword algorithm, such as WordPiece: all that is known of its vocabularies. No TensorFlow.

An algorithm is one file with a subclass of `Algorithm`, a line in `registry`, and a file with the tokenizer that runs
inside the graph. All other code calls these methods.
"""

from keras_bert.text.tokenizer_json import template_of, template_processor
from keras_bert.text.tokenizer_steps import changes_case


class Algorithm:
    """A subword algorithm: how vocabularies of one kind are known, read, checked, written and used.

    `vocabulary` is a `Vocabulary`, `values` a dict of the arguments of one, and of `lowercase` if a file decides it.
    """

    name = ""  # In messages.
    described = ""  # A vocabulary of it, in messages: "Received: ...".
    json_type = ""  # `model.type` in a `tokenizer.json`.
    # The argument of `Vocabulary` with what its pieces alone do not say, a dict; `None`: there is none.
    option: str | None = None
    files: tuple[str, ...] = ()  # What a folder may have in place of `tokenizer.json`.
    written: tuple[str, ...] = ()  # Those of them that `write_files` writes.
    classes: frozenset[str] = frozenset()  # Tokenizer classes of transformers, without the endings that do not matter.
    bert_classes: frozenset[str] = frozenset()  # Those of them that have BERT's steps where the file has none.
    # Pairs: the `model_type` of a config, and the class if no file names one.
    class_of_model: tuple[tuple[str, str], ...] = ()
    bert_steps = False  # Whether BERT's normalizer stands in the place of none.

    # Files

    def read_json(self, path, content, bert_defaults):
        """Returns the values of a parsed `tokenizer.json`; for `bert_defaults` see `registry.read_json`."""
        raise NotImplementedError

    def read_file(self, path, class_name):
        """Returns the values of one of `files`, with the pieces that a class of transformers adds."""
        raise NotImplementedError

    def word_class(self, class_name, settings):
        """Returns whether a class splits texts into words by a dictionary, and these by this algorithm.

        Such a class is only read for texts whose words are separated already.
        """
        return False

    def complete(self, values, config):
        """Returns the values with what a `TokenizerConfig` adds: options, special and added tokens, segments."""
        raise NotImplementedError

    def write_files(self, vocabulary, directory):
        """Writes `written` to a folder, beside `tokenizer.json`."""

    def json_processor(self, vocabulary):
        """Returns the post-processor in a `tokenizer.json`."""
        return template_processor(vocabulary, template_of(vocabulary))

    def json_tokens(self, vocabulary):
        """Returns the added tokens in a `tokenizer.json` by content, a dict of `AddedToken`s."""
        return {token.content: token for token in vocabulary.added_tokens}

    def tokens_beside_pieces(self, vocabulary):
        """Returns the contents of the added tokens that are no parts of words, a set."""
        # Of two with the same content, the last one counts.
        is_part = {token.content: token.wordpiece for token in vocabulary.added_tokens}
        return {content for content in is_part if not is_part[content]}

    def json_normalizer(self, vocabulary, lowercase):
        """Returns the normalizer in a `tokenizer.json`."""
        return vocabulary.normalizer

    def json_pre_tokenizer(self, vocabulary):
        """Returns the pre-tokenizer in a `tokenizer.json`."""
        return vocabulary.pre_tokenizer or {"type": "BertPreTokenizer"}

    def json_model(self, vocabulary, lowercase):
        """Returns the sections `decoder` and `model` of a `tokenizer.json`."""
        raise NotImplementedError

    # Vocabularies

    def check_pieces(self, vocabulary):
        """Raises for pieces that the algorithm cannot have."""
        raise NotImplementedError

    def check_steps(self, vocabulary):
        """Raises for a normalizer or a pre-tokenizer that the algorithm cannot have."""

    def check_extendable(self, vocabulary):
        """Raises unless pieces can be added."""
        raise ValueError(f"{vocabulary.source}: pieces are added to WordPiece vocabularies. Received: {self.described}")

    def decided_case(self, vocabulary):
        """Returns whether texts are changed to lower case, `None` if the vocabulary does not decide this."""
        if vocabulary.normalizer is None:
            return None
        return changes_case(vocabulary.normalizer)

    def is_continuation(self, vocabulary):
        """Returns by id whether a piece continues a word."""
        raise NotImplementedError

    def shown_pieces(self, vocabulary):
        """Returns the pieces by id as answers show them."""
        return list(vocabulary.pieces)

    def text(self, vocabulary, pieces):
        """Returns the text of pieces."""
        raise NotImplementedError

    # The graph

    def tokenizer_class(self):
        """Returns the `Tokenizer` that splits texts inside the graph. Its module needs TensorFlow."""
        raise NotImplementedError

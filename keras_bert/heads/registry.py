"""The list of heads, in the order in which messages name them."""

from keras_bert.heads.bilstm_tagging import BiLSTMTagging
from keras_bert.heads.classification import Classification
from keras_bert.heads.embedding import Embedding
from keras_bert.heads.multiple_choice import MultipleChoice
from keras_bert.heads.pretraining import NextSentence, Pretraining
from keras_bert.heads.question_answering import QuestionAnswering
from keras_bert.heads.replaced_token_detection import ReplacedTokenDetection
from keras_bert.heads.token_classification import TokenClassification
from keras_bert.heads.vectors import Vectors

HEADS = [
    Vectors(),
    Embedding(),
    NextSentence(),
    Pretraining(),
    Classification(),
    TokenClassification(),
    BiLSTMTagging(),
    QuestionAnswering(),
    ReplacedTokenDetection(),
    MultipleChoice(),
]


def head_named(name):
    """Returns a head."""
    found = next((head for head in HEADS if head.name == name), None)
    if found is None:
        known = ", ".join(head.name for head in HEADS)
        raise ValueError(f"`head` must be one of {known}. Received: head={name!r}")
    return found


def answering(name):
    """Returns a head whose models answer texts."""
    if all(head.name != name for head in HEADS):  # A language model of `build_bilm`.
        raise ValueError(f"a model with head={name!r} answers no texts: export the model that reads its hidden states")
    return head_named(name)

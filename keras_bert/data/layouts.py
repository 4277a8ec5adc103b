"""The names that columns have in other programs' files and on the hub. A new layout is a row of one of these tables."""

# The text, and its pair if there is one: of several rows, the first one whose columns a source has counts.
TEXTS = (
    ("text",),
    ("sentence1", "sentence2"),  # GLUE on the hub: MRPC, RTE, STS-B, WNLI.
    ("premise", "hypothesis"),  # MNLI
    ("question1", "question2"),  # QQP
    ("question", "sentence"),  # QNLI
    ("sentence",),  # CoLA, SST-2
)


def texts(source, given):
    """Returns the columns of the text and of its pair, or `None` for the latter; `given` columns are wanted, too."""
    names = source.names(() if source.typed else [*given, TEXTS[0][0]])  # These tell the delimiter of CSV.
    found = next((row for row in TEXTS if set(row) <= set(names)), TEXTS[0])
    return found if len(found) > 1 else (*found, None)

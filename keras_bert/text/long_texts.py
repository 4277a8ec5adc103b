"""Which tokens are read of a text that is too long, see `views`: the names of the choices, and of their options."""

HEAD = "head"
TAIL = "tail"
HEAD_TAIL = "head_tail"
WINDOWS = "windows"
REFUSE = "refuse"
LONG_TEXTS = (HEAD, TAIL, HEAD_TAIL, WINDOWS, REFUSE)
CUTS = (HEAD, TAIL, HEAD_TAIL, REFUSE)  # Those that make one sequence of a text.
READING = ("long_texts", "overlap", "max_windows")  # The options of `TextPreprocessor` that tell it, and how.

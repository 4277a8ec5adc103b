"""Intents of conversations, rows such as {"turns": ["Hello!", "My card is lost."], "intent": "lost_card"}."""

import keras_bert
from keras_bert.tasks import ClassificationTask, TextRows


class ConversationRows(TextRows):
    """Conversations, the newest turn last, and what that turn wants."""

    expects = "dicts with turns and an intent"
    columns = ({"turns"},)
    target_columns = ("intent",)

    def convert(self, place, row, settings):
        """Puts the newest turn first: long texts are cut at their end, and lose the oldest turns."""
        turns = row.get("turns")
        if not isinstance(turns, list) or not turns:
            raise ValueError(f"{place}: `turns` must be a list of strings. Received: {turns!r:.100}")
        return {"text": " | ".join(reversed(turns))}


@keras_bert.register_task
class Intents(ClassificationTask):
    """Intents of conversations."""

    name = "intents"
    rows = ConversationRows()

"""What `tokenizer_config.json` of Hugging Face, and the older files beside it, say about a tokenizer. No TensorFlow."""

import dataclasses
import logging
import pathlib

from keras_bert.text.tokenizer_json import (
    STANDARD,
    added_token,
    check_added_ids,
    check_ids,
    no_piece,
)

SETTINGS = "tokenizer_config.json"
ADDED = "added_tokens.json"
DECODER = "added_tokens_decoder"  # In the settings: all added tokens; older files are ignored then.
EXTRA = "extra_special_tokens"  # In the settings: special tokens.
SIDE = "truncation_side"
INPUTS = "model_input_names"
SEGMENTS = "token_type_ids"  # One of the inputs.
# The settings that name special tokens, and BERT's names of these.
ROLES = {
    "unk_token": "[UNK]",
    "sep_token": "[SEP]",
    "pad_token": "[PAD]",
    "cls_token": "[CLS]",
    "mask_token": "[MASK]",
}
# Settings that change the ids, with the values of BERT.
_FIXED = {"do_basic_tokenize": True, "split_special_tokens": False}
_LOG = logging.getLogger("keras_bert")


@dataclasses.dataclass(frozen=True)
class TokenizerConfig:
    """The settings of a tokenizer in a folder.

    `settings` is the content of `tokenizer_config.json` with that of `special_tokens_map.json`; its value of `EXTRA` is
    a list of entries.
    """

    folder: str  # For messages.
    path: pathlib.Path  # The file with the vocabulary.
    class_name: str  # Of transformers, without the endings that do not matter.
    settings: dict
    older_added_tokens: dict  # Of `added_tokens.json`: ids by content.
    kept_special_tokens: tuple = ()  # BERT's special tokens that are recognized in texts.
    longest_word: int | None = None  # The maximum if no file has it, of a folder that was not made for transformers.

    @property
    def has_added_tokens(self):
        """Whether the settings have all added tokens, so that older files are ignored."""
        return DECODER in self.settings

    def special_tokens(self, values):
        """Returns the pieces in the place of BERT's special tokens: those of the vocabulary's file, `values`.

        The settings decide on padding and mask, which no template has.
        """
        special = dict(values["special_tokens"])
        for key in ("pad_token", "mask_token"):
            token = content_of(self.settings.get(key))
            if token in values["pieces"]:
                special[ROLES[key]] = token
        return {role: token for role, token in special.items() if role != token}

    def has_segments(self, default):
        """Returns whether the model gets segment ids; `default` is what the class does."""
        inputs = self.settings.get(INPUTS)
        if inputs is None:
            return default
        return SEGMENTS in inputs

    def check(self, special_tokens=None):
        """Raises if a setting differs from BERT's. The side of padding does not matter: it has no positions here.

        `special_tokens` are those in the place of BERT's, a dict.
        """
        never_split = set(self.settings.get("never_split") or ())
        others = sorted(never_split - set(STANDARD))
        if others:
            _LOG.warning(
                "%s: `never_split` of %s is ignored, as in transformers 5: %s. Tokens of added_tokens.json are never "
                "split",
                self.folder,
                SETTINGS,
                ", ".join(others),
            )
        names = special_tokens or {}
        expected = dict(_FIXED)
        for key, role in ROLES.items():
            expected[key] = names.get(role, role)
        for key, allowed in expected.items():
            value = content_of(self.settings.get(key))
            if value is not None and value != allowed:
                raise ValueError(
                    f"{self.folder}: the tokenizer's `{key}` must be {allowed!r}, as in BERT. Received: {key}={value!r}"
                )

    def with_added_tokens(self, pieces, added_tokens, left_out=STANDARD):
        """Returns the pieces and the added tokens of the vocabulary's file, with those of all other files.

        Those of the names `left_out` are none.
        """
        named = self._special_tokens()
        by_id = self._tokens_by_id(named)
        contents = {index: entry["content"] for index, entry in by_id.items()}
        file = SETTINGS if self.has_added_tokens else ADDED
        extended = _extended(pieces, contents, self.path.parent / file)
        present = set(extended)
        extended.extend(content for content in named if content not in present)

        with_id = set(contents.values())
        entries_of_files = list(by_id.values())
        entries_of_files.extend(entry for content, entry in named.items() if content not in with_id)
        added = list(added_tokens)
        if self.has_added_tokens:  # Which replace those of the vocabulary's file.
            added = [token for token in added_tokens if token.content not in with_id]
        known = set(pieces)
        others = {*left_out, *(token.content for token in added)}
        for entry in entries_of_files:
            if entry["content"] not in others:
                added.append(added_token(entry, known))
        return extended, added

    def _tokens_by_id(self, named):
        """Returns the entries of the added tokens by id; in the older file, those of `named` contents are special."""
        by_id = {}
        if self.has_added_tokens:
            for index, entry in (self.settings[DECODER] or {}).items():
                by_id[int(index)] = entry
        else:
            for content, index in self.older_added_tokens.items():
                by_id[index] = {"content": content, "special": content in named}
        return by_id

    def with_flags(self, tokens):
        """Returns special tokens of a class with the flags that the settings give them, such as `lstrip`."""
        values = {}
        for key, value in self.settings.items():
            if key.endswith("_token"):
                values[content_of(value)] = value
        flagged = []
        for token in tokens:
            value = values.get(token.content)
            if isinstance(value, dict):
                entry = {"special": True} | value
                known = [token.content] if token.wordpiece else []
                flagged.append(added_token(entry, known))
            else:
                flagged.append(token)
        return flagged

    def _special_tokens(self):
        """Returns the special tokens besides BERT's five: those with a name, such as `bos_token`, and those in a list.

        A dict of entries by content.
        """
        named = {}
        for key, token in self.settings.items():
            if key.endswith("_token") and key not in ROLES and isinstance(token, str | dict):
                named[key] = token
        by_content = {}
        for entry in [*entries(named), *self.settings[EXTRA]]:
            by_content[entry["content"]] = entry
        return by_content


def _extended(pieces, contents, path):
    """Returns the pieces with the added tokens at their ids, with placeholders between them; `path` is for errors."""
    check_ids(path, dict(enumerate(pieces)) | contents)
    ids = {piece: index for index, piece in enumerate(pieces) if piece != no_piece(index)}
    check_added_ids(path, ids, {content: index for index, content in contents.items()})
    extended = list(pieces)
    known = set(pieces)
    for index, content in sorted(contents.items()):
        while len(extended) <= index:
            extended.append(no_piece(len(extended)))
        if content not in known:
            extended[index] = content
    return extended


def entries(tokens):
    """Returns the entries of a list or a dict of special tokens, which may be strings."""
    values = tokens.values() if isinstance(tokens, dict) else tokens
    special_entries = []
    for token in values:
        entry = token if isinstance(token, dict) else {"content": token}
        special_entries.append(entry | {"special": True})
    return special_entries


def content_of(token):
    """Returns the string of a setting that names a token, which may be an entry of an added token."""
    if isinstance(token, dict):
        return token.get("content")
    return token

"""BLEU and chrF of translations."""

import sacrebleu


def bleu(translations, references, tokenizer="13a"):
    """Returns sacreBLEU's BLEU of a corpus, and the signature that names its settings.

    Args:
        translations: list of strings.
        references: list of strings, one for each translation.
        tokenizer: str, name of sacreBLEU's tokenizer; "char" or "zh" if words have no spaces. Defaults to "13a".
    """
    metric = sacrebleu.BLEU(tokenize=tokenizer)
    score = metric.corpus_score(translations, [references]).score
    return score, str(metric.get_signature())


def chrf(translation, reference):
    """Returns sacreBLEU's chrF of one translation."""
    return sacrebleu.CHRF().sentence_score(translation, [reference]).score

"""BLEU and chrF of translations."""

import sacrebleu


def bleu(translations: list[str], references: list[str], tokenizer: str = "13a"):
    """Returns sacreBLEU's BLEU of a corpus, and the signature that names its settings.

    `tokenizer` is one of sacreBLEU's, "char" or "zh" if words have no spaces.
    """
    metric = sacrebleu.BLEU(tokenize=tokenizer)
    score = metric.corpus_score(translations, [references]).score
    return score, str(metric.get_signature())


def chrf(translation, reference):
    """Returns sacreBLEU's chrF of one translation."""
    return sacrebleu.CHRF().sentence_score(translation, [reference]).score

"""Surface features of texts: lengths, punctuation, spelling, shares of word classes. Stateless."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]

WORD = re.compile(r"\w+(?:['’]\w+)*")
SENTENCE_END = re.compile(r"[.!?…。！？؟]+(?=\s|$|[\"'”’)])|\n+")
URL = re.compile(r"https?://\S+|www\.\S+")
VOWELS = re.compile(r"[aeiouyàáâäåæèéêëìíîïòóôöøùúûü]+")
NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
STRETCHED = re.compile(r"(\w)\1\1")
REPEATED_MARK = re.compile(r"[!?]{2,}")
MARK = re.compile(r"[^\w\s]")
ELLIPSIS = re.compile(r"\.{2,}|…")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


WORD_LISTS: Mapping[str, frozenset[str]] = {
    "causes": _words("because since therefore thus hence so consequently cause causes caused leads reason reasons why"),
    "contrasts": _words("but however although though yet while whereas despite instead rather unless still otherwise"),
    "additions": _words("also and moreover furthermore additionally besides too first second third finally another"),
    "examples": _words("example examples instance instances such namely like e.g i.e imagine suppose consider"),
    "conditions": _words("if then when whenever whether unless provided"),
    "hedges": _words(
        "maybe perhaps probably possibly seems seem seemed appears likely somewhat guess think believe feel"
    ),
    "boosters": _words(
        "always never very really absolutely totally clearly obviously definitely certainly every all must"
    ),
    "modals": _words("can could may might must shall should will would ought cannot can't won't shouldn't wouldn't"),
    "negations": _words(
        "no not nor none never nothing nobody neither without don't doesn't didn't isn't aren't wasn't can't won't"
    ),
    "myself": _words("i me my mine myself i'm i've i'd i'll im"),
    "ourselves": _words("we us our ours ourselves we're we've we'll"),
    "addressed": _words("you your yours yourself you're you've you'll u ur"),
    "others": _words("he she they him her them his their theirs it its people person someone everyone anyone"),
    "evidence": _words(
        "study studies research researchers evidence fact facts statistics statistic percent according data report "
        "science scientific proof prove proven proves shows showed source found"
    ),
    "harms_and_goods": _words(
        "harm harmful danger dangerous risk safe safety health benefit benefits help helps helpful good bad better "
        "worse best worst problem problems solution improve damage death die kill save"
    ),
    "principles": _words(
        "right rights wrong moral morality freedom free law laws legal illegal choice choose equal equality fair "
        "justice government society responsibility responsible respect"
    ),
    "insults": _words(
        "stupid idiot idiots idiotic dumb moron fool fools silly hate crap sucks suck hell damn ass shit fuck loser"
    ),
    "chat": _words(
        "lol lmao haha hahaha omg wtf btw idk u ur r cuz coz bc thx plz pls gonna wanna gotta yeah yea yep nope ok okay"
    ),
    "missing_apostrophes": _words(
        "dont doesnt didnt isnt arent wasnt werent cant wont couldnt wouldnt shouldnt havent hasnt im ive youre theyre "
        "thats whats lets theres"
    ),
    "articles": _words("a an the"),
    "prepositions": _words(
        "of in to for with on at by from about into through over after between under against during before within"
    ),
    "linking_verbs": _words("is are was were be been being am has have had do does did"),
    "comparisons": _words("more most less least than better worse as same different greater fewer equally"),
    "questions": _words("who what when where why how which whose"),
}
ENDINGS: Mapping[str, tuple[str, ...]] = {
    "abstract_nouns": ("tion", "sion", "ment", "ness", "ity", "ance", "ence", "ism"),
    "adverbs": ("ly",),
    "ing_forms": ("ing",),
    "past_forms": ("ed",),
}
MARKS: Mapping[str, str] = {
    "commas": ",،、",
    "full_stops": ".。",
    "exclamations": "!！",
    "question_marks": "?？؟",
    "quotes": '"“”«»',
    "apostrophes": "'’",
    "brackets": "()[]",
    "colons": ":;",
    "dashes": "-–—",
}
LISTS_OF = {
    word: tuple(n for n, words in WORD_LISTS.items() if word in words)
    for word in frozenset().union(*WORD_LISTS.values())
}
ENDINGS_OF = {
    last: tuple(name for name, endings in ENDINGS.items() if any(ending.endswith(last) for ending in endings))
    for last in {ending[-2:] for endings in ENDINGS.values() for ending in endings}
}


def surface_features(texts: Sequence[str]) -> Floats:
    """One finite row per text, with the columns SURFACE_NAMES."""
    rows = [list(_text_features(text).values()) for text in texts]
    return np.array(rows, dtype=np.float64).reshape(len(rows), len(SURFACE_NAMES))


def _text_features(text: str) -> dict[str, float]:
    """The surface features of one text by name."""
    tokens = WORD.findall(text)
    lowered = [token.lower().replace("’", "'") for token in tokens]
    sentences = [part for part in SENTENCE_END.split(text) if part.strip()]
    lengths = np.array([len(token) for token in tokens] or [0], dtype=np.float64)
    per_word = 1.0 / max(len(tokens), 1)
    return {
        **_sizes(text, tokens, lengths, sentences),
        **_variety(lowered, lengths),
        **_readability(lowered, lengths, len(sentences)),
        **_typing(text, tokens, sentences, per_word),
        **{name: sum(map(text.count, marks)) * per_word for name, marks in MARKS.items()},
        **_word_classes(lowered, per_word),
    }


def _sizes(text: str, tokens: Sequence[str], lengths: Floats, sentences: Sequence[str]) -> dict[str, float]:
    """Lengths of the text, its sentences and its words."""
    sentence_lengths = [len(WORD.findall(sentence)) for sentence in sentences] or [0]
    return {
        "log_characters": float(np.log1p(len(text))),
        "log_words": float(np.log1p(len(tokens))),
        "log_sentences": float(np.log1p(len(sentences))),
        "log_lines": float(np.log1p(text.count("\n"))),
        "log_mean_sentence": float(np.log1p(np.mean(sentence_lengths))),
        "log_longest_sentence": float(np.log1p(max(sentence_lengths))),
        "spread_of_sentences": float(np.std(sentence_lengths) / (1.0 + np.mean(sentence_lengths))),
        "mean_word": float(lengths.mean()),
        "spread_of_words": float(lengths.std()),
    }


def _variety(lowered: Sequence[str], lengths: Floats) -> dict[str, float]:
    """Variety of the vocabulary, and shares of long words."""
    counts: dict[str, int] = {}
    for word in lowered:
        counts[word] = counts.get(word, 0) + 1
    n_words, n_types = max(len(lowered), 1), len(counts)
    return {
        "types_per_token": n_types / n_words,
        "types_per_root_token": n_types / n_words**0.5,
        "used_once": sum(count == 1 for count in counts.values()) / n_words,
        "over_six_letters": float(np.mean(lengths > 6)),
        "over_ten_letters": float(np.mean(lengths > 10)),
        "log_long_words": float(np.log1p(np.sum(lengths > 6))),
    }


def _readability(lowered: Sequence[str], lengths: Floats, n_sentences: int) -> dict[str, float]:
    """Syllables, and readability scores similar to those of Flesch and Coleman-Liau."""
    syllables = np.array([max(len(VOWELS.findall(word)), 1) for word in lowered] or [0], dtype=np.float64)
    words_per_sentence = len(lowered) / max(n_sentences, 1)
    return {
        "syllables": float(syllables.mean()),
        "over_two_syllables": float(np.mean(syllables > 2)),
        "reading_ease": 207.0 - 1.0 * min(words_per_sentence, 200.0) - 85.0 * float(syllables.mean()),
        "school_grade": 5.9 * float(lengths.mean()) - 30.0 / max(words_per_sentence, 1.0) - 16.0,
    }


def _typing(text: str, tokens: Sequence[str], sentences: Sequence[str], per_word: float) -> dict[str, float]:
    """Typing style: capitals, stretched words, repeated marks, links, numbers."""
    n_letters = max(sum(map(str.isalpha, text)), 1)
    starts = [sentence.strip()[0] for sentence in sentences]
    return {
        "capitals": sum(map(str.isupper, text)) / n_letters,
        "shouted_words": sum(len(token) > 1 and token.isupper() for token in tokens) * per_word,
        "capital_starts": float(np.mean([not start.islower() for start in starts])) if starts else 0.0,
        "small_i": tokens.count("i") * per_word,
        "stretched_words": len(STRETCHED.findall(text)) * per_word,
        "repeated_marks": len(REPEATED_MARK.findall(text)) * per_word,
        "ellipses": len(ELLIPSIS.findall(text)) * per_word,
        "ends_with_mark": float(text.rstrip()[-1:] in tuple('.!?"”)…')),
        "links": float(np.log1p(len(URL.findall(text)))),
        "numbers": float(np.log1p(len(NUMBER.findall(text)))),
        "marks_per_character": len(MARK.findall(text)) / max(len(text), 1),
    }


def _word_classes(lowered: Sequence[str], per_word: float) -> dict[str, float]:
    """The share of words in each word list and with each ending."""
    counts = dict.fromkeys((*WORD_LISTS, *ENDINGS), 0)
    for word in lowered:
        for name in LISTS_OF.get(word, ()):
            counts[name] += 1
        if len(word) > 4:
            for name in ENDINGS_OF.get(word[-2:], ()):
                counts[name] += word.endswith(ENDINGS[name])
    return {name: count * per_word for name, count in counts.items()}


SURFACE_NAMES: tuple[str, ...] = tuple(_text_features(""))

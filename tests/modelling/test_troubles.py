"""What ran out is said in words, however the system put it."""

import errno

import pytest

from modelling import troubles
from modelling.troubles import TOO_LARGE, UNEXPECTED, memory_limit, words_for


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
        ImportError("some.so: failed to map segment from shared object"),
        ImportError("some.so: cannot allocate memory in static TLS block"),
    ],
)
def test_memory_that_ended_is_a_study_too_large_wherever_it_ended(error: BaseException) -> None:
    words = words_for(error)
    assert words == TOO_LARGE % {"most": f"{memory_limit() // 10**6:,}"}


def test_the_limit_is_that_of_the_process_and_stays_in_the_words_of_every_language(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """P34: "too large: limit …"."""
    monkeypatch.setattr(troubles.resource, "getrlimit", lambda which: (1_500_000_000, -1))
    words = words_for(MemoryError())
    assert "at most 1,500 MB of memory" in words
    assert troubles.translated(words) == words
    monkeypatch.setattr(troubles, "gettext", lambda words: words.replace("This study is too large", "Zu groß"))
    assert troubles.translated(words).startswith("Zu groß: the model may use at most 1,500 MB")
    assert troubles.translated("") == ""


@pytest.mark.parametrize("error", [ImportError("No module named 'sklearn'"), OSError(errno.EIO, "Input/output error")])
def test_other_failures_of_libraries_and_files_are_not(error: BaseException) -> None:
    assert words_for(error) == UNEXPECTED

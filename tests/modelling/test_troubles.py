"""What ran out is said in words, however the system put it."""

import errno

import pytest

from modelling.troubles import TOO_LARGE, UNEXPECTED, words_for


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
    assert words_for(error) == TOO_LARGE


@pytest.mark.parametrize("error", [ImportError("No module named 'sklearn'"), OSError(errno.EIO, "Input/output error")])
def test_other_failures_of_libraries_and_files_are_not(error: BaseException) -> None:
    assert words_for(error) == UNEXPECTED

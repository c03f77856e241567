"""Failure messages for different kinds of errors."""

import errno

import pytest
from django.utils import translation
from django.utils.translation import gettext

from modelling.training import size
from modelling.training.size import memory_limit
from modelling.updater.failure_messages import (
    DISK_FULL,
    KILLED,
    LAST_GOOD,
    NOT_FINITE,
    OUT_OF_MEMORY,
    UNEXPECTED,
    failure_message,
    translate_message,
)


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
        ImportError("some.so: failed to map segment from shared object"),
        ImportError("some.so: cannot allocate memory in static TLS block"),
    ],
)
def test_all_kinds_of_memory_errors_give_the_out_of_memory_message(error: BaseException) -> None:
    assert failure_message(error) == OUT_OF_MEMORY % {"most": f"{memory_limit() // 10**6:,}"}


def test_the_message_names_the_memory_limit_in_every_language(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(size.resource, "getrlimit", lambda which: (1_500_000_000, -1))
    message = failure_message(MemoryError())
    assert "at most 1,500 MB on this server" in message
    assert translate_message(message) == message
    with translation.override("de"):
        german = translate_message(message)
        assert german == gettext(OUT_OF_MEMORY) % {"most": "1,500"}
    assert german != message
    assert translate_message("") == ""


@pytest.mark.parametrize("language", ["en", "de"])
@pytest.mark.parametrize("message", [OUT_OF_MEMORY % {"most": "1,500"}, DISK_FULL, KILLED, NOT_FINITE, UNEXPECTED])
def test_before_the_first_version_none_is_said_to_be_shown(message: str, language: str) -> None:
    with translation.override(language):
        with_version, without = translate_message(message), translate_message(message, has_version=False)
        assert with_version == f"{without} {gettext(LAST_GOOD)}"


@pytest.mark.parametrize("error", [ImportError("No module named 'sklearn'"), OSError(errno.EIO, "Input/output error")])
def test_other_library_and_file_errors_are_unexpected(error: BaseException) -> None:
    assert failure_message(error) == UNEXPECTED

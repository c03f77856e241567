"""A command run as the command line runs it, in this process: what it printed and the code it ended with."""

import json
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import pytest
from django.core.management import ManagementUtility


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str

    @property
    def facts(self) -> dict[str, Any]:
        """The one JSON object on standard output."""
        found = json.loads(self.out)
        assert isinstance(found, dict)
        return found


@dataclass(frozen=True)
class CommandLine:
    capture: pytest.CaptureFixture[str]

    def __call__(self, *words: object) -> Ended:
        """`manage.py` with these words. The test's connection stays open, as it belongs to the test."""
        self.capture.readouterr()
        code: object = 0
        with patch("django.core.management.base.connections.close_all"):
            try:
                ManagementUtility(["manage.py", *map(str, words)]).execute()
            except SystemExit as ended:
                code = ended.code or 0
        assert isinstance(code, int)
        return Ended(code, *self.capture.readouterr())

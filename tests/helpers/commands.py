"""Run a command in this process as the command line does; return its output and exit code."""

import json
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import pytest
from django.core.management import ManagementUtility


@dataclass(frozen=True)
class CommandResult:
    code: int
    out: str
    err: str

    @property
    def facts(self) -> dict[str, Any]:
        """Parse the JSON object on standard output."""
        result = json.loads(self.out)
        assert isinstance(result, dict)
        return result


@dataclass(frozen=True)
class CommandLine:
    capture: pytest.CaptureFixture[str]

    def __call__(self, *arguments: object) -> CommandResult:
        """Run `manage.py` with these arguments. The test's database connection stays open.

        Without a second `django.setup()`: it would send the log to the captured stream, which closes with the test.
        """
        self.capture.readouterr()
        code: object = 0
        with patch("django.core.management.base.connections.close_all"), patch("django.setup"):
            try:
                ManagementUtility(["manage.py", *map(str, arguments)]).execute()
            except SystemExit as error:
                code = error.code or 0
        assert isinstance(code, int)
        return CommandResult(code, *self.capture.readouterr())

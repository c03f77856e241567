"""Run schemathesis with all checks against a running server, often with valid ids of a study."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import schemathesis
from schemathesis.config import SchemathesisConfig
from schemathesis.engine import events, from_schema
from schemathesis.openapi.checks import EnsureResourceAvailability

PHASES = ("examples", "coverage", "fuzzing", "stateful")
# A request can match the schema and still be refused: a forged cursor, a duplicate key, an answer that is already
# stored. schemathesis reports that as a refusal of valid data, so 400 and 422 are added to its list; the check below
# accepts them only if the problem is not about the schema.
ACCEPTED = ["2xx", "304", "400", "401", "403", "404", "409", "422"]
Known = dict[str, list[Any]]


@dataclass
class Run:
    """Number of requests, responses by status, and failures."""

    cases: int = 0
    answers: Counter[int] = field(default_factory=Counter)
    done: Counter[str] = field(default_factory=Counter)  # operations that succeeded
    failures: list[str] = field(default_factory=list)


@schemathesis.check
def a_refused_valid_request_has_a_reason(ctx: Any, response: Any, case: Any) -> None:
    if case.meta is None or not case.meta.generation.mode.is_positive:
        return
    if response.status_code == 400:
        assert response.json()["field"] == "cursor", response.json()
    elif response.status_code == 422:
        assert response.json()["code"], response.json()  # schema errors have no code


@schemathesis.hook
def filter_failure(context: Any, failure: Any, case: Any, response: Any) -> bool:
    """Ignore a 404 after a creation if it is about an id in the body and not about the created resource."""
    if not isinstance(failure, EnsureResourceAvailability):
        return True
    problem = response.json()
    return problem["field"] is None and problem["code"] != "not_yours"


def fuzz(address: str, token: str, known: Known, *, examples: int, seed: int, phases: tuple[str, ...] = PHASES) -> Run:
    """Run these phases for every operation; `known` has valid values by parameter."""
    config = _config(token, known, examples, seed, phases)
    schema, run = schemathesis.openapi.from_url(f"{address}/api/v1/openapi.json", config=config), Run()
    for event in from_schema(schema).execute():
        if isinstance(event, events.ScenarioFinished):
            _record(run, event.recorder)
        elif isinstance(event, events.NonFatalError):
            run.failures.append(f"{event.label}: {event.value}")
        elif isinstance(event, events.FatalError):
            run.failures.append(str(event.exception))
    return run


def _config(token: str, known: Known, examples: int, seed: int, phases: tuple[str, ...]) -> SchemathesisConfig:
    return SchemathesisConfig.from_dict(
        {
            "seed": seed,
            "auth": {"openapi": {"Bearer": {"bearer": token}}},
            "generation": {"max-examples": examples, "database": "none", "no-shrink": True},
            "checks": {"positive_data_acceptance": {"expected-statuses": ACCEPTED}},
            "phases": {name: {"enabled": name in phases} for name in PHASES},
            "dictionaries": {name: {"values": values} for name, values in known.items()},
            "parameters": {name: {"dictionary": name, "probability": 0.8} for name in known},
        }
    )


def _record(run: Run, recorder: Any) -> None:
    run.cases += len(recorder.interactions)
    for case, interaction in recorder.interactions.items():
        if interaction.response is not None:
            run.answers[interaction.response.status_code] += 1
            run.done[_label(recorder, case)] += interaction.response.status_code < 300
    for case, checks in recorder.checks.items():
        for check in checks:
            if check.failure_info is not None:
                run.failures.append(f"{_label(recorder, case)}: {check.failure_info.failure}\n{_sent(recorder, case)}")


def _label(recorder: Any, case: str) -> str:
    return recorder.cases[case].value.operation.label if case in recorder.cases else recorder.label


def _sent(recorder: Any, case: str) -> str:
    return recorder.cases[case].value.as_curl_command() if case in recorder.cases else ""

"""Let a simulated crowd judge a study through the same pages and endpoint as people."""

import json
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.handlers.wsgi import WSGIHandler
from django.core.management.base import CommandError, CommandParser
from django.utils.module_loading import import_string

from annotation.management.base import ConcordCommand, UsageError
from annotation.models import Judgement, Project
from annotation.services import audit, change_project
from modelling.simulation.http_client import AddressError, Client, HttpClient, InProcessClient, check_url
from modelling.simulation.http_worker import SimulationError, StudyNotFound
from modelling.simulation.workers import DONE, LEFT, NO_PAIRS, NO_TIME, RANDOM, CrowdParameters, CrowdRun, build_crowd

ClientFactory = Callable[[], Client]

# The smallest and largest value of each option.
LIMITS: dict[str, tuple[float, float]] = {
    "workers": (1, 500),
    "judgements": (1, 100_000),
    "tastes": (0, 50),
    "noise": (0, 100),
    "ties": (0, 0.9),
    "careless": (0, 1),
    "rate": (0, 1000),
    "minutes": (0.01, 1440),
    "seed": (0, 2**31 - 1),
}
HINTS = {
    NO_PAIRS: " Add items, or change the settings redundancy and judgements_per_worker with change_project.",
    NO_TIME: " Use --minutes for more.",
}


class Command(ConcordCommand):
    help = (
        "Lets a simulated crowd judge an open study through the same pages and endpoint as people. Simulated workers "
        "differ in taste, noise, ties and carelessness. Their codes begin with simulated-, and their judgements have "
        "the source simulated. Without --url the application runs in this process and no server is needed. With --url "
        "a running server is used, on this machine only unless --yes-really is given."
    )
    examples = (
        "simulate_crowd my-study --workers 20 --judgements 400",
        "simulate_crowd my-study --url http://127.0.0.1:8000 --rate 5 --careless 0.2 --json",
    )

    def add_arguments(self, parser: CommandParser) -> None:
        self.add_project(parser)
        parser.add_argument("--url", metavar="URL", help="URL of a running server (default: this process)")
        parser.add_argument("--workers", type=int, default=20, metavar="N", help="number of workers (default: 20)")
        parser.add_argument(
            "--judgements", type=int, default=200, metavar="N", help="number of judgements (default: 200)"
        )
        parser.add_argument(
            "--tastes", type=int, default=3, metavar="N", help="number of taste dimensions (default: 3)"
        )
        parser.add_argument(
            "--noise",
            type=float,
            default=1.0,
            metavar="SD",
            help="0: no errors; 1: usual; 10: mostly guessing (default: 1)",
        )
        parser.add_argument(
            "--ties", type=float, default=0.05, metavar="SHARE", help="approximate share of ties (default: 0.05)"
        )
        parser.add_argument(
            "--careless", type=float, default=0.0, metavar="SHARE", help="share of careless workers (default: 0)"
        )
        parser.add_argument(
            "--rate", type=float, default=0.0, metavar="N", help="maximum answers per second (default: no limit)"
        )
        parser.add_argument(
            "--minutes", type=float, default=10.0, metavar="N", help="stop after this time (default: 10)"
        )
        parser.add_argument("--seed", type=int, default=0, metavar="N", help="random seed (default: 0)")
        parser.add_argument("--ledger", type=Path, metavar="FILE", help="log each answer and its status as JSON lines")
        parser.add_argument("--yes-really", action="store_true", help="allow another machine or a study of real people")

    def handle(self, *args: Any, **options: Any) -> None:
        check_limits(options)
        if options["ledger"] and not options["ledger"].parent.is_dir():
            raise UsageError(f"There is no folder {options['ledger'].parent}. No answers were sent.")
        slug, open_client = options["project"], self.client_factory(**options)
        parameters = CrowdParameters(
            **{name: options[name] for name in ("seed", "tastes", "noise", "ties", "careless")}
        )
        run, began = CrowdRun(build_crowd(parameters, options["workers"]), slug, open_client), time.monotonic()
        limits = {"rate": options["rate"], "seconds": 60 * options["minutes"]}
        try:
            ended = run.run(options["judgements"], **limits, report=self.show_progress)
        except StudyNotFound as error:
            raise UsageError(f"At {options['url']} {error}. No answers were sent.") from None
        except SimulationError as error:
            stored = sum(run.counts().values())
            raise CommandError(f"Stopped: {error}. {stored:,} simulated judgements were stored.") from None
        finally:
            self.write_ledger(run, options["ledger"])
        self.report(run, ended, round(time.monotonic() - began, 2), options)

    def client_factory(self, *, project: str, url: str | None, yes_really: bool, **options: Any) -> ClientFactory:
        """Return a client factory for the server at `url` or, after marking the study simulated, for this process."""
        if url is not None:
            return remote_client_factory(url, anywhere=yes_really)
        study = self.find_project(project)
        check_open(study)
        if not yes_really:
            check_not_real(study)
        change_project(project=study, user=None, changes={"simulated": True})
        audit(study, None, "simulated a crowd", {name: options[name] for name in LIMITS})
        import_string(settings.COLLECT_STATIC)()  # the pages refer to static files by their hashed names
        secure, host, application = bool(getattr(settings, "SECURE_SSL_REDIRECT", False)), own_host(), WSGIHandler()
        return lambda: InProcessClient(application, host, secure=secure)

    def write_ledger(self, run: CrowdRun, path: Path | None) -> None:
        if path is None:
            return
        try:
            path.write_text("".join(json.dumps(asdict(answer)) + "\n" for answer in run.sent), encoding="utf-8")
        except OSError as error:
            raise CommandError(f"The log could not be written to {path}: {error.strerror}.") from None

    def report(self, run: CrowdRun, ended: str, seconds: float, options: dict[str, Any]) -> None:
        stored = sum(answer.stored for answer in run.sent)
        numbers = {answer.worker for answer in run.sent}
        kinds = [run.crowd[number].kind for number in numbers]
        result = {
            "project": options["project"],
            "url": options["url"],
            "simulated": True,
            "asked_for": options["judgements"],
            "stored": stored,
            "refused": len(run.sent) - stored,
            "choices": run.counts(),
            "workers": len(numbers),
            "careless": {"random": kinds.count(RANDOM), "always_left": kinds.count(LEFT)},
            "seed": options["seed"],
            "seconds": seconds,
            "ended": ended,
        }
        text = (
            f"{stored:,} simulated judgements by {len(numbers):,} simulated workers were stored ({seconds:g} s); "
            f"{result['refused']:,} were refused."
        )
        if ended == DONE:
            self.write_result(result, text)
        else:
            self.exit_negative(result, f"{text} The run ended early: {ended}.{HINTS.get(ended, '')}")


def check_limits(options: dict[str, Any]) -> None:
    for name, (low, high) in LIMITS.items():
        if not low <= options[name] <= high:
            raise UsageError(f"--{name} must be from {low:,} to {high:,}, not {options[name]}. No answers were sent.")


def remote_client_factory(url: str, *, anywhere: bool) -> ClientFactory:
    try:
        check_url(url, anywhere=anywhere)
    except AddressError as error:
        advice = "Simulated workers use servers on this machine only; add --yes-really to use another."
        raise UsageError(f"{error} No answers were sent. {advice}") from None
    return lambda: HttpClient(url, anywhere=anywhere)


def check_open(study: Project) -> None:
    if study.state != Project.State.OPEN:
        command = f"manage.py change_project {study.slug} --state open"
        raise CommandError(f"{study.slug} is {study.state}. Open it first: {command}")


def check_not_real(study: Project) -> None:
    """Refuse to add simulated answers to a study that has judgements by real people."""
    people = Judgement.objects.filter(project=study).exclude(source=Judgement.Source.SIMULATED).count()
    if people and not study.simulated:
        raise UsageError(
            f"{study.slug} has {people:,} judgements by real people. No answers were sent. Simulated judgements would "
            "be marked, but the model would be fitted to both; add --yes-really to mix them."
        )


def own_host() -> str:
    """A host name that this application accepts."""
    return next((host for host in settings.ALLOWED_HOSTS if not host.startswith(("*", "."))), "localhost")

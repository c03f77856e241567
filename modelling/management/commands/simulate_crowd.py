"""A simulated crowd judges a study through the pages and the endpoint that people use, and says what it is."""

import json
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError, CommandParser
from django.utils.module_loading import import_string

from annotation.doors import Door, HttpDoor, InProcessDoor, WrongAddressError, checked_address
from annotation.models import Judgement, Project
from annotation.services import audit, change_project
from annotation.terminal import TerminalCommand, WrongCall
from annotation.visitor import GaveUpError, NoStudyError
from modelling.simulated_workers import DONE, LEFT, NO_PAIRS, NO_TIME, RANDOM, Sitting, Temper, personas

# What may be asked for, from and to.
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
    NO_PAIRS: " More items, or other settings (change_project: redundancy, judgements_per_worker), make more.",
    NO_TIME: " --minutes gives more of it.",
}


class Command(TerminalCommand):
    help = (
        "Lets a simulated crowd judge an open study through the same pages and endpoint as people: workers with "
        "tastes, noise, ties and carelessness. It is marked: worker codes begin with simulated-, judgements have the "
        "source simulated. Without --url the application answers in this process and no server is needed. With --url "
        "a running server is asked, on this machine only unless --yes-really is given."
    )
    examples = (
        "simulate_crowd my-study --workers 20 --judgements 400",
        "simulate_crowd my-study --url http://127.0.0.1:8000 --rate 5 --careless 0.2 --json",
    )

    def add_arguments(self, parser: CommandParser) -> None:
        self.add_project(parser)
        parser.add_argument("--url", metavar="URL", help="a running server; without it, this process answers")
        parser.add_argument("--workers", type=int, default=20, metavar="N", help="how many take part (20)")
        parser.add_argument("--judgements", type=int, default=200, metavar="N", help="how many in all (200)")
        parser.add_argument("--tastes", type=int, default=3, metavar="N", help="in how many ways they differ (3)")
        parser.add_argument(
            "--noise", type=float, default=1.0, metavar="SD", help="0: never err; 1 is usual; 10: guess"
        )
        parser.add_argument("--ties", type=float, default=0.05, metavar="SHARE", help="of answers, about (0.05)")
        parser.add_argument(
            "--careless", type=float, default=0.0, metavar="SHARE", help="of workers: random or always left (0)"
        )
        parser.add_argument("--rate", type=float, default=0.0, metavar="N", help="at most N answers a second (0: any)")
        parser.add_argument("--minutes", type=float, default=10.0, metavar="N", help="stop after this time (10)")
        parser.add_argument("--seed", type=int, default=0, metavar="N", help="of tastes and whims (0)")
        parser.add_argument("--ledger", type=Path, metavar="FILE", help="write each answer and its fate, as JSON lines")
        parser.add_argument("--yes-really", action="store_true", help="another machine, or a study of real people")

    def handle(self, *args: Any, **options: Any) -> None:
        refuse_what_is_out_of_range(options)
        if options["ledger"] and not options["ledger"].parent.is_dir():
            raise WrongCall(f"There is no folder {options['ledger'].parent}. Nobody has judged.")
        slug, door = options["project"], self.door(**options)
        temper = Temper(**{name: options[name] for name in ("seed", "tastes", "noise", "ties", "careless")})
        sitting, began = Sitting(personas(temper, options["workers"]), slug, door), time.monotonic()
        limits = {"rate": options["rate"], "seconds": 60 * options["minutes"]}
        try:
            ended = sitting.run(options["judgements"], **limits, tell=self.progress)
        except NoStudyError as error:
            raise WrongCall(f"At {options['url']} {error}. Nobody has judged.") from None
        except GaveUpError as error:
            stored = sum(sitting.counts().values())
            raise CommandError(f"Stopped: {error}. {stored:,} simulated judgements are stored.") from None
        finally:
            self.keep_ledger(sitting, options["ledger"])
        self.report(sitting, ended, round(time.monotonic() - began, 2), options)

    def door(self, *, project: str, url: str | None, yes_really: bool, **options: Any) -> Callable[[], Door]:
        """How workers come in: by the network, or by this process itself, where the study is marked as simulated."""
        if url is not None:
            return by_network(url, anywhere=yes_really)
        study = self.find_project(project)
        refuse_unless_open(study)
        if not yes_really:
            refuse_a_study_of_people(study)
        change_project(project=study, user=None, changes={"simulated": True})
        audit(study, None, "simulated a crowd", {name: options[name] for name in LIMITS})
        import_string(settings.COLLECT_STATIC)()  # pages name their files by them
        secure, host = bool(getattr(settings, "SECURE_SSL_REDIRECT", False)), own_host()
        return lambda: InProcessDoor(host, secure=secure)

    def keep_ledger(self, sitting: Sitting, path: Path | None) -> None:
        if path is None:
            return
        try:
            path.write_text("".join(json.dumps(asdict(entry)) + "\n" for entry in sitting.ledger), encoding="utf-8")
        except OSError as error:
            raise CommandError(f"The ledger could not be written to {path}: {error.strerror}.") from None

    def report(self, sitting: Sitting, ended: str, seconds: float, options: dict[str, Any]) -> None:
        stored = sum(entry.stored for entry in sitting.ledger)
        taking_part = {entry.worker for entry in sitting.ledger}
        kinds = [sitting.crowd[number].kind for number in taking_part]
        facts = {
            "project": options["project"],
            "url": options["url"],
            "simulated": True,
            "asked_for": options["judgements"],
            "stored": stored,
            "refused": len(sitting.ledger) - stored,
            "choices": sitting.counts(),
            "workers": len(taking_part),
            "careless": {"random": kinds.count(RANDOM), "always_left": kinds.count(LEFT)},
            "seed": options["seed"],
            "seconds": seconds,
            "ended": ended,
        }
        words = (
            f"{stored:,} simulated judgements of {len(taking_part):,} simulated workers are stored ({seconds:g} s); "
            f"{facts['refused']:,} were refused."
        )
        if ended == DONE:
            self.answer(facts, words)
        else:
            self.answer_no(facts, f"{words} It ended early: {ended}.{HINTS.get(ended, '')}")


def refuse_what_is_out_of_range(options: dict[str, Any]) -> None:
    for name, (low, high) in LIMITS.items():
        if not low <= options[name] <= high:
            raise WrongCall(f"--{name} must be from {low:,} to {high:,}, not {options[name]}. Nobody has judged.")


def by_network(url: str, *, anywhere: bool) -> Callable[[], Door]:
    try:
        checked_address(url, anywhere=anywhere)
    except WrongAddressError as wrong:
        words = "Simulated workers judge on this machine only; if another is yours and meant, add --yes-really."
        raise WrongCall(f"{wrong} Nobody has judged. {words}") from None
    return lambda: HttpDoor(url, anywhere=anywhere)


def refuse_unless_open(study: Project) -> None:
    if study.state != Project.State.OPEN:
        how = f"manage.py change_project {study.slug} --state open"
        raise CommandError(f"{study.slug} is {study.state}, so nobody can judge. Open it first: {how}")


def refuse_a_study_of_people(study: Project) -> None:
    """Simulated answers do not get among those of people by mistake."""
    people = Judgement.objects.filter(project=study).exclude(source=Judgement.Source.SIMULATED).count()
    if people and not study.simulated:
        raise WrongCall(
            f"{study.slug} holds {people:,} judgements of real people. Nobody has judged. Simulated ones would be "
            "marked, but the model would learn from both; if that is meant, add --yes-really."
        )


def own_host() -> str:
    """A name under which this application answers."""
    return next((host for host in settings.ALLOWED_HOSTS if not host.startswith(("*", "."))), "localhost")

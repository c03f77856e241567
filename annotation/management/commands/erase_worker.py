"""Erases a person from a study: platform ids, traits and notes. Their answers stay under a random code, or go too."""

from typing import Any

from django.core.management.base import CommandParser
from django.db.models import Q

from annotation.models import Worker
from annotation.services import erase_worker
from annotation.terminal import TerminalCommand, WrongCall


class Command(TerminalCommand):
    help = (
        "Erases who a worker was: platform ids, answers to the questionnaire, and notes. Their judgements stay under a "
        "random code; with --remove-judgements they are taken back as well, and the model forgets them."
    )
    examples = ("erase_worker my-study 7kd3mq9xw2", "erase_worker my-study 7kd3mq9xw2 --remove-judgements --json")

    def add_arguments(self, parser: CommandParser) -> None:
        self.add_project(parser)
        parser.add_argument("worker", metavar="WORKER", help="the code, or the id a platform or a file gave them")
        parser.add_argument("--remove-judgements", action="store_true", help="take back everything they said, too")

    def handle(self, *args: Any, **options: Any) -> None:
        project = self.find_project(options["project"])
        named = Q(code=options["worker"]) | Q(identity__external_id=options["worker"])
        worker = Worker.objects.filter(named, project=project).first()
        if worker is None:
            raise WrongCall(f"There is no worker of that code or id in {project.slug}. Nothing was changed.")
        removed = erase_worker(worker=worker, user=None, remove_judgements=options["remove_judgements"])
        stay = worker.judgements.filter(retraction=None).count()
        facts = {"project": project.slug, "worker": worker.code, "taken_back": removed, "kept": stay}
        words = f"Erased. {removed} judgements were taken back; {stay} judgements stay under a random code."
        self.answer(facts, words)

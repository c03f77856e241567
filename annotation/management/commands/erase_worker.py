"""Erases a person from a study: platform ids, traits and notes. Their answers stay under a random code, or go too."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db.models import Q

from annotation.models import Worker
from annotation.services import erase_worker


class Command(BaseCommand):
    help = "Erases who a worker was; with --remove-judgements also takes back everything they said."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("project", help="the short name in the project's links")
        parser.add_argument("worker", help="the worker's code, or the id a platform or a file gave them")
        parser.add_argument("--remove-judgements", action="store_true")

    def handle(self, *args: Any, **options: Any) -> None:
        named = Q(code=options["worker"]) | Q(identity__external_id=options["worker"])
        worker = Worker.objects.filter(named, project__slug=options["project"]).first()
        if worker is None:
            raise CommandError("There is no worker of that code or id in that project. Nothing was changed.")
        removed = erase_worker(worker=worker, user=None, remove_judgements=options["remove_judgements"])
        stay = worker.judgements.filter(retraction=None).count()
        self.stdout.write(f"Erased. {removed} judgements were taken back; {stay} judgements stay under a random code.")

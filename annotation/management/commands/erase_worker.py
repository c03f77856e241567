"""Erase a worker's personal data from a study, and optionally their judgements."""

from typing import Any

from django.core.management.base import CommandParser
from django.db.models import Q

from annotation.management.base import ConcordCommand, UsageError
from annotation.models import Worker
from annotation.services import erase_worker


class Command(ConcordCommand):
    help = (
        "Erases a worker's platform IDs, questionnaire answers and notes. Their judgements stay under a random code; "
        "with --remove-judgements they are retracted as well, and the model updates without them."
    )
    examples = ("erase_worker my-study 7kd3mq9xw2", "erase_worker my-study 7kd3mq9xw2 --remove-judgements --json")

    def add_arguments(self, parser: CommandParser) -> None:
        self.add_project(parser)
        parser.add_argument("worker", metavar="WORKER", help="the code, or the ID on a platform or in a file")
        parser.add_argument("--remove-judgements", action="store_true", help="also retract their judgements")

    def handle(self, *args: Any, **options: Any) -> None:
        project = self.find_project(options["project"])
        matches = Q(code=options["worker"]) | Q(identity__external_id=options["worker"])
        worker = Worker.objects.filter(matches, project=project).first()
        if worker is None:
            raise UsageError(f"There is no worker with that code or ID in {project.slug}. Nothing was changed.")
        removed = erase_worker(worker=worker, user=None, remove_judgements=options["remove_judgements"])
        kept = worker.judgements.filter(retraction=None).count()
        result = {"project": project.slug, "worker": worker.code, "retracted": removed, "kept": kept}
        result["taken_back"] = removed  # the name of `retracted` in 0.1
        text = f"Erased. {removed} judgements were retracted; {kept} judgements stay under a random code."
        self.write_result(result, text)

"""Pairs that somebody would have judged first: all of a study's suggestions, replaced at once."""

from collections.abc import Sequence

from django.db import transaction

from annotation.models import Project, Suggestion, User
from annotation.services.projects import audit

BATCH = 500


@transaction.atomic
def replace_suggestions(*, project: Project, user: User | None, suggestions: Sequence[Suggestion]) -> None:
    """The study has these suggestions and no others."""
    Suggestion.objects.filter(project=project).delete()
    Suggestion.objects.bulk_create(suggestions, batch_size=BATCH)
    audit(project, user, "replaced the suggested pairs", {"pairs": len(suggestions)})

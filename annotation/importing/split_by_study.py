"""Split a judgement file by its study column: each study becomes a copy of the project with its own judgements."""

import hashlib
from collections import Counter
from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from itertools import count

from django.db import transaction
from django.utils.text import slugify

from annotation.http.access import Role, has_role
from annotation.importing import background
from annotation.importing.judgement_files import ImportedJudgement
from annotation.importing.judgements import JudgementImportPlan, compare, import_judgements, plan_judgements
from annotation.models import AuditEntry, Project, User
from annotation.services import copy_project
from annotation.services.items import current_items
from annotation.services.projects import COPIED

MAX_SLUG, MAX_TITLE = 60, 200


@dataclass(slots=True)
class SplitPlan:
    """What the import will add to each study of the file; `projects` are the copies that exist already."""

    plans: dict[str, JudgementImportPlan] = field(default_factory=dict)
    projects: dict[str, Project] = field(default_factory=dict)
    slugs: dict[str, str] = field(default_factory=dict)
    in_background: bool = False  # the judgements are still being added

    @property
    def counts(self) -> dict[str, int]:
        counts = Counter[str]()
        for plan in self.plans.values():
            counts.update(plan.counts)
        return {**counts, "studies": len(self.plans)}

    @property
    def basis(self) -> str:
        parts = [f"{study} {self.slugs[study]} {plan.basis}" for study, plan in self.plans.items()]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

    @property
    def changes_anything(self) -> bool:
        return any(plan.changes_anything for plan in self.plans.values())

    @property
    def warnings(self) -> list[str]:
        return list(dict.fromkeys(warning for plan in self.plans.values() for warning in plan.warnings))


def plan_split(project: Project, user: User, rows: list[ImportedJudgement]) -> SplitPlan:
    """Compare the rows of each study with its copy, or with the items of this project if it has no copy yet."""
    split = SplitPlan()
    for study, own_rows in _rows_by_study(rows).items():
        slug, copy = _find_copy(project, user, study, taken=set(split.slugs.values()))
        split.slugs[study] = slug
        if copy is None:
            items = {item.key: item for item in current_items(project).filter(active=True)}
            split.plans[study] = compare(project, own_rows, items, {}, {})
        else:
            split.projects[study] = copy
            split.plans[study] = plan_judgements(copy, own_rows)
    return split


def import_split(*, project: Project, user: User, rows: list[ImportedJudgement]) -> SplitPlan:
    """Import the rows of each study into its copy of this project; importing the same rows again adds nothing.

    A large file is checked completely, then the missing copies are made, one in each transaction, and the judgements of
    all studies are staged and started together.
    """
    if len(rows) > background.AT_ONCE:
        split = plan_split(project, user, rows)
        files = _make_copies(project, user, rows, split)
        plans = background.import_in_chunks(user, files)
        split.in_background = any(plan.in_background for plan in plans)
        return split
    with transaction.atomic():
        split = plan_split(project, user, rows)
        for copy, own_rows in _make_copies(project, user, rows, split):
            import_judgements(project=copy, user=user, rows=own_rows)
    return split


def _make_copies(
    project: Project, user: User, rows: list[ImportedJudgement], split: SplitPlan
) -> list[tuple[Project, list[ImportedJudgement]]]:
    """Create the copies that do not exist yet; return each study's copy and rows."""
    files = []
    for study, own_rows in _rows_by_study(rows).items():
        if study not in split.projects:
            title = f"{project.title}: {study}"[:MAX_TITLE]
            split.projects[study] = copy_project(
                project=project, user=user, title=title, slug=split.slugs[study], with_items=True
            )
        files.append((split.projects[study], own_rows))
    return files


def _rows_by_study(rows: list[ImportedJudgement]) -> dict[str, list[ImportedJudgement]]:
    studies: dict[str, list[ImportedJudgement]] = {study: [] for study in sorted({row.study for row in rows})}
    for row in rows:
        studies[row.study].append(row)
    return studies


def _find_copy(project: Project, user: User, study: str, taken: Container[str]) -> tuple[str, Project | None]:
    """Return the slug for the study's copy, and the copy itself if it exists and this user may change it."""
    for slug in _slugs(project, study):
        other = Project.objects.filter(slug=slug).first()
        if slug not in taken and (other is None or _is_copy(other, project, user)):
            break
    return slug, other


def _slugs(project: Project, study: str) -> Iterator[str]:
    name = slugify(study) or "study"
    yield f"{project.slug}-{name}"[:MAX_SLUG].rstrip("-")
    for number in count(2):
        ending = f"-{number}"
        yield f"{project.slug}-{name}"[: MAX_SLUG - len(ending)].rstrip("-") + ending


def _is_copy(other: Project, project: Project, user: User) -> bool:
    copied = AuditEntry.objects.filter(project=other, action=COPIED, details__slug=project.slug)
    return has_role(other.role_of(user), Role.ANALYST) and other.archived_at is None and copied.exists()

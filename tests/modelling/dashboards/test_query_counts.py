"""The number of queries of a page does not depend on the size of the study."""

from collections.abc import Callable

import pytest
from django.test import Client

from annotation.models import Project, User
from modelling.models import WorkerAssessment
from tests.modelling.samples.two_camps import count_queries, make_fitted_study, make_larger_study

pytestmark = pytest.mark.django_db

PAGES = {  # the largest number of queries of each page
    "ranking/": 23,
    "ranking/{item}/": 24,
    "workers/": 25,
    "workers/{worker}/": 25,
    "components/": 20,
    "activity/": 16,
    "pairs/": 19,
    "reliability/": 20,
    "new-argument/?text=A+report+proves+it+with+numbers.": 18,
    "designer/": 16,
}


@pytest.mark.slow
def test_the_number_of_queries_does_not_grow_with_the_study(
    project: Project, owner: User, log_in: Callable[[User], Client]
) -> None:
    make_fitted_study(project)
    studies = project, make_larger_study(project, owner)
    client = log_in(owner)
    for page, limit in PAGES.items():
        counts = [count_queries(client, page_url(study, page)) for study in studies]
        assert counts[0] == counts[1] <= limit, page


def page_url(study: Project, page: str) -> str:
    """The worker is one whose exclusion would move an item: naming that item takes a query."""
    moving = WorkerAssessment.objects.filter(snapshot__project=study, evidence__has_key="largest_move").earliest("pk")
    item = study.items.get(key="text-003")
    return f"/projects/{study.slug}/" + page.format(item=item.pk, worker=moving.worker.code)

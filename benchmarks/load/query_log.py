"""The SQL queries of posting a judgement, both when it is only recorded and when new pairs are leased as well."""

import json
import re
import uuid

from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from benchmarks.load.client import assignment_ids
from benchmarks.load.study import make_study

WARM_UP, MEASURED = 7, 6  # posts; about every third leases new pairs


def queries_of_posts(items: int) -> list[list[str]]:
    """Return each post's queries for several posts by one worker in a new study of `items` items, fewest first."""
    slug = f"queries-{items}"
    make_study(slug, items=items)
    browser = Client(headers={"host": "127.0.0.1"})
    browser.post(f"/s/{slug}/join/", {"consent": "on"})
    pairs = assignment_ids(browser.get(f"/s/{slug}/task/").json())
    for _ in range(WARM_UP):
        pairs = post(browser, slug, pairs[0])
    queries = []
    for _ in range(MEASURED):
        with CaptureQueriesContext(connection) as captured:
            pairs = post(browser, slug, pairs[0])
        queries.append([normalise_sql(query["sql"]) for query in captured.captured_queries])
    return sorted(queries, key=len)


def post(browser: Client, slug: str, assignment: str) -> list[str]:
    """Post one answer and return the assignments that come next."""
    answer = {"uuid": str(uuid.uuid4()), "assignment": assignment, "choice": "left"}
    response = browser.post(f"/s/{slug}/judgements/", json.dumps(answer), content_type="application/json")
    if response.status_code != 201:
        raise RuntimeError(f"{response.status_code}: {response.text}")
    return assignment_ids(response.json()["next"])


def normalise_sql(sql: str) -> str:
    """Shorten a query for reading: no column lists, no values, no app prefixes."""
    sql = re.sub(r"^(SELECT) .*? (FROM )", r"\1 ... \2", " ".join(sql.split()))
    sql = re.sub(r"^(INSERT INTO \S+) .*", r"\1 ...", sql)
    sql = re.sub(r"'[^']*'|\b\d+\b", "?", sql)
    sql = re.sub(r'"?(annotation|modelling)_(\w+?)"?(?=[\s.)]|$)', r"\2", sql)
    return sql.replace('"', "")[:240]

"""The database statements of a POST of a judgement, as Django sends them: plain, or with new pairs lent."""

import json
import re
import uuid

from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from tests.drills.client import pairs_of
from tests.drills.study import make_study

WARM_UP, LOOKED_AT = 7, 6  # answers; new pairs come with about every third


def statements_of_posts(items: int) -> list[list[str]]:
    """What each of a few answers of one worker asks of the database, in a fresh study of this many items."""
    slug = f"statements-{items}"
    make_study(slug, items=items)
    browser = Client(headers={"host": "127.0.0.1"})
    browser.post(f"/s/{slug}/join/", {"consent": "on"})
    pairs = pairs_of(browser.get(f"/s/{slug}/task/").json())
    for _ in range(WARM_UP):
        pairs = post(browser, slug, pairs[0])
    sent = []
    for _ in range(LOOKED_AT):
        with CaptureQueriesContext(connection) as captured:
            pairs = post(browser, slug, pairs[0])
        sent.append([shape(query["sql"]) for query in captured.captured_queries])
    return sorted(sent, key=len)


def post(browser: Client, slug: str, assignment: str) -> list[str]:
    """One stored answer; the pairs that come next."""
    answer = {"uuid": str(uuid.uuid4()), "assignment": assignment, "choice": "left"}
    reply = browser.post(f"/s/{slug}/judgements/", json.dumps(answer), content_type="application/json")
    if reply.status_code != 201:
        raise RuntimeError(f"{reply.status_code}: {reply.text}")
    return pairs_of(reply.json()["next"])


def shape(sql: str) -> str:
    """A statement short enough to read: which tables, under which condition, no list of columns and no values."""
    sql = re.sub(r"^(SELECT) .*? (FROM )", r"\1 ... \2", " ".join(sql.split()))
    sql = re.sub(r"^(INSERT INTO \S+) .*", r"\1 ...", sql)
    sql = re.sub(r"'[^']*'|\b\d+\b", "?", sql)
    sql = re.sub(r'"?(annotation|modelling)_(\w+?)"?(?=[\s.)]|$)', r"\2", sql)
    return sql.replace('"', "")[:240]

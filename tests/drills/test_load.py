"""The quick form of the load benchmarks, checked for correctness but not for speed, and the queries of one POST."""

import json

import pytest

from benchmarks.load.crowd import percentile
from benchmarks.load.query_log import normalise_sql, queries_of_posts
from benchmarks.server import fsync, judging_load

RANDOM_QUERIES = 6  # whether a suggestion is looked up, and how many items have no partner left, is random


@pytest.mark.slow
def test_a_load_loses_nothing_and_assigns_no_pair_too_often(capsys: pytest.CaptureFixture[str]) -> None:
    judging_load.main(["--quick"])
    result = json.loads(capsys.readouterr().out)
    for load in (result["open_loop"], result["closed_loop"]):
        assert load["correct"], load
        assert load["errors"] == load["locked_in_log"] == 0
        assert load["most_workers_per_pair"] <= load["redundancy"]
    assert result["closed_loop"]["answers"] == judging_load.QUICK.answers


@pytest.mark.slow
def test_an_answer_is_on_the_disk_before_it_is_acknowledged(capsys: pytest.CaptureFixture[str]) -> None:
    fsync.main(["--quick"])
    result = json.loads(capsys.readouterr().out)
    if result.get("skipped"):
        pytest.skip(result["reason"])
    assert result["passed"], result
    assert result["synced_before_the_answer"] == result["posts"] == 10


def test_a_response_sent_before_its_sync_is_detected() -> None:
    trace = [
        "7 fdatasync(9) = 0",
        '5 sendto(11, "HTTP/1.1 201 Created", 20, 0, NULL, 0) = 20',
        '5 sendto(11, "HTTP/1.1 201 Created", 20, 0, NULL, 0) = 20',
        "7 fdatasync(9 <unfinished ...>",
        "7 <... fdatasync resumed>) = 0",
        '5 sendto(11, "HTTP/1.1 200 OK", 20, 0, NULL, 0) = 20',
    ]
    assert fsync.syncs_before_each_response(trace, status="201") == [1, 0]


@pytest.mark.django_db
def test_the_queries_of_a_post_do_not_grow_with_the_study() -> None:
    queries = {items: queries_of_posts(items) for items in (10, 100, 1000)}
    assert len({len(posts[0]) for posts in queries.values()}) == 1, "an answer alone"
    most = [len(posts[-1]) for posts in queries.values()]
    assert max(most) - min(most) <= RANDOM_QUERIES, "an answer and new pairs"


def test_a_query_is_shown_without_columns_and_values() -> None:
    sql = 'SELECT "annotation_item"."id", "x" FROM "annotation_item" WHERE "annotation_item"."id" = 7'
    assert normalise_sql(sql) == "SELECT ... FROM item WHERE item.id = ?"


def test_a_percentile_is_one_of_the_values() -> None:
    hundred = [float(n) for n in range(1, 101)]
    assert [percentile(hundred, share) for share in (0.5, 0.95, 0.99, 1)] == [50, 95, 99, 100]
    assert percentile([], 0.95) == 0

"""Evaluation: splits, intervals, verdicts, and the `evaluate` command."""

import json
import re
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from scipy import stats

from annotation.management.base import ConcordCommand
from annotation.models import Item, Project
from modelling.baselines.catalogue import CATALOGUE
from modelling.crowdgppl import PairwiseLabels
from modelling.training.evaluation.held_out import (
    DEFAULT_METHODS,
    TITLES,
    Estimate,
    NotEnoughJudgements,
    compare,
    estimate,
    inner_split,
    leave_out,
    predict_then_learn,
    verdict,
)
from modelling.training.evaluation.scoreboard import sum_metrics
from modelling.training.inputs import Inputs
from tests.helpers.commands import CommandLine
from tests.modelling.samples.two_camps import make_study

RNG = np.random.default_rng(5)
METHODS = {name: TITLES[name] for name in ("personal", "consensus", *DEFAULT_METHODS)}


def inputs_of(u: list[int], a: list[int], b: list[int], groups: str, log_order: list[int] | None = None) -> Inputs:
    """Judgements of items in these groups, one letter each."""
    labels = PairwiseLabels(u=u, a=a, b=b, y=[1.0] * len(u))
    items = [Item(group=group) for group in groups]
    order = np.arange(len(u)) if log_order is None else np.array(log_order)
    return replace(Inputs.from_labels(items, [], labels), log_order=order)


def test_pairs_between_parts_are_neither_trained_on_nor_predicted() -> None:
    inputs = inputs_of([0, 0, 0, 0], [0, 2, 4, 1], [1, 3, 5, 2], "xxyyzz")
    scheme = leave_out(inputs, 3, seed=0)
    assert (scheme.name, scheme.clustered_by) == ("leave-group-out", "groups of items")
    assert [split.test.tolist() for split in scheme.splits] == [[0], [1], [2]]
    assert [split.train.tolist() for split in scheme.splits] == [[1, 2], [0, 2], [0, 1, 3]]


@pytest.mark.parametrize("groups", ["xxxx", "wxyz"])
def test_without_groups_random_judgements_are_held_out_and_repeats_stay_together(groups: str) -> None:
    """In the second case no judgement compares two items of one group."""
    inputs = inputs_of([0, 0, 1, 1, 2, 2], [0, 1, 0, 2, 1, 2], [1, 0, 1, 3, 3, 3], groups)
    scheme = leave_out(inputs, 4, seed=0)
    assert (scheme.name, scheme.clustered_by) == ("leave-judgements-out", "workers")
    assert sorted(np.concatenate([split.test for split in scheme.splits]).tolist()) == list(range(6))
    assert [{0, 1} <= set(split.test.tolist()) for split in scheme.splits].count(True) == 1
    assert all(set(split.train) | set(split.test) == set(range(6)) for split in scheme.splits)


def test_each_stretch_is_predicted_from_all_before_it() -> None:
    inputs = inputs_of([0] * 6, [0] * 6, [1] * 6, "xx", log_order=[5, 4, 3, 2, 1, 0])
    scheme = predict_then_learn(inputs, 2)
    assert [(split.train.tolist(), split.test.tolist()) for split in scheme.splits] == [
        ([5, 4], [3, 2]),
        ([5, 4, 3, 2], [1, 0]),
    ]


def test_the_inner_split_holds_out_groups_like_the_scheme() -> None:
    labels = inputs_of([0] * 7, [0, 2, 4, 6, 8, 1, 3], [1, 3, 5, 7, 9, 2, 4], "vvwwxxyyzz").labels
    groups = np.repeat(np.arange(5), 2)
    split = inner_split(labels, groups, seed=0)
    (held,) = set(groups[labels.a[split.test]])
    assert held not in groups[labels.a[split.train]]
    assert held not in groups[labels.b[split.train]]
    at_random = inner_split(labels, None, seed=0)
    assert (len(at_random.train), len(at_random.test)) == (5, 2)
    one_group = inner_split(labels, np.zeros(10, dtype=np.int64), seed=0)
    assert len(one_group.train) == 5


def test_a_single_judgement_cannot_be_held_out() -> None:
    with pytest.raises(NotEnoughJudgements):
        leave_out(inputs_of([0], [0], [1], "xx"), 4, seed=0)
    with pytest.raises(NotEnoughJudgements):
        predict_then_learn(inputs_of([0], [0], [1], "xx"), 4)


def test_intervals_match_student_t_and_ignore_copies_within_a_cluster() -> None:
    values = RNG.standard_normal(20)
    textbook = stats.t.interval(0.95, 19, values.mean(), stats.sem(values))
    one = estimate(values, np.arange(20))
    assert one is not None
    assert (one.low, one.high) == pytest.approx(textbook)
    copied = estimate(np.repeat(values, 5), np.repeat(np.arange(20), 5))
    assert copied is not None
    assert (copied.mean, copied.low, copied.high) == pytest.approx((one.mean, one.low, one.high))


def test_one_cluster_gives_no_interval_and_no_verdict() -> None:
    alone = estimate(np.array([-1.0, -2.0]), np.array([3, 3]))
    assert alone is not None
    assert (alone.mean, alone.low, alone.high) == (-1.5, None, None)
    assert verdict(alone, 1) == "not decided"


def test_few_clusters_give_no_verdict_and_intervals_are_clipped() -> None:
    clear = Estimate(-0.5, -0.6, -0.4)
    assert [verdict(clear, n) for n in (2, 3, 4)] == ["not decided", "not decided", "better"]
    assert verdict(Estimate(0.5, 0.4, 0.6), 9) == "worse"
    assert verdict(Estimate(0.5, -0.1, 1.1), 9) == "not decided"
    p = dict.fromkeys(METHODS, np.array([0.9, 0.9, 0.2, 0.2]))
    accuracy = compare(p, np.ones(4), np.array([0, 0, 1, 1]), Counter())["personal"].metrics["accuracy"]
    assert accuracy == Estimate(0.5, 0.0, 1.0)


def test_metrics_match_the_scoreboard_and_differences_are_paired() -> None:
    y = RNG.choice([0.0, 0.5, 1.0], 200)
    p = {method: np.clip(y + RNG.normal(0.0, 0.3 + 0.1 * n, 200), 0.01, 0.99) for n, method in enumerate(METHODS)}
    found = compare(p, y, np.arange(200) % 40, Counter())
    for method, result in found.items():
        sums = sum_metrics(p[method], y)
        means = [result.metrics[name].mean for name in ("accuracy", "log_loss", "brier")]
        assert means == pytest.approx([sums.accuracy, sums.mean_log_loss, sums.brier / sums.labels])
        gaps = [result.reference_minus_this[name].mean for name in ("accuracy", "log_loss", "brier")]
        reference = [found["personal"].metrics[name].mean for name in ("accuracy", "log_loss", "brier")]
        assert gaps == pytest.approx(np.subtract(reference, means))
    assert (found["linear"].verdict, found["personal"].verdict) == ("better", "not decided")


@pytest.mark.slow
@pytest.mark.django_db
def test_the_personal_method_wins_where_preferences_differ_and_nothing_is_written(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    Project.objects.update(model_settings={"traits": False})
    make_study(project, n_labels=960)
    run = CommandLine(capsys)
    with CaptureQueriesContext(connection) as captured:
        ended = run("evaluate", "pets", "--parts", 2, "--stretches", 2, "--json")
    assert ended.code == 0, ended.err
    read = re.compile(r"(DECLARE .* CURSOR .*FOR )?SELECT")  # PostgreSQL reads long tables with a cursor
    assert [query["sql"] for query in captured if not read.match(query["sql"])] == []
    assert len(captured) > 3
    left_out, in_turn = ended.facts["schemes"]
    assert (left_out["scheme"], left_out["predicted"], left_out["clusters"]) == ("leave-judgements-out", 960, 16)
    assert (in_turn["scheme"], in_turn["splits"]) == ("predict-then-learn", 2)
    verdicts = {method: result["verdict"] for method, result in left_out["methods"].items()}
    assert verdicts == {"personal": "not decided"} | dict.fromkeys(list(METHODS)[1:], "better")
    assert left_out["methods"]["personal"]["reference_minus_this"]["brier"]["mean"] == 0


@pytest.mark.django_db
def test_the_table_names_every_method_and_too_few_judgements_are_reported(
    project: Project, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[tuple[object, ...]] = []
    monkeypatch.setattr(ConcordCommand, "show_progress", lambda self, *what: shown.append(what))
    run = CommandLine(capsys)
    ended = run("evaluate", "pets")
    assert (ended.code, "too few judgements to hold some out (0 without skips)" in ended.err) == (1, True)
    for option in (["--parts", 1], ["--stretches", 51], ["--seed", -1], ["--methods", "gppl,elo"]):
        assert run("evaluate", "pets", *option).code == 2
    make_study(project, n_items=4, n_workers=3, n_labels=24)
    ended = run("evaluate", "pets", "--way", "leave-out", "--parts", 2)
    assert ended.code == 0, ended.err
    assert all(ended.out.count(name) >= 2 for name in METHODS.values())
    assert len(shown) == 10
    assert shown[5] == ("leave-judgements-out", 0.5, ", part 2 of 2, crowdGPPL")
    assert "In brackets: 95% intervals, with 3 workers as independent clusters." in ended.out


@pytest.mark.slow
@pytest.mark.django_db
def test_any_method_of_the_catalogue_can_be_evaluated(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    make_study(project, n_items=4, n_workers=3, n_labels=24)
    run = CommandLine(capsys)
    ended = run("evaluate", "pets", "--way", "leave-out", "--parts", 2, "--methods", "all", "--json")
    assert ended.code == 0, ended.err
    [left_out] = json.loads(ended.out)["schemes"]
    assert set(left_out["methods"]) == {"personal", "consensus", *CATALOGUE} - {"crowdgppl"}
    Project.objects.update(model_settings={"kernel": "none"})
    ended = run("evaluate", "pets", "--way", "leave-out", "--parts", 2, "--methods", "crowd_bt, crowd_bt_gp")
    assert "Left out, because the settings declare items independent: crowdBT-GP." in ended.out
    assert ended.out.count("crowdBT ") >= 2


@pytest.mark.django_db
def test_rivals_stand_in_the_same_table_with_their_cost(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    make_study(project, n_items=4, n_workers=3, n_labels=24)
    Project.objects.update(model_settings={"kernel": "none"})
    run = CommandLine(capsys)
    ended = run("evaluate", "pets", "--way", "leave-out", "--parts", 2, "--methods", "", "--rivals", "--json")
    assert ended.code == 0, ended.err
    methods = json.loads(ended.out)["schemes"][0]["methods"]
    assert {"personal", "choix", "evalica", "crowd_kit"} <= set(methods)
    assert "botorch" not in methods  # items are independent
    assert all(row["cpu_seconds"] > 0 for row in methods.values())

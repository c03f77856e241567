"""Tables as files: the same content in every format, of one point, without formulas and NaN."""

import io
import json
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow.parquet as parquet
import pytest
from django.test import Client

from annotation import services
from annotation.http.downloads import DownloadResponse
from annotation.models import AuditEntry, Judgement, Project, User, Worker
from modelling.exports import formats
from modelling.exports.catalogue import TABLES, build_export
from modelling.exports.formats import FORMATS, table_chunks
from modelling.exports.points import ExportError, resolve_point
from modelling.exports.tables import base, judgements
from modelling.models import ModelSnapshot
from tests.conftest import run_in_thread
from tests.modelling.exports.samples import csv_rows, export_bytes, export_table, fit, odd_study, retract
from tests.modelling.samples.histories import answer, make_study
from tests.modelling.samples.two_camps import make_fitted_study

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
NEED_MORE = ("components", "assessments")  # tables that the odd study has too few judgements for


@pytest.fixture
def odd(db: None) -> Project:
    return odd_study()


@pytest.fixture
def version(odd: Project) -> ModelSnapshot:
    return fit(odd)


@pytest.mark.parametrize("what", [what for what in TABLES if what not in NEED_MORE])
def test_every_format_contains_the_same_table(odd: Project, version: ModelSnapshot, what: str) -> None:
    """CSV, JSON, JSON lines and Parquet."""
    assert_same_table(odd, what)


def test_every_format_contains_the_same_components(project: Project) -> None:
    make_fitted_study(project)
    [component] = assert_same_table(project, "components")
    assert (component["component"], component["prior_variance"], component["in_use"]) == (1, None, True)
    assert component["energy"] == component["variance"] > 0


def assert_same_table(odd: Project, what: str) -> list[dict[str, Any]]:
    """Compare the formats of one table; return its rows."""
    whole = json.loads(export_bytes(odd, what, "json"))
    lines = [json.loads(line) for line in export_bytes(odd, what, "jsonl").splitlines()]
    packed = parquet.read_table(io.BytesIO(export_bytes(odd, what, "parquet")))
    cells = csv_rows(export_bytes(odd, what, "csv"))
    assert whole["rows"] == lines
    assert lines
    assert [list(line) for line in lines] == [whole["columns"]] * len(lines)
    assert len(cells) == packed.num_rows == len(lines) == len(list(export_table(odd, what).rows))
    for name in whole["columns"]:
        texts = ["" if line[name] is None else str(line[name]) for line in lines]
        assert [unquoted(row[name]).lower() for row in cells] == [text.lower() for text in texts]
    numbers = [field.name for field in packed.schema if str(field.type) in ("double", "int64", "string", "bool")]
    for name in numbers:
        assert packed[name].to_pylist() == [line[name] for line in lines]
    return lines


def unquoted(cell: str) -> str:
    return cell[1:] if cell.startswith("'") else cell


@pytest.mark.parametrize("format", list(FORMATS))
def test_every_row_and_file_name_states_version_and_event(odd: Project, version: ModelSnapshot, format: str) -> None:
    for what in TABLES:
        table = export_table(odd, what)
        assert table.column_names[-2:] == ["version", "as_of_seq"]
        assert {row[-2:] for row in table.rows} == (set() if what in NEED_MORE else {(1, version.last_sequence)})
        assert (
            build_export(resolve_point(odd), what, format).name == f"odd-{what}-seq{version.last_sequence}-v1.{format}"
        )


def test_a_point_gives_the_same_bytes_later(odd: Project, version: ModelSnapshot) -> None:
    """Later judgements, retractions and model updates do not change the file."""
    point = {"as_of": version.last_sequence, "version": 1}
    wanted = [(what, format) for what in TABLES for format in FORMATS]
    before = {each: export_bytes(odd, *each, **point) for each in wanted}
    answer(odd, [(5, 0, 1, "first"), (1, 1, 2, "tie")])
    retract(odd, sequence=3)
    fit(odd)
    assert {each: export_bytes(odd, *each, **point) for each in wanted} == before
    assert export_bytes(odd, "judgements", "csv") != before["judgements", "csv"]


def test_all_judgements_are_exported_with_their_retractions(odd: Project) -> None:
    rows = csv_rows(export_bytes(odd, "judgements", "csv"))
    assert len(rows) == Judgement.objects.filter(project=odd).count() == 41
    assert Counter(row["choice"] for row in rows)["skip"] == 1
    assert [row["sequence"] for row in rows if row["retracted"] == "true"] == ["2"]
    retracted = next(row for row in rows if row["sequence"] == "2")
    assert (retracted["retracted_sequence"], retracted["version"], retracted["as_of_seq"]) == ("42", "", "42")
    earlier = csv_rows(export_bytes(odd, "judgements", "csv", as_of=41))
    assert {row["retracted"] for row in earlier} == {"false"}, "retracted later"


def test_choice_names_the_preferred_item(odd: Project) -> None:
    for judgement, row in zip(
        Judgement.objects.filter(project=odd), csv_rows(export_bytes(odd, "judgements", "csv")), strict=True
    ):
        preferred = {"lo": judgement.item_lo, "hi": judgement.item_hi}.get(judgement.choice)
        assert unquoted(row.get(row["choice"], "")) == (preferred.key if preferred else "")
        assert row["worker"] == judgement.worker.code
        assert row["uuid"] == str(judgement.uuid)


def test_timestamps_equal_the_log_and_have_a_zone(odd: Project) -> None:
    place = export_table(odd, "judgements").column_names.index("created_at")
    timestamps = [row[place] for row in export_table(odd, "judgements").rows]
    moments = list(Judgement.objects.filter(project=odd).values_list("created_at", flat=True))
    assert timestamps == [moment.isoformat(timespec="microseconds") for moment in moments]
    assert {datetime.fromisoformat(each).utcoffset() for each in timestamps} == {timedelta(0)}
    packed = parquet.read_table(io.BytesIO(export_bytes(odd, "judgements", "parquet")))
    assert packed["created_at"].to_pylist() == moments


def test_pages_are_gathered_into_row_groups_of_parquet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "ROW_GROUP_SIZE", 5)
    pages = [[[1, 2]], [[3, 4]], [[5, 6]], [[7]]]
    table = base.ExportTable("t", base.build_columns(x=int), lambda: pages, 7, None, 0)
    packed = parquet.ParquetFile(io.BytesIO(b"".join(table_chunks(table, "parquet"))))
    groups = [packed.read_row_group(number)["x"].to_pylist() for number in range(packed.num_row_groups)]
    assert groups == [[1, 2, 3, 4, 5, 6], [7]]


@pytest.mark.parametrize("microsecond", [0, 500_000, 120, 123_456])
def test_timestamps_have_six_digits_on_every_database(microsecond: int) -> None:
    project, at = make_study("times"), datetime(2026, 1, 2, 3, 4, 5, microsecond, tzinfo=UTC)
    answer(project, [(0, 0, 1, "first")], at=at)
    [row] = csv_rows(export_bytes(project, "judgements", "csv"))
    assert row["created_at"] == f"2026-01-02T03:04:05.{microsecond:06d}+00:00"


def test_page_boundaries_lose_no_rows(odd: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = export_bytes(odd, "judgements", "csv"), export_bytes(odd, "label-studio")
    for module in (base, judgements):
        monkeypatch.setattr(module, "PAGE_SIZE", 7)
    assert (export_bytes(odd, "judgements", "csv"), export_bytes(odd, "label-studio")) == whole


def test_the_ranking_has_95_per_cent_intervals_of_scores(odd: Project, version: ModelSnapshot) -> None:
    for row in json.loads(export_bytes(odd, "ranking", "json"))["rows"]:
        half = 1.96 * row["sd"]
        assert (row["mean_low"], row["mean_high"]) == pytest.approx((row["mean"] - half, row["mean"] + half))


def test_workers_have_columns_for_traits_and_other_answers(odd: Project, version: ModelSnapshot) -> None:
    questions = [
        {"name": "pets", "label": "Pets", "kind": "several", "choices": ["cat, big", "dog"]},
        {"name": "effort", "label": "Effort", "kind": "scale", "min": 1, "max": 5, "when": "after"},
        {"name": "why", "label": "Why", "kind": "text"},
    ]
    Project.objects.filter(pk=odd.pk).update(questionnaire=questions)
    Worker.objects.filter(project=odd).update(traits={"pets": ["cat, big", "dog"]}, answers={"effort": 3})
    odd.refresh_from_db()
    first = csv_rows(export_bytes(odd, "workers", "csv"))[0]
    columns = {name: first[name] for name in first if name.startswith(("trait:", "answer:"))}
    assert columns == {"trait:pets": '["cat, big", "dog"]', "answer:effort": "3", "answer:why": ""}


def test_worker_ids_are_in_the_order_in_which_the_workers_joined(odd: Project) -> None:
    codes = list(Worker.objects.filter(project=odd).order_by("pk").values_list("code", flat=True))
    rows = csv_rows(export_bytes(odd, "worker_ids", "csv"))
    assert [(row["worker"], row["original_id"]) for row in rows] == [(code, code) for code in codes]


def test_texts_cannot_become_formulas_and_numbers_stay_numbers(odd: Project, version: ModelSnapshot) -> None:
    """CSV texts get an apostrophe; JSON texts and numbers do not."""
    hostile = {"=HYPERLINK(1)": "'=HYPERLINK(1)", "+1": "'+1", "-1": "'-1", "@x": "'@x", "\tx": "'\tx", "-x": "'-x"}
    Worker.objects.filter(project=odd).update(traits=dict.fromkeys(hostile, "=A1"))
    first = csv_rows(export_bytes(odd, "workers", "csv"))[0]
    assert {name: first[f"trait:{name}"] for name in hostile} == dict.fromkeys(hostile, "'=A1")
    ranking = csv_rows(export_bytes(odd, "ranking", "csv"))
    assert {"'=item-0"} < {row["key"] for row in ranking}
    assert min(float(row["mean"]) for row in ranking) < 0
    keys = [row["key"] for row in json.loads(export_bytes(odd, "ranking", "json"))["rows"]]
    assert "=item-0" in keys
    assert [formats.escape_formula(cell) for cell in hostile] == list(hostile.values())
    assert formats.escape_formula(-1.5) == -1.5


def test_nan_and_infinity_become_empty(odd: Project) -> None:
    cells = [float("nan"), float("inf"), 1.5, None]
    table = base.ExportTable("t", base.build_columns(x=float), lambda: [[cells]], 4, None, 0)
    lines = [json.loads(line) for line in b"".join(table_chunks(table, "jsonl")).splitlines()]
    assert [line["x"] for line in lines] == [None, None, 1.5, None]
    assert b"".join(table_chunks(table, "csv")) == b'x\r\n""\r\n""\r\n1.5\r\n""\r\n'
    packed = parquet.read_table(io.BytesIO(b"".join(table_chunks(table, "parquet"))))
    assert packed["x"].to_pylist() == [None, None, 1.5, None]


def test_parquet_without_pyarrow_is_refused_with_a_message(odd: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(ExportError, match="Parquet needs the package pyarrow"):
        export_bytes(odd, "judgements", "parquet")


def test_no_export_contains_the_data_of_an_erased_person(odd: Project, version: ModelSnapshot) -> None:
    gone = Worker.objects.filter(project=odd).first()
    services.erase_worker(worker=gone, user=None, remove_judgements=True)
    fit(odd)
    for what in ("judgements", "workers", "utilities", "crowd-kit", "arena"):
        assert gone.code.encode() not in export_bytes(odd, what), what
    for what in ("judgements", "workers", "crowd-kit", "arena"):
        assert gone.code.encode() not in export_bytes(odd, what, as_of=41), what
    with pytest.raises(ExportError, match="includes data of erased people"):
        export_bytes(odd, "ranking", "csv", version=1)


@pytest.mark.parametrize("point", [{"as_of": 10**6}, {"as_of": -1}, {"version": 9}])
def test_unknown_points_are_refused_with_a_message(odd: Project, version: ModelSnapshot, point: dict) -> None:
    with pytest.raises(ExportError, match=r"has no version 9|there is no event"):
        resolve_point(odd, **point)


def test_utilities_and_pairs_equal_the_model_predictions(odd: Project, version: ModelSnapshot) -> None:
    from modelling.training.snapshots import load_fitted_model

    fitted = load_fitted_model(version)
    mean = fitted.model.predict_utilities(items=fitted.ranked)
    rows = list(export_table(odd, "utilities").rows)
    assert [row[2] for row in rows] == pytest.approx(mean.T.ravel().tolist(), abs=1e-12)
    within = list(export_table(odd, "pairs").rows)
    assert len(within) == 6, "four items of one group; the fifth is alone"
    Project.objects.update(pairs="any")
    odd.refresh_from_db()
    everywhere = list(export_table(odd, "pairs").rows)
    assert len(everywhere) == 10
    consensus = dict(version.scores.values_list("item__key", "mean"))
    assert all((probability > 0.5) == (consensus[a] > consensus[b]) for a, b, _, probability, *_ in everywhere)


def test_a_download_is_sent_while_it_is_read() -> None:
    """Under ASGI: no chunk is read before the previous one was sent."""
    read_so_far = []

    def content():
        for number in range(3):
            read_so_far.append(number)
            yield b"%d" % number

    async def read() -> list[tuple[bytes, int]]:
        return [(chunk, len(read_so_far)) async for chunk in DownloadResponse("x.csv", content(), "text/csv")]

    assert run_in_thread(read()) == [(b"0", 1), (b"1", 2), (b"2", 3)]


@pytest.fixture
def client_of_owner(owner: User, odd: Project, log_in: Callable[[User], Client]) -> Client:
    services.set_membership(project=odd, user=owner, member=owner, role="owner")
    return log_in(owner)


def test_the_page_streams_a_small_file_and_writes_an_audit_entry(
    odd: Project, version: ModelSnapshot, client_of_owner: Client, owner: User
) -> None:
    page = client_of_owner.get("/projects/odd/exports/").text
    assert "A tie counts as one win each way." in page
    for what, format in (("judgements", "jsonl"), ("choix", ""), ("ranking", "parquet")):
        given = client_of_owner.post("/projects/odd/exports/", {"what": what, "format": format})
        assert given.getvalue() == export_bytes(odd, what, format)
        assert f'filename="odd-{what}-seq42-v1.' in given["Content-Disposition"]
        assert AuditEntry.objects.filter(project=odd, user=owner, action=f"exported {what}").exists()


@pytest.mark.parametrize(
    "fields",
    [
        {"what": "passwords"},
        {"what": "judgements", "format": "xlsx"},
        {"what": "judgements", "as_of": "-1"},
        {"what": "judgements", "as_of": "9" * 40},
        {"what": "judgements", "as_of": "99999"},
        {"what": "ranking", "version": "worker__user__password"},
        {"what": "archive", "licence": "x" * 201},
    ],
)
def test_invalid_requests_are_refused_with_a_message(
    odd: Project, version: ModelSnapshot, client_of_owner: Client, fields: dict[str, str]
) -> None:
    """Unknown names, and numbers outside the log, are refused."""
    answer = client_of_owner.post("/projects/odd/exports/", fields)
    assert answer.status_code == 422
    assert 'role="alert"' in answer.text


def test_before_the_first_version_only_events_can_be_exported(odd: Project, client_of_owner: Client) -> None:
    assert client_of_owner.post("/projects/odd/exports/", {"what": "judgements"}).status_code == 200
    refused = client_of_owner.post("/projects/odd/exports/", {"what": "ranking"})
    assert refused.status_code == 422
    assert "has no ranking yet" in refused.text


def test_checks_have_a_table_of_their_own_and_are_counted_for_each_worker(odd: Project, version: ModelSnapshot) -> None:
    gold, attention = csv_rows(export_bytes(odd, "checks", "csv"))
    names = ("kind", "expected", "choice", "right_answer")
    assert [gold[name] for name in names] == ["gold", "left", "right", "false"]
    assert [attention[name] for name in names] == ["attention", "left", "", ""]
    rows = {row["worker"]: row for row in csv_rows(export_bytes(odd, "workers", "csv"))}
    own = rows.pop(gold["worker"])
    assert [own[name] for name in ("attention_checks", "gold_pairs", "gold_wrong")] == ["0", "1", "1"]
    assert {row["gold_pairs"] for row in rows.values()} == {"0"}
    assert all("reason" not in row["a"] for row in csv_rows(export_bytes(odd, "judgements", "csv")))

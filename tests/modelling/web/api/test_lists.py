"""Lists: cursors, validated parameter names and limited page sizes."""

import base64
import json
from collections.abc import Callable

import pytest
from django.test import Client

from annotation import services
from annotation.http import throttling
from annotation.models import Item, Project, Worker
from modelling.exports.tables.model import RANKING_COLUMNS
from tests.modelling.samples.studies import make_version

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
PETS = "/api/v1/projects/pets"
LISTS = ["", "/items", "/workers", "/judgements", "/snapshots", "/ranking", "/suggestions"]
UNKNOWN_PARAMETERS = [
    "worker__user__password__startswith=a", "user__password__startswith=pbkdf2", "project__membership__user__email=x",
    "status__startswith=a", "membership__user__password__regex=.", "audit__details__icontains=x", "id__in=1", "pk=1",
    "created_at__gt=2020-01-01", "item_lo__key=x", "import_salt__startswith=a", "api_tokens__digest__startswith=0",
    "filter=key", "fields=text", "page=-1", "page_size=1000000000", "offset=3", "order_by=id", "format=csv", "__=1",
]  # fmt: skip


def everything(client: Client, address: str, **query: object) -> list[dict]:
    """Every row, page by page."""
    rows, cursor = [], None
    while True:
        page = client.get(address, {**query, **({"cursor": cursor} if cursor else {})}).json()
        assert len(page["rows"]) <= query.get("limit", 100)
        rows, cursor = rows + page["rows"], page["next"]
        if cursor is None:
            return rows


@pytest.fixture
def version(project: Project) -> None:
    make_version(project, 1)


def listing(end: str) -> str:
    return PETS + end if end else "/api/v1/projects"


@pytest.mark.parametrize("end", LISTS)
@pytest.mark.usefixtures("version")
def test_unknown_parameters_are_refused_by_every_list(end: str, olga: Client) -> None:
    for parameter in UNKNOWN_PARAMETERS:
        refused = olga.get(f"{listing(end)}?{parameter}")
        assert refused.status_code == 400, parameter
        assert refused.json()["field"] == parameter.split("=")[0]


@pytest.mark.parametrize("end", LISTS)
@pytest.mark.usefixtures("version")
def test_unknown_orders_are_refused(end: str, olga: Client) -> None:
    for order in ("worker__user__password", "-password", "?", "id; DROP TABLE annotation_item", "pk"):
        assert olga.get(listing(end), {"ordering": order}).status_code == 400


@pytest.mark.parametrize("end", LISTS)
@pytest.mark.parametrize("limit", ["0", "-1", "1001", "1000000000", "ten", "1.5", "", "1e3", "0x10"])
@pytest.mark.usefixtures("version")
def test_invalid_page_sizes_are_refused(end: str, limit: str, olga: Client) -> None:
    refused = olga.get(listing(end), {"limit": limit})
    assert refused.status_code == 400
    assert refused.json()["field"] == "limit"


def forged(*values: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(values).encode()).decode().rstrip("=")


@pytest.mark.parametrize(
    "cursor",
    ["xx", "=", "é", "W10", "e30", "MQ", "bnVsbA", "x" * 201, forged("id"), forged("id", "1"), forged("id", 1, 2),
     forged("id", 2**64), forged("id", 1e309), forged("id", True), forged("rank", 1), forged("id", [1]), forged(1, 1)],
)  # fmt: skip
def test_a_forged_cursor_is_refused(cursor: str, olga: Client, project: Project) -> None:
    refused = olga.get(f"{PETS}/items", {"cursor": cursor})
    assert refused.status_code == 400
    assert refused.json()["field"] == "cursor"


def test_the_cursor_of_another_order_is_refused(olga: Client, project: Project, worker: Worker) -> None:
    services.enrol(project=project)
    cursor = olga.get(f"{PETS}/workers", {"limit": 1, "ordering": "joined"}).json()["next"]
    assert olga.get(f"{PETS}/workers", {"cursor": cursor, "ordering": "-joined"}).status_code == 400


def test_a_repeated_parameter_is_refused(olga: Client, project: Project) -> None:
    assert olga.get(f"{PETS}/items?limit=1&limit=2").status_code == 400


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 100])
def test_all_pages_together_are_the_complete_list(limit: int, olga: Client, project: Project) -> None:
    keys = [item["key"] for item in everything(olga, f"{PETS}/items", limit=limit)]
    assert keys == list(Item.objects.filter(project=project).order_by("pk").values_list("key", flat=True))


@pytest.mark.parametrize(
    "ordering", ["rank", "polarisation", "uncertainty", "judgements", "fewest", "divides", "unsure"]
)
def test_pages_of_equal_values_have_no_gap_or_duplicate(ordering: str, olga: Client, project: Project) -> None:
    make_version(project, 1)
    whole = everything(olga, f"{PETS}/ranking", ordering=ordering)
    assert everything(olga, f"{PETS}/ranking", ordering=ordering, limit=2) == whole
    assert {row["key"] for row in whole} == set(Item.objects.filter(project=project).values_list("key", flat=True))


def test_all_pages_of_a_ranking_are_of_one_version(olga: Client, project: Project) -> None:
    keys = list(Item.objects.filter(project=project).order_by("pk").values_list("key", flat=True))
    make_version(project, 1, order=keys)
    first = olga.get(f"{PETS}/ranking", {"limit": 3}).json()
    make_version(project, 2, order=keys[::-1])
    second = olga.get(f"{PETS}/ranking", {"cursor": first["next"]}).json()
    assert [row["key"] for row in first["rows"] + second["rows"]] == keys
    assert (first["version"], second["version"]) == (1, 1)
    assert olga.get(f"{PETS}/ranking", {"cursor": first["next"], "version": 2}).status_code == 400


def test_the_ranking_has_the_columns_of_the_exported_one(version: None, olga: Client) -> None:
    best = olga.get(f"{PETS}/ranking").json()["rows"][0]
    assert {column.name for column in RANKING_COLUMNS} <= set(best)
    assert best["mean_low"] <= best["mean"] <= best["mean_high"]
    assert best["text"] == Item.objects.get(key=best["key"]).text


def test_rows_added_between_two_pages_shift_nothing(
    olga: Client, project: Project, worker: Worker, judge: Callable[..., services.Receipt]
) -> None:
    for _ in range(4):
        judge(worker)
    first = olga.get(f"{PETS}/judgements", {"limit": 2, "ordering": "-sequence"}).json()
    judge(worker)
    second = olga.get(f"{PETS}/judgements", {"limit": 2, "ordering": "-sequence", "cursor": first["next"]}).json()
    assert [row["sequence"] for row in first["rows"] + second["rows"]] == [4, 3, 2, 1]


def test_filters_select_the_right_rows(
    olga: Client, project: Project, worker: Worker, judge: Callable[..., services.Receipt]
) -> None:
    mine, other = judge(worker).judgement, judge(services.enrol(project=project), "tie").judgement
    address = f"{PETS}/judgements"

    def found(**query: object) -> set[str]:
        return {row["uuid"] for row in everything(olga, address, **query)}

    assert found(worker=worker.code) == {str(mine.uuid)}
    assert found(after=1) == {str(other.uuid)}
    assert found(item=mine.item_lo.key) >= {str(mine.uuid)}
    assert found(item="no such key") == found(source="import") == found(standing="false") == set()
    assert found(retracted="true") == set()
    assert found(retracted="false", source="browser") == {str(mine.uuid), str(other.uuid)}
    assert found(standing="true") == found(retracted="false"), "the old name"
    assert len(everything(olga, f"{PETS}/items", group="dogs", active="true")) == 3


def test_unchanged_lists_are_not_sent_again(
    olga: Client, project: Project, worker: Worker, judge: Callable[..., services.Receipt]
) -> None:
    make_version(project, 1)
    for end, change in (
        ("/ranking", lambda: make_version(project, 2)),
        ("/judgements", lambda: judge(worker)),
        ("/items", lambda: olga.post(f"{PETS}/items", {"items": [{"key": "n", "text": "N."}]}, "application/json")),
    ):
        etag = olga.get(PETS + end)["ETag"]
        same = olga.get(PETS + end, headers={"if-none-match": f'"other", W/{etag}'})
        assert (same.status_code, same.content, same["ETag"]) == (304, b"", etag)
        change()
        assert olga.get(PETS + end, headers={"if-none-match": etag}).status_code == 200


def test_a_token_with_too_many_calls_is_throttled(
    olga: Client, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(throttling, "API_CALLS_PER_SECOND", 0)
    refused = olga.get(PETS)
    assert (refused.status_code, refused["Retry-After"]) == (429, "1")
    assert refused["Content-Type"] == "application/problem+json"


@pytest.mark.parametrize("parameter", ["/judgements?item=", "/items?key=", "/items?group=", "/ranking?group="])
@pytest.mark.usefixtures("version")
def test_nul_characters_are_refused_on_every_database(parameter: str, olga: Client) -> None:
    refused = olga.get(f"{PETS}{parameter}%00")
    assert refused.status_code == 400
    assert refused.json()["field"] == parameter.partition("?")[2].removesuffix("=")

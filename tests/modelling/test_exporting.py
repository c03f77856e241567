"""Tables as files: the same content in every format, one point in time, nothing that runs, no NaN."""

import io
import json
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pyarrow.parquet as parquet
import pytest
from django.test import Client

from annotation import services
from annotation.models import AuditEntry, Judgement, Project, User, Worker
from modelling import exporting
from modelling.exporting import formats, tables
from modelling.exporting.responses import Download
from modelling.models import ModelSnapshot
from tests.conftest import run_apart
from tests.modelling.exported import bytes_of, learned, odd_study, retract, rows_of
from tests.modelling.histories import answer, make_study

pytestmark = pytest.mark.django_db


@pytest.fixture
def odd(db: None) -> Project:
    return odd_study()


@pytest.fixture
def version(odd: Project) -> ModelSnapshot:
    return learned(odd)


@pytest.mark.parametrize("what", list(exporting.TABLES))
def test_each_format_holds_the_same_table(odd: Project, version: ModelSnapshot, what: str) -> None:
    """P15: JSON = CSV content; and JSON lines, and Parquet."""
    whole = json.loads(bytes_of(odd, what, "json"))
    lines = [json.loads(line) for line in bytes_of(odd, what, "jsonl").splitlines()]
    packed = parquet.read_table(io.BytesIO(bytes_of(odd, what, "parquet")))
    cells = rows_of(bytes_of(odd, what, "csv"))
    assert whole["rows"] == lines
    assert lines
    assert [list(line) for line in lines] == [whole["columns"]] * len(lines)
    assert len(cells) == packed.num_rows == len(lines) == len(list(exporting.table(odd, what).rows))
    for name in whole["columns"]:
        in_words = ["" if line[name] is None else str(line[name]) for line in lines]
        assert [unquoted(row[name]).lower() for row in cells] == [word.lower() for word in in_words]
    numbers = [field.name for field in packed.schema if str(field.type) in ("double", "int64", "string", "bool")]
    for name in numbers:
        assert packed[name].to_pylist() == [line[name] for line in lines]


def unquoted(cell: str) -> str:
    return cell[1:] if cell.startswith("'") else cell


@pytest.mark.parametrize("format", list(exporting.FORMATS))
def test_every_file_says_of_which_version_and_event_it_is(odd: Project, version: ModelSnapshot, format: str) -> None:
    for what in exporting.TABLES:
        table = exporting.table(odd, what)
        assert table.names[-2:] == ["version", "as_of_seq"]
        assert {row[-2:] for row in table.rows} == {(1, version.last_sequence)}
        assert exporting.file_name(odd, table, format) == f"odd-{what}-seq{version.last_sequence}-v1.{format}"


def test_a_point_gives_the_same_bytes_whatever_happens_afterwards(odd: Project, version: ModelSnapshot) -> None:
    """P15: byte-identical at one point, although people judge, take back, and the model goes on."""
    point = {"as_of": version.last_sequence, "version": 1}
    wanted = [(what, format) for what in exporting.TABLES for format in exporting.FORMATS]
    before = {each: bytes_of(odd, *each, **point) for each in wanted}
    answer(odd, [(5, 0, 1, "first"), (1, 1, 2, "tie")])
    retract(odd, sequence=3)
    learned(odd)
    assert {each: bytes_of(odd, *each, **point) for each in wanted} == before
    assert bytes_of(odd, "judgements", "csv") != before["judgements", "csv"]


def test_judgements_are_all_there_with_what_became_of_them(odd: Project) -> None:
    rows = rows_of(bytes_of(odd, "judgements", "csv"))
    assert len(rows) == Judgement.objects.filter(project=odd).count() == 41
    assert Counter(row["choice"] for row in rows)["skip"] == 1
    assert [row["sequence"] for row in rows if row["retracted"] == "true"] == ["2"]
    taken = next(row for row in rows if row["sequence"] == "2")
    assert (taken["retracted_sequence"], taken["version"], taken["as_of_seq"]) == ("42", "", "42")
    earlier = rows_of(bytes_of(odd, "judgements", "csv", as_of=41))
    assert {row["retracted"] for row in earlier} == {"false"}, "it was taken back later"


def test_the_choice_names_the_item_that_was_preferred(odd: Project) -> None:
    for judgement, row in zip(
        Judgement.objects.filter(project=odd), rows_of(bytes_of(odd, "judgements", "csv")), strict=True
    ):
        preferred = {"lo": judgement.item_lo, "hi": judgement.item_hi}.get(judgement.choice)
        assert unquoted(row.get(row["choice"], "")) == (preferred.key if preferred else "")
        assert row["worker"] == judgement.worker.code
        assert row["uuid"] == str(judgement.uuid)


def test_times_are_those_of_the_log_and_know_their_zone(odd: Project) -> None:
    place = exporting.table(odd, "judgements").names.index("created_at")
    told = [row[place] for row in exporting.table(odd, "judgements").rows]
    moments = list(Judgement.objects.filter(project=odd).values_list("created_at", flat=True))
    assert told == [moment.isoformat(timespec="microseconds") for moment in moments]
    assert {datetime.fromisoformat(each).utcoffset() for each in told} == {timedelta(0)}
    packed = parquet.read_table(io.BytesIO(bytes_of(odd, "judgements", "parquet")))
    assert packed["created_at"].to_pylist() == moments


@pytest.mark.database
@pytest.mark.parametrize("microsecond", [0, 500_000, 120, 123_456])
def test_a_time_has_six_digits_however_many_the_database_keeps(microsecond: int) -> None:
    project, at = make_study("times"), datetime(2026, 1, 2, 3, 4, 5, microsecond, tzinfo=UTC)
    answer(project, [(0, 0, 1, "first")], at=at)
    [row] = rows_of(bytes_of(project, "judgements", "csv"))
    assert row["created_at"] == f"2026-01-02T03:04:05.{microsecond:06d}+00:00"


def test_pages_meet_without_a_gap(odd: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = bytes_of(odd, "judgements", "csv"), bytes_of(odd, "label-studio")
    for module in (tables, __import__("modelling.exporting.events", fromlist=["PAGE"])):
        monkeypatch.setattr(module, "PAGE", 7)
    assert (bytes_of(odd, "judgements", "csv"), bytes_of(odd, "label-studio")) == whole


def test_cells_cannot_become_formulas_and_numbers_stay_numbers(odd: Project, version: ModelSnapshot) -> None:
    """B47, S26: in CSV text gets an apostrophe; in JSON it stays as it is; a number is never touched."""
    hostile = {"=HYPERLINK(1)": "'=HYPERLINK(1)", "+1": "'+1", "-1": "'-1", "@x": "'@x", "\tx": "'\tx", "-x": "'-x"}
    Worker.objects.filter(project=odd).update(traits=dict.fromkeys(hostile, "=A1"))
    first = rows_of(bytes_of(odd, "workers", "csv"))[0]
    assert {name: first[f"trait:{name}"] for name in hostile} == dict.fromkeys(hostile, "'=A1")
    ranking = rows_of(bytes_of(odd, "ranking", "csv"))
    assert {"'=item-0"} < {row["key"] for row in ranking}
    assert min(float(row["mean"]) for row in ranking) < 0
    keys = [row["key"] for row in json.loads(bytes_of(odd, "ranking", "json"))["rows"]]
    assert "=item-0" in keys
    assert [formats.neutral(cell) for cell in hostile] == list(hostile.values())
    assert formats.neutral(-1.5) == -1.5


def test_what_is_no_number_is_nothing(odd: Project) -> None:
    cells = [float("nan"), float("inf"), 1.5, None]
    table = exporting.Table("t", tables.columns(x=float), lambda: [[cells]], 4, None, 0)
    lines = [json.loads(line) for line in b"".join(exporting.pieces(table, "jsonl")).splitlines()]
    assert [line["x"] for line in lines] == [None, None, 1.5, None]
    assert b"".join(exporting.pieces(table, "csv")) == b'x\r\n""\r\n""\r\n1.5\r\n""\r\n'
    packed = parquet.read_table(io.BytesIO(b"".join(exporting.pieces(table, "parquet"))))
    assert packed["x"].to_pylist() == [None, None, 1.5, None]


def test_without_pyarrow_parquet_is_refused_in_words(odd: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(exporting.NoExport, match="Parquet needs the package pyarrow"):
        bytes_of(odd, "judgements", "parquet")


def test_an_erased_person_takes_their_judgements_out_of_every_export(odd: Project, version: ModelSnapshot) -> None:
    gone = Worker.objects.filter(project=odd).first()
    services.erase_worker(worker=gone, user=None, remove_judgements=True)
    learned(odd)
    for what in ("judgements", "workers", "utilities", "crowd-kit", "arena"):
        assert gone.code.encode() not in bytes_of(odd, what), what
    for what in ("judgements", "workers", "crowd-kit", "arena"):
        assert gone.code.encode() not in bytes_of(odd, what, as_of=41), what
    with pytest.raises(exporting.NoExport, match="knows people who were erased"):
        bytes_of(odd, "ranking", "csv", version=1)


@pytest.mark.parametrize("point", [{"as_of": 10**6}, {"as_of": -1}, {"version": 9}])
def test_a_point_that_does_not_exist_is_refused_in_words(odd: Project, version: ModelSnapshot, point: dict) -> None:
    with pytest.raises(exporting.NoExport, match=r"[Tt]here is no (version 9|event)"):
        exporting.point_of(odd, **point)


def test_utilities_and_pairs_are_what_the_model_says(odd: Project, version: ModelSnapshot) -> None:
    from modelling.snapshots import load_fitted

    fitted = load_fitted(version)
    mean = fitted.model.predict_utilities(items=fitted.ranked)
    rows = list(exporting.table(odd, "utilities").rows)
    assert [row[2] for row in rows] == pytest.approx(mean.T.ravel().tolist(), abs=1e-12)
    within = list(exporting.table(odd, "pairs").rows)
    assert len(within) == 6, "four items of one group; the fifth is alone"
    Project.objects.update(pairs="any")
    odd.refresh_from_db()
    everywhere = list(exporting.table(odd, "pairs").rows)
    assert len(everywhere) == 10
    consensus = dict(version.scores.values_list("item__key", "mean"))
    assert all((chance > 0.5) == (consensus[a] > consensus[b]) for a, b, _, chance, *_ in everywhere)


def test_a_download_is_sent_while_it_is_read() -> None:
    """Under ASGI: no piece is asked for before the one before it was taken."""
    asked = []

    def content():
        for number in range(3):
            asked.append(number)
            yield b"%d" % number

    async def read() -> list[tuple[bytes, int]]:
        return [(piece, len(asked)) async for piece in Download("x.csv", content(), "text/csv")]

    assert run_apart(read()) == [(b"0", 1), (b"1", 2), (b"2", 3)]


@pytest.fixture
def client_of_owner(owner: User, odd: Project, log_in: Callable[[User], Client]) -> Client:
    services.set_membership(project=odd, user=owner, member=owner, role="owner")
    return log_in(owner)


def test_the_page_gives_a_small_file_at_once_and_the_audit_says_so(
    odd: Project, version: ModelSnapshot, client_of_owner: Client, owner: User
) -> None:
    page = client_of_owner.get("/projects/odd/exports/").text
    assert "A tie counts as one win each way." in page
    for what, format in (("judgements", "jsonl"), ("choix", ""), ("ranking", "parquet")):
        given = client_of_owner.post("/projects/odd/exports/", {"what": what, "format": format})
        assert given.getvalue() == bytes_of(odd, what, format)
        assert f'filename="odd-{what}-seq42-v1.' in given["Content-Disposition"]
        assert AuditEntry.objects.filter(project=odd, user=owner, action=f"exported {what}").exists()


@pytest.mark.parametrize(
    "asked",
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
def test_what_cannot_be_had_is_refused_in_words(
    odd: Project, version: ModelSnapshot, client_of_owner: Client, asked: dict[str, str]
) -> None:
    """B54, B55: names come from fixed lists, numbers from the log."""
    answer = client_of_owner.post("/projects/odd/exports/", asked)
    assert answer.status_code == 422
    assert 'role="alert"' in answer.text


def test_without_a_version_only_the_log_can_be_had(odd: Project, client_of_owner: Client) -> None:
    assert client_of_owner.post("/projects/odd/exports/", {"what": "judgements"}).status_code == 200
    refused = client_of_owner.post("/projects/odd/exports/", {"what": "ranking"})
    assert refused.status_code == 422
    assert "has no ranking yet" in refused.text

"""Files written by other tools: JSON lines, JSON lists, unquoted TSV, and their column names."""

import json
from pathlib import Path

import pytest

from annotation.importing.item_files import read_items
from annotation.importing.items import import_items, plan_items
from annotation.importing.judgement_files import read_judgements
from annotation.importing.judgements import plan_judgements
from annotation.importing.problems import ImportFileError
from annotation.models import Item, Project
from tests.helpers.imports import write


def answers(path: Path) -> list[tuple[int, str, str, str, str]]:
    return [(each.line, each.worker, each.a, each.b, each.choice) for each in read_judgements(path)]


@pytest.mark.django_db
def test_items_from_json_lines_with_metadata_and_features(project: Project, tmp_path: Path) -> None:
    rows = [
        {"key": "x", "text": "Two\nlines.", "group": "g", "features": {"year": 1990}, "metadata": {"by": "Ada"}},
        {"key": "y", "text": "“One.”", "group": "g", "features": {"year": -1.5}, "metadata": {"by": None}},
    ]
    path = write(tmp_path, "".join(f"{json.dumps(row)}\n" for row in rows))
    import_items(project=project, user=None, rows=read_items(path))
    x, y = Item.objects.filter(project=project, key__in=["x", "y"]).order_by("key")
    assert (x.text, x.group, x.features, x.metadata) == ("Two\nlines.", "g", {"year": 1990.0}, {"by": "Ada"})
    assert (y.features, y.metadata) == ({"year": -1.5}, {"by": ""})


def test_items_from_tsv_and_from_a_ukpconvarg_ranking(tmp_path: Path) -> None:
    tabs = read_items(write(tmp_path, 'key\ttext\tgroup\na\t"A, a."\tg\nb\tB.\tg\n'))
    assert [(row.key, row.text, row.group) for row in tabs] == [("a", "A, a.", "g"), ("b", "B.", "g")]
    ranked = read_items(write(tmp_path, '#id\trank\targument\narg1\t1\t"He rows" so.\narg2\t2\tNo.\n'))
    assert [(row.key, row.text) for row in ranked] == [("arg1", '"He rows" so.'), ("arg2", "No.")]
    assert ranked[0].metadata == {"rank": "1"}


def test_judgements_from_crowd_kit_and_evalica(tmp_path: Path) -> None:
    crowd_kit = write(tmp_path, "worker,left,right,label\nw,a,b,a\nw,a,c,c\n")
    assert answers(crowd_kit) == [(2, "w", "a", "b", "a"), (3, "w", "a", "c", "b")]
    evalica = write(tmp_path, "left,right,winner\na,b,right\na,c,tie\nb,c,left\n")
    assert [row[1:] for row in answers(evalica)] == [
        ("evalica", "a", "b", "b"), ("evalica", "a", "c", "tie"), ("evalica", "b", "c", "a"),
    ]  # fmt: skip


@pytest.mark.parametrize("form", ["lines", "list"])
def test_votes_from_chatbot_arena(tmp_path: Path, form: str) -> None:
    votes = [
        {"model_a": "a", "model_b": "b", "winner": winner, "judge": "j", "conversation_a": [{"role": "user"}]}
        for winner in ("model_a", "model_b", "tie", "tie (bothbad)")
    ]
    lines = [json.dumps(vote) for vote in votes]
    text = "\n".join(lines) if form == "lines" else "[\n" + ",\n".join(lines) + "\n]\n"
    found = answers(write(tmp_path, text))
    assert [row[1:] for row in found] == [("j", "a", "b", choice) for choice in ("a", "b", "tie", "tie")]
    assert [row[0] for row in found] == ([1, 2, 3, 4] if form == "lines" else [2, 3, 4, 5])


def test_ukpconvarg_rows_with_and_without_workers(tmp_path: Path) -> None:
    crowd = '#id\tturkerid\tlabel\ta1\ta2\nx_1_y_2\tw9\ta2\t"open\tclosed"\narg1_arg2\tw9\tequal\tA\tB\n'
    assert answers(write(tmp_path, crowd)) == [(2, "w9", "x_1", "y_2", "b"), (3, "w9", "arg1", "arg2", "tie")]
    gold = "#id\tlabel\ta1\ta2\narg1_arg2\ta1\tA\tB\n"
    assert answers(write(tmp_path, gold)) == [(2, "ukpconvarg", "arg1", "arg2", "a")]


def test_retracted_and_skipped_rows_of_a_concord_export_are_excluded(tmp_path: Path) -> None:
    text = "worker,a,b,choice,retracted\nw,x,y,a,false\nw,x,z,b,true\nw,y,z,skip,false\n"
    assert answers(write(tmp_path, text)) == [(2, "w", "x", "y", "a")]


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ('{"worker": "w", "a": "x", "b": "y", "choice": "a"}\n{"worker": "w"', 2, "not a JSON object"),
        ('{"worker": "w", "a": "x", "b": "y", "choice": "a"}\n{"worker": "w"}', 2, "needs the same names"),
        ('{"worker": "w", "a": "x", "b": "y", "choice": "a"}\n[1]', 2, "not a JSON object"),
        ('[\n{"worker": "w", "a": "x", "b": "y", "choice": "a"},\n7]', 3, "not a JSON object"),
        ("[" * 100_000, 1, "not a JSON object"),
        ("#id\tturkerid\tlabel\ta1\ta2\nabc\tw\ta1\tA\tB\n", 2, "This cell is empty"),
        ("worker,left,right,label\nw,a,b,z\n", 2, "Invalid choices"),
        ("left,right,winner\na,b,Left wins\n", 2, "Invalid choices"),
    ],
)
def test_unreadable_rows_are_reported_with_their_line(tmp_path: Path, text: str, line: int, message: str) -> None:
    with pytest.raises(ImportFileError) as caught:
        read_judgements(write(tmp_path, text))
    assert any(problem.line == line and message in problem.message for problem in caught.value.problems)


def test_nul_characters_and_lone_surrogates_are_rejected(tmp_path: Path) -> None:
    for escaped in ("\\u0000", "\\ud800"):
        with pytest.raises(ImportFileError, match="not allowed in text"):
            read_items(write(tmp_path, f'{{"key": "x", "text": "{escaped}"}}\n{{"key": "y", "text": "z"}}'))


@pytest.mark.django_db
def test_a_ukpconvarg_pair_id_is_split_into_two_known_keys(project: Project, tmp_path: Path) -> None:
    """Keys may contain underscores, so the separator need not be the middle one."""
    for key in ("a_1", "=b", "c"):
        Item.objects.create(project=project, key=key, text=f"{key}.")
    head = "#id\tturkerid\tlabel\ta1\ta2\n"
    lines = "a_1_c\tw\ta1\tA\tC\nc_a_1\tw\ta1\tC\tA\n'=b_a_1\tw\tequal\tB\tA\n"
    plan = plan_judgements(project, read_judgements(write(tmp_path, head + lines)))
    assert [(each.lo.key, each.hi.key, each.choice) for each in plan.added] == [
        ("a_1", "c", "lo"), ("a_1", "c", "hi"), ("a_1", "=b", "tie"),
    ]  # fmt: skip
    for unclear in ("a_2_c", "c", "_c"):
        with pytest.raises(ImportFileError):
            plan_judgements(project, read_judgements(write(tmp_path, f"{head}{unclear}\tw\ta1\tA\tC\n")))


def test_a_json_table_exported_by_concord_is_read(tmp_path: Path) -> None:
    row = {"worker": "w", "a": "x", "b": "y", "choice": "a", "retracted": False}
    rows = [row, {**row, "b": "z", "choice": "tie"}, {**row, "b": "q", "retracted": True}]
    rows = ",\n".join(json.dumps(each) for each in rows)
    text = f'{{"table":"judgements","version":null,"as_of_seq":3,"rows":[\n{rows}\n]}}\n'
    assert answers(write(tmp_path, text)) == [(2, "w", "x", "y", "a"), (3, "w", "x", "z", "tie")]
    with pytest.raises(ImportFileError):
        answers(write(tmp_path, text.replace("]}", "")))


@pytest.mark.django_db
def test_apostrophes_of_an_exported_file_create_no_new_items(project: Project, tmp_path: Path) -> None:
    Item.objects.create(project=project, key="=k", text="+1 for cats", group="@home")
    exported = write(tmp_path, "key,text,group\n'=k,'+1 for cats,'@home\ncats-1,Cats purr.,cats\n")
    assert not plan_items(project, read_items(exported)).changes_anything
    both = write(tmp_path, "key,text\n=k,+1 for cats\n'=k,Another.\n")
    assert plan_items(project, read_items(both)).counts["added"] == 1

"""What the columns of a file are used as: guesses from names and first cells, for items and judgements."""

from pathlib import Path

import pytest

from annotation.importing.columns import KEEP, SKIP, STUDY, StudyNotChosen, TableSample, read_sample
from annotation.importing.item_files import guess_item_columns, read_items
from annotation.importing.judgement_columns import guess_judgement_columns
from annotation.importing.judgement_files import read_judgements
from annotation.importing.problems import ImportFileError
from tests.helpers.imports import write


def sample(header: str, *rows: str) -> TableSample:
    return TableSample(header.split(","), [row.split(",") for row in rows])


# For each layout: the header, one row, and the guessed uses.
JUDGEMENT_LAYOUTS = {
    "Concord": ("worker,a,b,choice", "w,x,y,a", "worker a b choice"),
    "vehicles": (
        "study,worker,left,right,winner,response_ms",
        "nuisance_pairs,n70,15,25,25,3732",
        "study worker a b choice response_ms",
    ),
    "music": (
        "worker,a,b,choice,submitted,work_seconds,listening_seconds,musical_background",
        "m001,x,y,b,Wed Apr 14 20:01:15 GMT 2010,23,13,no",
        "worker a b choice time response_seconds keep keep",
    ),
    "UKPConvArg table": ("worker_id,item_a,item_b,choice,fold", "w0,x,y,tie,0", "worker a b choice keep"),
    "UKPConvArg original": ("#id,turkerid,label,a1,a2", "x_y,w,a1,X.,Y.", "pair worker choice skip skip"),
    "winner and loser": ("winner,loser", "x,y", "winner loser"),
    "comparative judgement": (
        "judge,candidate_chosen,candidate_not_chosen,time_taken",
        "ann,x,y,12.5",
        "worker winner loser response_seconds",
    ),
    "left and right with winner and loser": (
        "judgement_id,study,judge_id,left,right,won,lost,score,time_taken,comment",
        "2853,pairs,70,15,25,25,15,,3732,heavier",
        "keep study worker a b choice keep keep response_ms note",
    ),
    "crowd-kit": ("worker,left,right,label", "w,x,y,x", "worker a b choice"),
    "evalica": ("left,right,winner", "x,y,left", "a b choice"),
    "Chatbot Arena": (
        "model_a,model_b,winner,judge,tstamp,language",
        "x,y,model_a,j,1682351591.1322,English",
        "a b choice worker time keep",
    ),
    "numbered options": ("participant,option1,option2,chosen", "p,x,y,option1", "worker a b choice"),
    "items on sides": ("left_item,right_item,selected_item", "x,y,x", "a b choice"),
    "preferences": ("Annotator ID,chosen,rejected,Age", "ann,x,y,31", "worker winner loser trait"),
    "capitals and spaces": ("Rater,Item A,Item B,Preference", "ann,x,y,Item A", "worker a b choice"),
    "a Concord export": (
        "sequence,uuid,worker,a,b,choice,response_ms,created_at,retracted,note,extra:mood,version,as_of_seq",
        "1,u,w,x,y,a,5,2026-03-01T14:30:00Z,false,because,calm,,1",
        "skip skip worker a b choice response_ms time retracted note keep skip skip",
    ),
}


@pytest.mark.parametrize("name", JUDGEMENT_LAYOUTS)
def test_the_columns_of_judgements_are_guessed(name: str) -> None:
    header, row, uses = JUDGEMENT_LAYOUTS[name]
    assert guess_judgement_columns(sample(header, row)).uses == uses.split()


@pytest.mark.parametrize(
    ("header", "rows", "uses"),
    [
        ("key,text,group,year", ["1,A,g,1990"], "key text group keep"),
        ("item_id,fold,topic,stance,source_site,text", ["a,0,T,S,s,A."], "key keep group group keep text"),
        ("id,label,prompt", ["1,Car,Which is a vehicle?", "2,Bus,Which is a vehicle?"], "key text group"),
        ("id,label,prompt", ["1,Essay 1,A long text.", "2,Essay 2,Another long text."], "key keep text"),
        ("item_num,item_name,item_description", ["1,Airplane,Airplane with wings"], "key keep text"),
        ("#id,rank,argument", ["a,1,A."], "key keep text"),
        ("name,description", ["vanilla,With pods.", "lemon,A sorbet."], "key text"),
        ("name,description", ["ice,With pods.", "ice,A sorbet."], "keep text"),
        ("Argumente", ["A.", "B."], "text"),
        ("study,id,name,feature:x", ["s,1,A,2.5"], "study key text feature"),
        ("key,text,group,revision,active,author,version,as_of_seq", ["1,A,g,1,true,Ann,,9"],
         "key text group skip skip keep skip skip"),
    ],
)  # fmt: skip
def test_the_columns_of_items_are_guessed(header: str, rows: list[str], uses: str) -> None:
    assert guess_item_columns(sample(header, *rows)).uses == uses.split()


def test_long_cells_of_judgements_are_left_out() -> None:
    guessed = guess_judgement_columns(sample("model_a,model_b,winner,conversation_a", f"x,y,tie,{'word ' * 100}"))
    assert guessed.uses[3] == SKIP


def test_a_time_column_that_cannot_be_read_is_kept_as_it_is() -> None:
    guessed = guess_judgement_columns(sample("a,b,choice,date,timestamp", "x,y,a,last week,2026-03-01 10:00"))
    assert guessed.uses[3:] == [KEEP, "time"]


@pytest.mark.parametrize(
    ("cell", "moment"),
    [
        ("Wed Apr 14 20:01:15 GMT 2010", "2010-04-14T20:01:15+00:00"),
        ("Wed Apr 14 13:01:15 PDT 2010", "2010-04-14T20:01:15+00:00"),
        ("2026-03-01T14:30:00+01:00", "2026-03-01T13:30:00+00:00"),
        ("2026-03-01 14:30", "2026-03-01T14:30:00+00:00"),
        ("1682351591.5", "2023-04-24T15:53:11.500000+00:00"),
        ("1682351591500", "2023-04-24T15:53:11.500000+00:00"),
        ("01.03.2026 14:30", "2026-03-01T14:30:00+00:00"),
    ],
)
def test_times_are_read_in_common_formats(tmp_path: Path, cell: str, moment: str) -> None:
    (row,) = read_judgements(write(tmp_path, f"worker,a,b,choice,timestamp\nw,x,y,a,{cell}\n"))
    assert row.judged_at is not None
    assert row.judged_at.isoformat() == moment


def test_times_response_times_reasons_traits_and_extra_columns_are_read(tmp_path: Path) -> None:
    text = "worker,a,b,choice,work_seconds,comment,age,mood\nw,x,y,a,2.5, because ,31,calm\nw,x,z,b,,,31,\n"
    first, second = read_judgements(write(tmp_path, text))
    assert (first.response_ms, first.note, first.traits, first.extra) == (
        2500,
        "because",
        {"age": "31"},
        {"mood": "calm"},
    )
    assert (second.response_ms, second.note, second.extra) == (None, "", {})


def test_unreadable_times_and_response_times_are_problems_of_their_column(tmp_path: Path) -> None:
    columns = guess_judgement_columns(sample("worker,a,b,choice,when,response_ms", "w,x,y,a,,1"))
    columns.uses[4] = "time"
    path = write(tmp_path, "worker,a,b,choice,when,response_ms\nw,x,y,a,soon,fast\nw,x,z,a,later,-1\n")
    with pytest.raises(ImportFileError) as caught:
        read_judgements(path, columns)
    assert [(problem.column, problem.count) for problem in caught.value.problems] == [("when", 2), ("response_ms", 2)]
    assert "“soon”, “later”" in caught.value.problems[0].message


@pytest.mark.parametrize(
    ("text", "choices"),
    [
        ("left,right,winner\n1,2,2\n2,3,2\n1,3,tie\n", ["b", "a", "tie"]),  # keys, though 1 and 2 look like sides
        ("left,right,winner\n7,8,1\n8,9,2\n1,9,1\n", ["a", "b", "a"]),  # sides, though 1 is also a key
        ("a,b,choice\nb,a,a\n", ["a"]),  # a side, because Concord's own column says so
        ("left,right,winner\nx,y,Left\nx,z,RIGHT\nx,w,Draw\n", ["a", "b", "tie"]),
        ("item_a,item_b,answer\nx,y,item_b\nx,z,second\n", ["b", "b"]),
        ("winner,loser\nx,y\n", ["a"]),
    ],
)
def test_the_preferred_item_is_named_by_its_side_or_its_key(tmp_path: Path, text: str, choices: list[str]) -> None:
    assert [row.choice for row in read_judgements(write(tmp_path, text))] == choices


def test_all_missing_columns_are_named_at_once(tmp_path: Path) -> None:
    with pytest.raises(ImportFileError) as caught:
        read_judgements(write(tmp_path, "worker,mood\nw,calm\n"))
    assert [problem.column for problem in caught.value.problems] == ["a", "b", "choice"]
    columns = guess_judgement_columns(sample("worker,best", "w,x"))
    columns.uses[1] = "winner"
    path = write(tmp_path, "worker,best\nw,x\n")
    with pytest.raises(ImportFileError, match="Columns are missing: “loser”"):
        read_judgements(path, columns)


STUDIES = "study,worker,left,right,winner\np,w,x,y,x\nq,w,x,y,y\nq,v,x,z,\nr,v,x,z,x\n"


def test_a_study_must_be_chosen_if_the_file_has_several(tmp_path: Path) -> None:
    path = write(tmp_path, STUDIES)
    with pytest.raises(StudyNotChosen) as caught:
        read_judgements(path)
    assert caught.value.studies == {"p": 1, "q": 2, "r": 1}
    guessed = guess_judgement_columns(read_sample(path))
    assert guessed.uses[0] == STUDY
    chosen = type(guessed)(guessed.header, guessed.uses, study="p")
    assert [row.line for row in read_judgements(path, chosen)] == [2]  # the row without a winner is of another study


def test_the_only_study_of_a_file_needs_no_choice(tmp_path: Path) -> None:
    assert len(read_items(write(tmp_path, "study,id,name\ns,1,A\ns,2,B\n"))) == 2


def test_windows_1252_is_read_with_a_note(tmp_path: Path) -> None:
    path = write(tmp_path, "key,text\nk1,naïve “quotes” – 5 €\nk2,B\n".encode("cp1252"))
    assert read_items(path)[0].text == "naïve “quotes” – 5 €"
    assert "Windows-1252" in read_sample(path).notes[0]

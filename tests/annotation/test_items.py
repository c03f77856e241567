"""Items by hand: added, corrected with history, switched off and on, found again; by those who may."""

import pytest
from django.test import Client

from annotation.curation import KeyTaken, Outdated, add_item, correct_item, current_items, switch_item
from annotation.models import AuditEntry, EventHead, Item, Project, User, Worker

pytestmark = pytest.mark.django_db


@pytest.fixture
def anna(analyst: User) -> Client:
    client = Client()
    client.force_login(analyst)
    return client


@pytest.fixture
def cat(project: Project) -> Item:
    return project.items.get(key="cats-1")


def inputs_revision(project: Project) -> int:
    return EventHead.objects.get(project=project).inputs_revision


def test_a_corrected_text_is_a_new_row_and_the_old_one_is_kept(project: Project, owner: User, cat: Item) -> None:
    revised = correct_item(item=cat, user=owner, text="Cats purr\r\nsoftly.", group="cats")
    cat.refresh_from_db()
    assert (cat.text, cat.active) == ("Cats purr.", False)
    assert (revised.key, revised.revision, revised.text, revised.active) == ("cats-1", 2, "Cats purr\nsoftly.", True)
    assert inputs_revision(project) == 1
    assert AuditEntry.objects.get(action="corrected an item").details == {"key": "cats-1", "revision": 2}


def test_judgements_stay_with_the_text_that_was_read(project: Project, worker: Worker, judge, owner: User) -> None:
    judgement = judge(worker).judgement
    revised = correct_item(item=judgement.item_lo, user=owner, text="Other words.", group="cats")
    judgement.refresh_from_db()
    assert judgement.item_lo_id != revised.pk
    assert judgement.item_lo.text != revised.text


def test_the_same_text_makes_no_revision_and_another_group_alone_neither(project: Project, cat: Item) -> None:
    assert correct_item(item=cat, user=None, text=cat.text, group="cats").pk == cat.pk
    assert inputs_revision(project) == 0
    moved = correct_item(item=cat, user=None, text=cat.text, group="pets")
    assert (moved.pk, moved.group) == (cat.pk, "pets")
    assert inputs_revision(project) == 1


def test_two_corrections_at_once_do_not_overwrite_each_other(cat: Item) -> None:
    correct_item(item=cat, user=None, text="The first correction.", group="cats")
    with pytest.raises(Outdated):
        correct_item(item=cat, user=None, text="The second correction.", group="cats")
    assert Item.objects.filter(key="cats-1").count() == 2


def test_switching_twice_is_switching_once(project: Project, cat: Item) -> None:
    for _ in range(2):
        assert not switch_item(item=cat, user=None, active=False).active
    assert inputs_revision(project) == 1
    assert switch_item(item=cat, user=None, active=True).active


def test_switching_an_old_revision_switches_the_newest(cat: Item) -> None:
    revised = correct_item(item=cat, user=None, text="Other words.", group="cats")
    assert switch_item(item=cat, user=None, active=False).pk == revised.pk
    assert not Item.objects.filter(key="cats-1", active=True).exists()


def test_a_correction_of_an_item_that_is_off_leaves_it_off(cat: Item) -> None:
    off = switch_item(item=cat, user=None, active=False)
    assert not correct_item(item=off, user=None, text="Other words.", group="cats").active


@pytest.mark.parametrize("key", ["cats-1", "Cats-1", "cats -1", "ｃａｔｓ-1"])
def test_a_key_that_is_taken_or_looks_taken_is_refused(project: Project, key: str) -> None:
    with pytest.raises(KeyTaken, match="“cats-1”"):
        add_item(project=project, user=None, key=key, text="New.")
    assert project.items.count() == 7


def test_the_current_items_are_one_row_for_each_key(project: Project, cat: Item) -> None:
    correct_item(item=cat, user=None, text="Other words.", group="cats")
    keys = list(current_items(project).values_list("key", flat=True))
    assert len(keys) == len(set(keys)) == 7


# Pages --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("", 7),
        ("?q=purr", 1),
        ("?q=DOGS", 3),
        ("?group=dogs", 3),
        ("?state=off", 1),
        ("?state=on", 6),
        ("?group=dogs&state=off", 0),
        ("?group=nonsense&state=nonsense&page=99", 7),
        ("?q=%00", 7),
    ],
)
def test_the_list_is_searched_and_filtered(project: Project, anna: Client, cat: Item, query: str, found: int) -> None:
    switch_item(item=cat, user=None, active=False)
    answer = anna.get(f"/projects/pets/items/{query}")
    assert answer.status_code == 200
    assert answer.context["page"].paginator.count == found


def test_a_long_list_is_paged_and_the_filter_goes_along(project: Project, anna: Client) -> None:
    Item.objects.bulk_create(Item(project=project, key=f"fish-{n}", text="Fish.", group="fish") for n in range(120))
    page = anna.get("/projects/pets/items/?group=fish&page=2").content.decode()
    assert "Page 2 of 3" in page
    assert 'href="?group=fish&amp;page=3"' in page


def test_an_empty_project_says_what_to_do(project: Project, anna: Client) -> None:
    project.items.all().delete()
    assert "There are no items yet" in anna.get("/projects/pets/items/").content.decode()


def test_an_item_is_added_in_the_browser(project: Project, anna: Client) -> None:
    answer = anna.post(
        "/projects/pets/items/add/", {"key": " fish-1 ", "text": "Fish swim.\r\nSlowly.", "group": "fish"}
    )
    item = project.items.get(key="fish-1")
    assert (answer.status_code, answer["Location"]) == (302, f"/projects/pets/items/{item.pk}/")
    assert item.text == "Fish swim.\nSlowly."


@pytest.mark.parametrize(
    "data",
    [
        {"key": "", "text": "x"},
        {"key": "cats-1", "text": "x"},
        {"key": "k", "text": "  "},
        {"key": "k", "text": "x" * 20_001},
        {"key": "k" * 201, "text": "x"},
        {"key": "k\u202ek", "text": "x"},
        {"key": "k", "text": "x\0y"},
    ],
)
def test_a_bad_item_is_refused_and_what_was_typed_is_kept(project: Project, anna: Client, data: dict[str, str]) -> None:
    answer = anna.post("/projects/pets/items/add/", data)
    assert answer.status_code == 422
    assert answer.context["form"]["text"].value() == data["text"]
    assert project.items.count() == 7


def test_a_text_of_the_limit_fits_though_browsers_send_two_characters_for_a_line_end(
    project: Project, anna: Client
) -> None:
    text = "x" * 19_990 + "\r\n" * 10
    assert anna.post("/projects/pets/items/add/", {"key": "k", "text": text}).status_code == 302


def test_an_item_is_corrected_in_the_browser_with_its_history(project: Project, anna: Client, cat: Item) -> None:
    answer = anna.post(f"/projects/pets/items/{cat.pk}/", {"text": "Cats purr well.", "group": "cats"}, follow=True)
    page = answer.content.decode()
    assert "Cats purr well." in page
    assert "Cats purr." in page
    old = anna.get(f"/projects/pets/items/{cat.pk}/").content.decode()
    assert "The text was corrected since" in old


def test_a_correction_of_an_old_text_is_refused_and_what_was_typed_is_kept(
    project: Project, anna: Client, cat: Item
) -> None:
    correct_item(item=cat, user=None, text="Somebody was quicker.", group="cats")
    answer = anna.post(f"/projects/pets/items/{cat.pk}/", {"text": "My long work.", "group": "cats"})
    assert answer.status_code == 409
    assert "My long work." in answer.content.decode()
    assert not Item.objects.filter(text="My long work.").exists()


def test_an_item_is_switched_off_and_on_in_the_browser(anna: Client, cat: Item) -> None:
    for value, active in (("off", False), ("off", False), ("on", True)):
        assert anna.post(f"/projects/pets/items/{cat.pk}/switch/", {"active": value}).status_code == 302
        cat.refresh_from_db()
        assert cat.active == active


def test_a_viewer_reads_and_does_not_change(project: Project, viewer: User, cat: Item) -> None:
    client = Client()
    client.force_login(viewer)
    for address in ("items/", f"items/{cat.pk}/"):
        answer = client.get(f"/projects/pets/{address}")
        assert answer.status_code == 200
        assert "Correct it" not in answer.content.decode()
    assert client.get("/projects/pets/items/add/").status_code == 403
    for address in ("items/add/", f"items/{cat.pk}/", f"items/{cat.pk}/switch/"):
        assert client.post(f"/projects/pets/{address}", {"text": "x", "key": "x"}).status_code == 403
    cat.refresh_from_db()
    assert cat.text == "Cats purr."


def test_an_item_of_another_project_is_not_found(anna: Client, stranger: User) -> None:
    elsewhere = Project.objects.get(slug="elsewhere")
    item = add_item(project=elsewhere, user=stranger, key="k", text="Secret.")
    assert anna.get(f"/projects/pets/items/{item.pk}/").status_code == 404
    assert anna.post(f"/projects/pets/items/{item.pk}/switch/", {"active": "off"}).status_code == 404

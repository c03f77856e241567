"""Adding, correcting, activating and searching items."""

import pytest
from django.test import Client

from annotation.models import AuditEntry, EventHead, Item, Project, User, Worker
from annotation.services.items import EditConflict, KeyTaken, add_item, correct_item, current_items, set_item_active

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


def test_a_corrected_text_is_a_new_row_beside_the_old_one(project: Project, owner: User, cat: Item) -> None:
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


def test_a_revision_needs_a_changed_text(project: Project, cat: Item) -> None:
    assert correct_item(item=cat, user=None, text=cat.text, group="cats").pk == cat.pk
    assert inputs_revision(project) == 0
    moved = correct_item(item=cat, user=None, text=cat.text, group="pets")
    assert (moved.pk, moved.group) == (cat.pk, "pets")
    assert inputs_revision(project) == 1


def test_concurrent_corrections_do_not_overwrite_each_other(cat: Item) -> None:
    correct_item(item=cat, user=None, text="The first correction.", group="cats")
    with pytest.raises(EditConflict):
        correct_item(item=cat, user=None, text="The second correction.", group="cats")
    assert Item.objects.filter(key="cats-1").count() == 2


def test_switching_is_idempotent(project: Project, cat: Item) -> None:
    for _ in range(2):
        assert not set_item_active(item=cat, user=None, active=False).active
    assert inputs_revision(project) == 1
    assert set_item_active(item=cat, user=None, active=True).active


def test_switching_an_old_revision_switches_the_newest(cat: Item) -> None:
    revised = correct_item(item=cat, user=None, text="Other words.", group="cats")
    assert set_item_active(item=cat, user=None, active=False).pk == revised.pk
    assert not Item.objects.filter(key="cats-1", active=True).exists()


def test_a_corrected_inactive_item_stays_inactive(cat: Item) -> None:
    off = set_item_active(item=cat, user=None, active=False)
    assert not correct_item(item=off, user=None, text="Other words.", group="cats").active


@pytest.mark.parametrize("key", ["cats-1", "Cats-1", "cats -1", "ｃａｔｓ-1"])
def test_a_used_or_similar_key_is_rejected(project: Project, key: str) -> None:
    with pytest.raises(KeyTaken, match="“cats-1”"):
        add_item(project=project, user=None, key=key, text="New.")
    assert project.items.count() == 7


def test_current_items_have_one_row_per_key(project: Project, cat: Item) -> None:
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
    set_item_active(item=cat, user=None, active=False)
    response = anna.get(f"/projects/pets/items/{query}")
    assert response.status_code == 200
    assert response.context["page"].paginator.count == found


def test_pagination_keeps_the_filters(project: Project, anna: Client) -> None:
    Item.objects.bulk_create(Item(project=project, key=f"fish-{n}", text="Fish.", group="fish") for n in range(120))
    page = anna.get("/projects/pets/items/?group=fish&page=2").content.decode()
    assert "Page 2 of 5" in page
    assert 'href="?group=fish&amp;page=3"' in page


def test_an_empty_project_shows_what_to_do(project: Project, anna: Client) -> None:
    project.items.all().delete()
    assert "There are no items yet" in anna.get("/projects/pets/items/").content.decode()


def test_an_item_is_added_in_the_browser(project: Project, anna: Client) -> None:
    response = anna.post(
        "/projects/pets/items/add/", {"key": " fish-1 ", "text": "Fish swim.\r\nSlowly.", "group": "fish"}
    )
    item = project.items.get(key="fish-1")
    assert (response.status_code, response["Location"]) == (302, f"/projects/pets/items/{item.pk}/")
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
def test_an_invalid_item_is_rejected_and_the_form_keeps_its_text(
    project: Project, anna: Client, data: dict[str, str]
) -> None:
    response = anna.post("/projects/pets/items/add/", data)
    assert response.status_code == 422
    assert response.context["form"]["text"].value() == data["text"]
    assert project.items.count() == 7


def test_line_ends_count_as_one_character(project: Project, anna: Client) -> None:
    text = "x" * 19_990 + "\r\n" * 10
    assert anna.post("/projects/pets/items/add/", {"key": "k", "text": text}).status_code == 302


def test_an_item_is_corrected_in_the_browser_with_its_history(project: Project, anna: Client, cat: Item) -> None:
    response = anna.post(f"/projects/pets/items/{cat.pk}/", {"text": "Cats purr well.", "group": "cats"}, follow=True)
    page = response.content.decode()
    assert "Cats purr well." in page
    assert "Cats purr." in page
    old = anna.get(f"/projects/pets/items/{cat.pk}/").content.decode()
    assert "The text has been corrected since" in old


def test_an_outdated_correction_is_rejected_and_the_form_keeps_its_text(
    project: Project, anna: Client, cat: Item
) -> None:
    correct_item(item=cat, user=None, text="An earlier correction.", group="cats")
    response = anna.post(f"/projects/pets/items/{cat.pk}/", {"text": "My long work.", "group": "cats"})
    assert response.status_code == 409
    assert "My long work." in response.content.decode()
    assert not Item.objects.filter(text="My long work.").exists()


def test_an_item_is_switched_off_and_on_in_the_browser(anna: Client, cat: Item) -> None:
    for value, active in (("off", False), ("off", False), ("on", True)):
        assert anna.post(f"/projects/pets/items/{cat.pk}/switch/", {"active": value}).status_code == 302
        cat.refresh_from_db()
        assert cat.active == active


def test_a_viewer_cannot_change_items(project: Project, viewer: User, cat: Item) -> None:
    client = Client()
    client.force_login(viewer)
    for address in ("items/", f"items/{cat.pk}/"):
        response = client.get(f"/projects/pets/{address}")
        assert response.status_code == 200
        assert "Save correction" not in response.content.decode()
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

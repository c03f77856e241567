"""The recruitment settings: what is accepted, what is refused, and where the link leads."""

import re
from collections.abc import Callable

import pytest
from django.test import Client

from annotation.models import AuditEntry, Project, Recruitment, User
from annotation.platforms import Identity, get_platform
from annotation.services.participation import recruitment
from annotation.services.participation.arrival import count_arrival, get_recruitment

pytestmark = pytest.mark.django_db
PAGE = "/projects/pets/recruitment/"
LogIn = Callable[[User], Client]


@pytest.fixture
def olga(project: Project, owner: User, log_in: LogIn) -> Client:
    return log_in(owner)


def test_saving_shows_the_link_for_prolific_and_is_audited(olga: Client) -> None:
    olga.post(PAGE, {"platform": "prolific", "code_finished": "C1ABC", "participant_parameter": "participant"})
    assert Recruitment.objects.get().codes == {"finished": "C1ABC"}
    page = olga.get(PAGE).content.decode()
    assert "/s/pets/?PROLIFIC_PID={{%PROLIFIC_PID%}}&amp;STUDY_ID={{%STUDY_ID%}}" in page
    assert page.count("data-copy=") == 2, "the study link and the address for events can be copied"
    assert AuditEntry.objects.latest("pk").details["platform"] == ["", "prolific"]
    assert "codes: – → finished C1ABC" in olga.get("/projects/pets/").content.decode()


def test_an_arrival_counted_while_the_settings_are_saved_is_kept(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_before_the_arrival(project: Project) -> Recruitment:
        row = get_recruitment(project)
        count_arrival(project)
        return row

    recruitment.change_recruitment(project=project, user=None, changes={"platform": "prolific"})
    monkeypatch.setattr(recruitment, "get_recruitment", read_before_the_arrival)
    changed = recruitment.change_recruitment(project=project, user=None, changes={"platform": "mturk"})
    changed.refresh_from_db()
    assert (changed.platform, changed.arrivals) == ("mturk", 1)


def test_fields_of_a_platform_are_marked_as_such(olga: Client) -> None:
    groups = re.findall(r'data-platforms="([a-z ]+)">\s*<legend>([^<]+)', olga.get(PAGE).text)
    assert groups == [
        ("prolific mturk generic", "Study on the platform"),
        ("generic", "Only for another panel"),
        ("prolific", "Only for Prolific"),
    ]


@pytest.mark.parametrize("page", ["/projects/pets/", "/projects/pets/link/"])
def test_pages_show_the_link_for_the_platform_not_the_one_it_refuses(olga: Client, project: Project, page: str) -> None:
    Recruitment.objects.create(project=project, platform="prolific")
    shown = olga.get(page).content.decode()
    assert "PROLIFIC_PID={{%PROLIFIC_PID%}}" in shown
    assert "Everyone with this link" not in shown


@pytest.mark.parametrize(
    "address",
    [
        "javascript:alert(1)",
        "//evil",
        "https://app.prolific.com.evil.io/?cc={code}",
        "http://app.prolific.com/",
        "https://app.prolific.com@evil.io/",
        "https://{participant}.sona-systems.com/",
        "https://app.prolific.com:8443/",
        "https://[::1",
        "https://evil.io\\.sona-systems.com/",
        "https://evil.io%2f.sona-systems.com/",
        "https://evil.io .sona-systems.com/",
    ],
)
def test_a_completion_link_to_another_host_is_refused(olga: Client, address: str) -> None:
    values = {"platform": "generic", "participant_parameter": "pid", "completion_url": address}
    assert olga.post(PAGE, values).status_code == 422
    assert not Recruitment.objects.exists()


def test_a_completion_link_to_a_known_host_is_accepted(olga: Client) -> None:
    address = "https://lab.sona-systems.com/webstudy_credit.aspx?survey_code={participant}"
    values = {"platform": "generic", "participant_parameter": "pid", "completion_url": address}
    assert olga.post(PAGE, values).status_code == 302


@pytest.mark.parametrize(
    "values",
    [
        {"code_finished": "two words"},
        {"code_finished": "SAME", "code_error": "SAME"},
        {"platform": "generic", "participant_parameter": ""},
        {"participant_parameter": "a&b"},
        {"platform": "facebook"},
    ],
    ids=["space in a code", "code used twice", "no parameter", "parameter with &", "unknown platform"],
)
def test_invalid_settings_are_refused(olga: Client, values: dict[str, str]) -> None:
    assert olga.post(PAGE, {"platform": "prolific", "participant_parameter": "pid"} | values).status_code == 422
    assert not Recruitment.objects.exists()


def test_the_link_back_to_a_panel_contains_the_escaped_ids(project: Project) -> None:
    recruitment = Recruitment(
        project=project, platform="generic", completion_url="https://x.sona-systems.com/?s={participant}&c={code}"
    )
    recruitment.codes = {"finished": "OK"}
    completion = get_platform(recruitment).complete("finished", Identity("generic", "a&b=c"))
    assert completion.url == "https://x.sona-systems.com/?s=a%26b%3Dc&c=OK"


@pytest.mark.parametrize(
    ("outcome", "is_earned"),
    [
        ("finished", True), ("no_work_left", True), ("error", True),
        ("declined", False), ("failed_checks", False), ("screened_out", False), ("stopped", False),
    ],
)  # fmt: skip
def test_a_link_that_gives_credit_to_everyone_must_be_earned(project: Project, outcome: str, is_earned: bool) -> None:
    """SONA's link has no code: anyone who opens it gets the credit."""
    address = "https://x.sona-systems.com/webstudy_credit.aspx?survey_code={participant}"
    recruitment = Recruitment(project=project, platform="generic", completion_url=address, codes={outcome: "C1"})
    completion = get_platform(recruitment).complete(outcome, Identity("generic", "a"))
    assert (bool(completion.url), completion.code) == (is_earned, "C1")


@pytest.mark.parametrize(
    ("outcome", "is_returned"),
    [
        ("finished", False), ("no_work_left", False), ("stopped", False), ("error", False),
        ("declined", True), ("failed_checks", True), ("screened_out", True), ("returned", True),
    ],
)  # fmt: skip
@pytest.mark.parametrize("platform", ["prolific", "generic"])
def test_without_a_code_only_workers_who_are_not_paid_are_asked_to_return_the_task(
    project: Project, platform: str, outcome: str, is_returned: bool
) -> None:
    completion = get_platform(Recruitment(project=project, platform=platform)).complete(
        outcome, Identity(platform, "a")
    )
    assert (completion.return_asked, completion.submit_asked) == (is_returned, not is_returned)

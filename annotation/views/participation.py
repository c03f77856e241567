"""Pages for workers who leave and return: stop, continue, enter a return code, download or delete their data."""

import json
from functools import wraps

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from annotation import services
from annotation.forms.participation import DeleteDataForm, ReturnForm
from annotation.http.access import delete_worker_cookie, find_cookie_worker, get_worker, set_worker_cookie
from annotation.http.downloads import attachment, csv_attachment
from annotation.http.error_pages import too_many_requests
from annotation.http.throttling import too_many_returns
from annotation.models import Project, Worker
from annotation.services.privacy.personal_data import ANSWER_COLUMNS, copy_of_answers, copy_of_data
from annotation.storage import queries
from annotation.views.judging import View, in_study_language, participation_context

RETURN_WAIT_SECONDS = 900
TO_DATA = "data"  # value of the parameter `to`: after returning, show the worker's data instead of the next pair


def returned_workers_only(view: View) -> View:
    """Pass the worker instead of the project; others are asked for their return code."""

    @wraps(view)
    def wrapper(request: HttpRequest, project: Project) -> HttpResponse:
        worker = get_worker(request, project)
        if worker is None:
            return _ask_for_code(project)
        return view(request, worker)

    return wrapper


def _ask_for_code(project: Project) -> HttpResponse:
    return redirect(f"{reverse('annotation:return', args=[project.slug])}?to={TO_DATA}")


@require_POST
@in_study_language
def stop(request: HttpRequest, project: Project) -> HttpResponse:
    """End the worker's task early; the judging page then shows the thank-you page."""
    if worker := get_worker(request, project):
        services.stop_early(worker=worker)
    return redirect(project.get_judging_url())


@require_POST
@in_study_language
def resume(request: HttpRequest, project: Project) -> HttpResponse:
    """Continue after stopping early."""
    if worker := get_worker(request, project):
        services.continue_judging(worker=worker)
    return redirect(project.get_judging_url())


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@in_study_language
def return_with_code(request: HttpRequest, project: Project) -> HttpResponse:
    """Identify a worker by their return code, on another device or after the cookies were cleared.

    The response is the same for a wrong code, a code of another study and the code of an erased worker.
    """
    form = ReturnForm(request.POST if request.method == "POST" else None)
    to_data = request.GET.get("to") == TO_DATA
    if form.is_valid():
        digest = services.digest_return_code(form.cleaned_data["code"])
        if too_many_returns(request, digest):
            return too_many_requests(request, retry_seconds=RETURN_WAIT_SECONDS)
        worker = services.find_returning_worker(project=project, digest=digest)
        if worker is not None:
            response = redirect("annotation:own_data" if to_data else "annotation:judge", project.slug)
            set_worker_cookie(response, worker)
            return response
        form.add_error("code", _("This study has no such return code. Please compare it with the one you wrote down."))
    context = {"project": project, "form": form, "to_data": to_data}
    return render(request, "annotation/participation/return.html", context, status=422 if form.is_bound else 200)


@never_cache
@require_safe
@in_study_language
@returned_workers_only
def own_data(request: HttpRequest, worker: Worker) -> HttpResponse:
    """Show what the study stores about the worker."""
    return _own_data_page(request, worker, DeleteDataForm())


def _own_data_page(request: HttpRequest, worker: Worker, form: DeleteDataForm) -> HttpResponse:
    context = participation_context(worker.project, worker)
    context |= {"form": form, "n_answers": queries.count_judgements(worker)}
    return render(request, "annotation/participation/own_data.html", context, status=422 if form.is_bound else 200)


@never_cache
@require_safe
@in_study_language
@returned_workers_only
def own_data_json(request: HttpRequest, worker: Worker) -> HttpResponse:
    """Download the worker's participation, questionnaire, platform IDs and answers as JSON."""
    content = json.dumps(copy_of_data(worker), ensure_ascii=False, indent=2).encode()
    return attachment("my-data.json", content, "application/json")


@never_cache
@require_safe
@in_study_language
@returned_workers_only
def own_data_csv(request: HttpRequest, worker: Worker) -> HttpResponse:
    """Download the worker's answers as CSV."""
    return csv_attachment("my-answers.csv", copy_of_answers(worker), ANSWER_COLUMNS)


@require_POST
@in_study_language
def delete_own_data(request: HttpRequest, project: Project) -> HttpResponse:
    """Delete the worker's data and answers once they have confirmed. A repeated request deletes nothing more."""
    worker = find_cookie_worker(request, project)
    if worker is None:
        return _ask_for_code(project)
    form = DeleteDataForm(request.POST)
    if worker.state != Worker.State.WITHDRAWN:
        if not form.is_valid():
            return _own_data_page(request, worker, form)
        services.erase_worker(worker=worker, user=None, remove_judgements=True)
    return _left(request, project, worker, deleted=True)


@require_POST
@in_study_language
def leave_device(request: HttpRequest, project: Project) -> HttpResponse:
    """Forget the worker in this browser; they can return with their code."""
    return _left(request, project, get_worker(request, project), deleted=False)


def _left(request: HttpRequest, project: Project, worker: Worker | None, deleted: bool) -> HttpResponse:
    """Render the farewell page, which clears what this browser stored about the worker, and delete their cookie."""
    context = {"project": project, "former_worker": worker, "deleted": deleted}
    response = render(request, "annotation/participation/left.html", context)
    delete_worker_cookie(response, project)
    return response

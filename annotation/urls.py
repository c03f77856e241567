"""Addresses of the judging side: workers under /s/, researchers under /projects/."""

from django.urls import path

from annotation.views import home, housekeeping, imports, invitations, items, judging, members, projects, workers

app_name = "annotation"
urlpatterns = [
    path("", home.home, name="home"),
    path("s/<slug:slug>/", judging.judge, name="judge"),
    path("s/<slug:slug>/join/", judging.join, name="join"),
    path("s/<slug:slug>/task/", judging.task, name="task"),
    path("s/<slug:slug>/judgements/", judging.submit, name="submit"),
    path("s/<slug:slug>/retractions/", judging.retract, name="retract"),
    path("projects/", projects.listing, name="projects"),
    path("projects/new/", projects.create, name="project_new"),
    path("projects/<slug:slug>/", projects.show, name="project"),
    path("projects/<slug:slug>/settings/", projects.edit, name="project_settings"),
    path("projects/<slug:slug>/state/", projects.change_state, name="project_state"),
    path("projects/<slug:slug>/copy/", housekeeping.copy, name="project_copy"),
    path("projects/<slug:slug>/archive/", housekeeping.archive, name="project_archive"),
    path("projects/<slug:slug>/delete/", housekeeping.delete, name="project_delete"),
    path("projects/<slug:slug>/preview/", judging.preview, name="preview"),
    path("projects/<slug:slug>/workers/<slug:code>/erase/", workers.erase, name="erase_worker"),
    path("projects/<slug:slug>/members/", members.members, name="members"),
    path("projects/<slug:slug>/invitations/", invitations.invite, name="invite"),
    path("projects/<slug:slug>/invitations/<int:pk>/withdraw/", invitations.withdraw, name="withdraw_invitation"),
    path("invitations/<slug:token>/", invitations.show, name="invitation"),
    path("projects/<slug:slug>/items/", items.listing, name="items"),
    path("projects/<slug:slug>/items/add/", items.add, name="item_add"),
    path("projects/<slug:slug>/items/import/", imports.import_items, name="import_items"),
    path("projects/<slug:slug>/items/<int:pk>/", items.show, name="item"),
    path("projects/<slug:slug>/items/<int:pk>/switch/", items.switch, name="item_switch"),
    path("projects/<slug:slug>/judgements/import/", imports.import_judgements, name="import_judgements"),
]

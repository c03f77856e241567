"""Load the demo study if it is missing and print how to log in. `make run` calls this on every start."""

import os
import time
from typing import Any

from annotation.management.base import ConcordCommand
from annotation.models import Project
from modelling.models import ModelSnapshot
from modelling.simulation.demo_login import LogIn, get_or_create_login, password_file
from modelling.simulation.demo_study import SLUG, count, find_demo, load_demo


class Command(ConcordCommand):
    help = (
        "Loads the demo study with its simulated crowd and fits its first model, unless that was done before, and "
        "prints the researcher's log-in."
    )
    examples = ("demo", "demo --json")
    requires_system_checks = []

    def handle(self, *args: Any, **options: Any) -> None:
        login = get_or_create_login()
        project = find_demo()
        if project is None:
            project = self.load(login)
        else:
            self.write_message(f"{project.title} is already loaded: {describe(project)}.")
        if newest_version(project) is None:
            self.fit(project)
        self.write_login(login)

    def load(self, login: LogIn) -> Project:
        self.write_message("Loading the demo study ...")
        began = time.perf_counter()
        project = load_demo(login.user)
        self.write_message(f"Loaded in {time.perf_counter() - began:.1f} s: {describe(project)}.")
        return project

    def fit(self, project: Project) -> None:
        from modelling.updater.update import update_one  # imported here, so that later starts do not load numpy

        self.write_message("Fitting the first model ...")
        began = time.perf_counter()
        while newest_version(project) is None and update_one(f"demo-{os.getpid()}"):
            pass
        if snapshot := newest_version(project):
            spent = time.perf_counter() - began
            self.write_message(f"Version {snapshot.number} includes {snapshot.included:,} judgements ({spent:.1f} s).")
        else:
            self.write_message("The model is not fitted yet; `manage.py serve` will try again.")

    def write_login(self, login: LogIn) -> None:
        name = login.user.get_username()
        result = {"project": SLUG, "judging_page": f"/s/{SLUG}/", "name": name, "password": login.password or None}
        text = f"Judge pairs at /s/{SLUG}/. Researchers log in as:\n  user {name}, "
        if login.password:
            text += f"password {login.password} (also in {password_file()}, which only you can read)"
        else:
            text += f"with the password you set (to change it: manage.py changepassword {name})"
        self.write_result(result, text)


def newest_version(project: Project) -> ModelSnapshot | None:
    return ModelSnapshot.objects.filter(project=project).order_by("-number").first()


def describe(project: Project) -> str:
    has = count(project)
    return (
        f"{has.arguments} arguments in {has.debates} debates, {has.workers} workers, "
        f"{has.judgements:,} judgements ({has.simulated:,} simulated)"
    )

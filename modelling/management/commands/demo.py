"""Loads the demo study, once, and says each time how to log in. `make run` calls it on every start."""

import os
import time
from typing import Any

from annotation.models import Project
from annotation.terminal import TerminalCommand
from modelling.demo.load import SLUG, count, find_demo, load_demo
from modelling.demo.login import LogIn, find_or_make_login, password_file
from modelling.models import ModelSnapshot


class Command(TerminalCommand):
    help = (
        "Loads the demo study with its simulated crowd, once, fits its first model, and prints the researcher's "
        "log-in, each time."
    )
    examples = ("demo", "demo --json")
    requires_system_checks = []

    def handle(self, *args: Any, **options: Any) -> None:
        login = find_or_make_login()
        project = find_demo()
        if project is None:
            project = self.load(login)
        else:
            self.say(f"{project.title} is here already: {describe(project)}.")
        if newest_version(project) is None:
            self.fit(project)
        self.say_login(login)

    def load(self, login: LogIn) -> Project:
        """The study is stored, and said to be."""
        self.say("Loading the demo study ...")
        began = time.perf_counter()
        project = load_demo(login.user)
        self.say(f"Loaded in {time.perf_counter() - began:.1f} s: {describe(project)}.")
        return project

    def fit(self, project: Project) -> None:
        """The study has a first model, or its updater will make one."""
        from modelling.updating import run_one  # here, so that later starts need not load the numerics

        self.say("Fitting the first model ...")
        began = time.perf_counter()
        while newest_version(project) is None and run_one(f"demo-{os.getpid()}"):
            pass
        if snapshot := newest_version(project):
            spent = time.perf_counter() - began
            self.say(f"Version {snapshot.number} has learned from {snapshot.included:,} judgements ({spent:.1f} s).")
        else:
            self.say("The model is not fitted yet; the updater of `manage.py serve` will try again.")

    def say_login(self, login: LogIn) -> None:
        """The log-in as far as we know it, and what to do where we do not."""
        name = login.user.get_username()
        facts = {"project": SLUG, "judging_page": f"/s/{SLUG}/", "name": name, "password": login.password or None}
        words = f"Judge pairs at /s/{SLUG}/. Researchers log in as:\n  user {name}, "
        if login.password:
            words += f"password {login.password} (also in {password_file()}, which only you can read)"
        else:
            words += f"with the password you gave; a new one: manage.py changepassword {name}"
        self.answer(facts, words)


def newest_version(project: Project) -> ModelSnapshot | None:
    return ModelSnapshot.objects.filter(project=project).order_by("-number").first()


def describe(project: Project) -> str:
    """What the study holds, in words."""
    has = count(project)
    return (
        f"{has.arguments} arguments in {has.debates} debates, {has.workers} workers, "
        f"{has.judgements:,} judgements ({has.simulated:,} simulated)"
    )

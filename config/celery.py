"""The Celery application for the server profile. Tasks only wake updaters; the database determines what to do.

celery -A config.celery worker      celery -A config.celery beat
"""

import os

from celery import Celery

from config.profiles import settings_module

os.environ.setdefault("DJANGO_SETTINGS_MODULE", settings_module())

app = Celery("concord")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["modelling.updater"])

from django.apps import AppConfig
from django.db.models.signals import post_migrate


class AnnotationConfig(AppConfig):
    name = "annotation"
    verbose_name = "People judge pairs"

    def ready(self) -> None:
        from annotation import faults
        from annotation.append_only import guard_after_migrate

        faults.arm()
        post_migrate.connect(guard_after_migrate, sender=self, dispatch_uid="append-only")

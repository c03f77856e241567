"""Drop model settings that the model no longer has."""

from typing import Any

from django.db import migrations, models

REMOVED = {
    "n_inducing_items", "personal_variance", "consensus_variance", "consensus_certainty", "refine",
}  # fmt: skip


def drop_removed_settings(apps: Any, schema_editor: Any) -> None:
    projects = apps.get_model("annotation", "Project").objects.using(schema_editor.connection.alias)
    for project in projects.exclude(model_settings={}).only("pk", "model_settings").iterator():
        settings = project.model_settings
        if isinstance(settings, dict) and REMOVED & settings.keys():
            kept = {name: value for name, value in settings.items() if name not in REMOVED}
            projects.filter(pk=project.pk).update(model_settings=kept)


class Migration(migrations.Migration):
    dependencies = [
        ("annotation", "0006_field_texts"),
        ("modelling", "0013_plain_field_names"),
    ]

    operations = [
        migrations.RunPython(drop_removed_settings, migrations.RunPython.noop),
        migrations.AlterField(
            model_name="modelsnapshot",
            name="refined",
            field=models.BooleanField(
                default=False, help_text="Whether an earlier release refined its scores by sampling."
            ),
        ),
    ]

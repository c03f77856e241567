import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


def forget_links(apps, schema_editor):
    """No page ever used an invitation before; a link that was kept as it is cannot become a digest of itself."""
    apps.get_model("annotation", "Invitation").objects.all().delete()


class Migration(migrations.Migration):

    dependencies = [
        ("annotation", "0003_answers_wanted"),
    ]

    operations = [
        migrations.RunPython(forget_links, migrations.RunPython.noop, elidable=True),
        migrations.AlterModelOptions(name="invitation", options={"ordering": ["-expires_at"]}),
        migrations.RemoveField(model_name="invitation", name="token"),
        migrations.AddField(
            model_name="invitation",
            name="digest",
            field=models.CharField(default="", editable=False, max_length=64, unique=True),
            preserve_default=False,
        ),
        migrations.AddField(
            model_name="invitation",
            name="email",
            field=models.EmailField(
                blank=True, help_text="Where the link was sent; forgotten once it is used.", max_length=254
            ),
        ),
        migrations.AddField(
            model_name="invitation",
            name="used_by",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
    ]

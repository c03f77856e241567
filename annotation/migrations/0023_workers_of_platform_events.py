import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('annotation', '0022_study_passport'),
    ]

    operations = [
        migrations.AddField(
            model_name='platformevent',
            name='worker',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='platform_events', to='annotation.worker'),
        ),
    ]

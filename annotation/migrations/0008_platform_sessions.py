from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('annotation', '0007_own_view_shown'),
    ]

    operations = [
        migrations.AddField(
            model_name='platformidentity',
            name='session_id',
            field=models.CharField(blank=True, help_text="The platform's latest submission or assignment of this participant.", max_length=200),
        ),
        migrations.AddField(
            model_name='platformidentity',
            name='study_id',
            field=models.CharField(blank=True, help_text='What the platform calls the study.', max_length=200),
        ),
        migrations.AddField(
            model_name='platformidentity',
            name='verified',
            field=models.BooleanField(default=False, help_text='The platform signed these IDs.'),
        ),
        migrations.AlterField(
            model_name='platformidentity',
            name='external_id',
            field=models.CharField(help_text='What the platform calls the participant.', max_length=200),
        ),
    ]

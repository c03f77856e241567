import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('annotation', '0015_judgement_imports'),
    ]

    operations = [
        migrations.AddField(
            model_name='platformidentity',
            name='status',
            field=models.CharField(blank=True, help_text='What the platform last reported about the session.', max_length=40),
        ),
        migrations.AddField(
            model_name='recruitment',
            name='jwks',
            field=models.TextField(blank=True, help_text='The text at https://api.prolific.com/.well-known/study/jwks.json.', max_length=20000, verbose_name="Prolific's public keys"),
        ),
        migrations.AddField(
            model_name='recruitment',
            name='signed_links',
            field=models.BooleanField(default=False, help_text='Refuse workers whose link was not signed by Prolific. Turn on “secure URL” in Prolific first.', verbose_name='only signed links'),
        ),
        migrations.AddField(
            model_name='recruitment',
            name='webhook_secret',
            field=models.CharField(blank=True, help_text='It is not shown again. With it, the pairs of workers who return the task are released at once.', max_length=200, verbose_name="secret of Prolific's webhooks"),
        ),
        migrations.CreateModel(
            name='PlatformEvent',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('event_id', models.CharField(max_length=200)),
                ('session_id', models.CharField(help_text='The submission that the event is about.', max_length=200)),
                ('status', models.CharField(max_length=40)),
                ('sent_at', models.DateTimeField()),
                ('received_at', models.DateTimeField(auto_now_add=True)),
                ('project', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='platform_events', to='annotation.project')),
            ],
            options={
                'ordering': ['id'],
                'indexes': [models.Index(fields=['project', 'session_id'], name='platform_event_by_session')],
                'constraints': [models.UniqueConstraint(fields=('project', 'event_id'), name='platform_event_once')],
            },
        ),
    ]

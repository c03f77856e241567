from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('annotation', '0033_arrivals'),
    ]

    operations = [
        migrations.AddField(
            model_name='recruitment',
            name='unverified_at',
            field=models.DateTimeField(blank=True, editable=False, help_text='When a worker last arrived with a link that was not verified.', null=True),
        ),
        migrations.AlterField(
            model_name='recruitment',
            name='jwks',
            field=models.TextField(blank=True, help_text='The text at https://api.prolific.com/.well-known/study/jwks.json. Paste it again if it has changed.', max_length=20000, verbose_name="Prolific's public keys"),
        ),
    ]

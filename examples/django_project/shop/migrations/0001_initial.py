"""Orders."""

from django.db import migrations, models


class Migration(migrations.Migration):
    """Create the table of orders."""

    initial = True
    operations = [
        migrations.CreateModel(
            name="Order",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("item", models.CharField(max_length=100)),
                ("price", models.PositiveIntegerField()),
                ("status", models.CharField(default="new", max_length=20)),
            ],
        ),
    ]

"""What the shop keeps."""

from django.db import models


class Order(models.Model):
    """Something that somebody has bought."""

    item = models.CharField(max_length=100)
    price = models.PositiveIntegerField()
    status = models.CharField(max_length=20, default="new")

    def __str__(self) -> str:
        return f"{self.item} ({self.status})"

"""A task for a child process, which imports this module and has no keys."""

from detent import App, JobContext

app = App("memory://")


@app.task(name="in_child", executor="process")
def in_child(ctx: JobContext, card: str) -> list[object]:
    """Return what arrived in the clear, and which keys are here."""
    return [card, dict(ctx.params), ctx.principal, len(app.config.encryption.keys)]

"""The tasks of this program. `detent node tasks:app` runs their jobs; this file enqueues one."""

from detent import App, JobContext

# Its settings come from DETENT_* variables, else from detent.toml; its jobs live in detent.db
# unless these say otherwise.
app = App()


# The name is what is stored with each job: it stays the same wherever this function moves.
@app.task(name="hello")
async def hello(ctx: JobContext, name: str) -> str:
    """Greet somebody; the line of the log is kept with the job."""
    greeting = f"Hello, {name}!"
    ctx.log.info(greeting)
    return greeting


if __name__ == "__main__":
    job = hello.enqueue_sync("Ada")
    print(f"enqueued job {job.id}")

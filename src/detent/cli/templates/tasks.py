"""The tasks of this program. `detent node tasks:app` runs their jobs; this file enqueues one."""

from detent import App, JobContext

# Its settings come from DETENT_* variables, else from detent.toml; its jobs live in detent.db
# unless these say otherwise.
app = App()


# Its name is stored with each job: `tasks.greet`, or what you write as name="...", which then
# stays the same wherever this function moves.
@app.task
async def greet(ctx: JobContext, name: str) -> str:
    """Greet somebody; the line of the log is kept with the job."""
    greeting = f"hello {name}"
    ctx.log.info(greeting)
    return greeting


if __name__ == "__main__":
    job = greet.enqueue_sync("Ada")
    print(f"enqueued job {job.id}")

"""Where tasks run besides the event loop."""

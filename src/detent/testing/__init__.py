"""What tests need: a PostgreSQL server of their own, and the suite that every store must pass."""

"""What `detent init` writes; `detent.toml` is made by tools/reference.py from the settings."""

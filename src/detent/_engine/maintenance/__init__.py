"""Chores: each bounded, safe to run twice, and done by whichever node comes first."""

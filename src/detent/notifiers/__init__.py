"""Carriers of wake-ups: without this package they could only travel by the store itself."""

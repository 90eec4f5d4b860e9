"""A shop that packs its orders in the background."""

"""The shop's tables. Detent's own come with `detent migrate`."""
